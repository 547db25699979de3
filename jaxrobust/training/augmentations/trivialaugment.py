"""TrivialAugment (Wide): one random operation of random strength per image, and nothing to tune.

Müller and Hutter 2021 (arXiv:2103.10158); the wide space as in torchvision: shear 0.99, 32 pixels, 135 degrees,
enhancement factors 1 ± 0.99, 8 to 2 bits, thresholds 255 to 0, 31 strengths. Known deviations: see `operations`.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from jaxrobust.core.types import Array
from jaxrobust.training.augmentations.operations import Space, geometry_and_color, nothing, perform, random_sign
from jaxrobust.training.technique import TECHNIQUES, Augmentation

BINS = 31
PIXELS = 32


def wide_space(shape: tuple[int, ...]) -> Space:
  """Returns the 14 operations, for images of that shape: translations are in pixels."""
  return {
    "identity": nothing,
    "autocontrast": nothing,
    "equalize": nothing,
    "posterize": lambda level, sign: 8 - jnp.round(6 * level),
    "solarize": lambda level, sign: 255 * (1 - level),
    **geometry_and_color(shear=0.99, translate=(PIXELS / shape[0], PIXELS / shape[1]), degrees=135.0, enhance=0.99),
  }


@TECHNIQUES.register("trivialaugment")
@dataclass(frozen=True)
class TrivialAugment(Augmentation):
  """One operation, drawn evenly, at one of 31 strengths, drawn evenly."""

  def augment(self, image: Array, key: Array) -> Array:
    pick, strength, sign = jax.random.split(key, 3)
    space = wide_space(image.shape)
    choice = jax.random.randint(pick, (), 0, len(space))
    level = jax.random.randint(strength, (), 0, BINS) / (BINS - 1)
    return perform(space, choice, image, level, random_sign(sign))
