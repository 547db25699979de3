"""IDBH: the augmentation that adversarial training gains most from; Li and Spratling 2023 (arXiv:2301.09879).

"Improved diversity and balanced hardness": flip, a crop that is shifted instead of padded all around (CropShift), one
random change of color or shape, random erasing. The numbers are the authors' `cifar10-weak` (erasing half of the
images), `cifar10-strong` (all of them) and `svhn` (stronger geometry, larger boxes). Known deviation: geometry is
bilinear.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from jaxrobust.core.registry import unknown_name
from jaxrobust.core.types import Array
from jaxrobust.training.augmentations.augment import Flip
from jaxrobust.training.augmentations.erasing import RandomErasing, box
from jaxrobust.training.augmentations.operations import Amount, Space, nothing, perform, random_sign
from jaxrobust.training.technique import TECHNIQUES, Augmentation


def _factor(low: float, high: float) -> Amount:
  return lambda level, sign: low + (high - low) * level - 1


def _shear(high: float) -> Amount:
  # The authors give angles in radians.
  return lambda level, sign: sign * jnp.tan(0.05 + (high - 0.05) * level)


def _degrees(highest: int) -> Amount:
  return lambda level, sign: sign * jnp.floor(1 + highest * level)


def _space(shear: float, highest: int) -> Space:
  return {
    "color": _factor(0.1, 1.9),
    "brightness": _factor(0.5, 1.9),
    "contrast": _factor(0.5, 1.9),
    "sharpness": _factor(0.1, 1.9),
    "autocontrast": nothing,
    "equalize": nothing,
    "shear-x": _shear(shear),
    "shear-y": _shear(shear),
    "rotate": _degrees(highest),
  }


# The operations and how often each is drawn; shears share their part between two directions.
COLOR = (_space(0.15, 10), (0.125, 0.125, 0.125, 0.125, 0.125, 0.125, 0.0625, 0.0625, 0.125))
SHAPE = (_space(0.35, 30), (0.08, 0.08, 0.04, 0.08, 0.04, 0.08, 0.15, 0.15, 0.3))

# CropShift's largest strength, the operations, erasing.
VERSIONS = {
  "cifar10-weak": (10, COLOR, RandomErasing(0.5)),
  "cifar10-strong": (10, COLOR, RandomErasing(1.0)),
  "svhn": (8, SHAPE, RandomErasing(1.0, largest=0.5)),
}


def crop_shift(image: Array, key: Array, strongest: int) -> Array:
  """Cuts `strength` rows and columns in all, at random edges, and puts the rest somewhere on a black image."""
  strength_key, split_key, from_key, to_key = jax.random.split(key, 4)
  strength = jax.random.randint(strength_key, (), 0, strongest + 1)
  columns = jax.random.randint(split_key, (), 0, strength + 1)
  cut = jnp.stack([strength - columns, columns])
  source = jax.random.randint(from_key, (2,), 0, cut + 1)
  target = jax.random.randint(to_key, (2,), 0, cut + 1)
  moved = jnp.roll(image, target - source, axis=(0, 1))
  size = jnp.asarray(image.shape[:2]) - cut
  return jnp.where(box(image.shape, target[0], target[1], size[0], size[1]), moved, 0.0)


@TECHNIQUES.register("idbh")
@dataclass(frozen=True)
class IDBH(Augmentation):
  """Flip, CropShift, one operation, random erasing, in one of three `version`s."""

  version: str = "cifar10-weak"

  def __post_init__(self) -> None:
    if self.version not in VERSIONS:
      raise unknown_name("version of idbh", self.version, sorted(VERSIONS))

  def augment(self, image: Array, key: Array) -> Array:
    flip, crop, pick, strength, sign, erase = jax.random.split(key, 6)
    strongest, (space, shares), erasing = VERSIONS[self.version]
    image = crop_shift(Flip().augment(image, flip), crop, strongest)
    choice = jax.random.categorical(pick, jnp.log(jnp.asarray(shares)))
    image = perform(space, choice, image, jax.random.uniform(strength), random_sign(sign))
    return erasing.augment(image, erase)
