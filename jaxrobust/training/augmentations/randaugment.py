"""RandAugment as timm's `rand-m9-mstd0.5-inc1`: two random operations of rising strength per image.

Cubuk et al. 2020 (arXiv:1909.13719); the operations, their ranges and the jitter of the magnitude (normal, 0.5) are
those of timm's increasing table. Each operation is applied with probability 1/2; magnitudes are in [0, 10], those of
signed operations get a random sign. Known deviations: see `operations` (timm: random interpolation, gray outside).
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from jaxrobust.core.errors import InputError
from jaxrobust.core.types import Array
from jaxrobust.training.augmentations.operations import Space, geometry_and_color, nothing, perform, random_sign
from jaxrobust.training.technique import TECHNIQUES, Augmentation

LEVELS = 10.0
SPACE: Space = {
  "autocontrast": nothing,
  "equalize": nothing,
  "invert": nothing,
  "posterize": lambda level, sign: 4 - jnp.floor(4 * level),
  "solarize": lambda level, sign: 256 - jnp.floor(256 * level),
  "solarize-add": lambda level, sign: 110 * level,
  **geometry_and_color(shear=0.3, translate=(0.45, 0.45), degrees=30.0, enhance=0.9),
}


@TECHNIQUES.register("randaugment")
@dataclass(frozen=True)
class RandAugment(Augmentation):
  """`operations` random operations of magnitude ~ N(magnitude, deviation), clipped to [0, 10]."""

  magnitude: float = 9.0
  deviation: float = 0.5
  operations: int = 2
  probability: float = 0.5

  def __post_init__(self) -> None:
    if not 0 <= self.magnitude <= LEVELS:
      raise InputError(f"the magnitude must be in [0, 10], got {self.magnitude}")
    if not 0 <= self.probability <= 1 or self.operations < 1 or self.deviation < 0:
      given = (self.probability, self.operations, self.deviation)
      raise InputError(f"a probability in [0, 1], operations and a deviation that is not negative, got {given}")

  def augment(self, image: Array, key: Array) -> Array:
    def operate(number: Array, image: Array) -> Array:
      pick, noise, sign, apply = jax.random.split(jax.random.fold_in(key, number), 4)
      level = jnp.clip(self.magnitude + self.deviation * jax.random.normal(noise), 0.0, LEVELS) / LEVELS
      choice = jax.random.randint(pick, (), 0, len(SPACE))
      changed = perform(SPACE, choice, image, level, random_sign(sign))
      return jnp.where(jax.random.bernoulli(apply, self.probability), changed, image)

    # A loop compiles one operation, and each reads an image that is there, not one still to be computed.
    return jax.lax.fori_loop(0, self.operations, operate, image)
