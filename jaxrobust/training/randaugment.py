"""RandAugment as timm's `rand-m9-mstd0.5-inc1`: two random operations of rising strength per image.

Cubuk et al. 2020 (arXiv:1909.13719); the operations, their ranges and the jitter of the magnitude (normal, 0.5) are
those of timm's increasing table. Each operation is applied with probability 1/2. All are pure functions of one image
in [0, 1] and a magnitude in [0, 10]; magnitudes of signed operations get a random sign. Known deviations: geometry is
bilinear with zeros outside (timm: random interpolation, grey outside), and values are not rounded to 8 bits first
except where the operation is about bits.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from jaxrobust.core.errors import InputError
from jaxrobust.core.types import Array
from jaxrobust.training import augment
from jaxrobust.training.technique import TECHNIQUES

LEVELS = 10.0
Operation = Callable[[Array, Array, Array], Array]
"""(image, level in [0, 1], sign) -> image."""


def affine(image: Array, matrix: Array, shift: Array) -> Array:
  """Samples the image at matrix · (p - centre) + centre + shift, bilinearly, zeros outside.

  >>> image = jnp.arange(12.0).reshape(2, 2, 3) / 12
  >>> bool(jnp.allclose(affine(image, jnp.eye(2), jnp.zeros(2)), image))
  True
  """
  height, width, _ = image.shape
  centre = jnp.array([(height - 1) / 2, (width - 1) / 2])
  grid = jnp.stack(jnp.meshgrid(jnp.arange(height), jnp.arange(width), indexing="ij"), axis=-1) - centre
  rows, columns = jnp.moveaxis(grid @ matrix.T + centre + shift, -1, 0)
  sample = functools.partial(jax.scipy.ndimage.map_coordinates, order=1, mode="constant")
  return jnp.stack([sample(image[..., c], [rows, columns]) for c in range(image.shape[-1])], axis=-1)


def _rotate(image: Array, level: Array, sign: Array) -> Array:
  angle = sign * level * jnp.pi / 6
  cos, sin = jnp.cos(angle), jnp.sin(angle)
  return affine(image, jnp.array([[cos, -sin], [sin, cos]]), jnp.zeros(2))


def _shear(image: Array, level: Array, sign: Array, axis: int) -> Array:
  matrix = jnp.eye(2).at[axis, 1 - axis].set(0.3 * sign * level)
  return affine(image, matrix, jnp.zeros(2))


def _translate(image: Array, level: Array, sign: Array, axis: int) -> Array:
  shift = jnp.zeros(2).at[axis].set(0.45 * image.shape[axis] * sign * level)
  return affine(image, jnp.eye(2), shift)


def _enhance(image: Array, level: Array, sign: Array, function: Callable[[Array, Array], Array]) -> Array:
  return function(image, 1 + 0.9 * sign * level)


def _sharpness(image: Array, level: Array, sign: Array) -> Array:
  """Away from (or towards) Pillow's SMOOTH filter; the border is kept."""
  kernel = jnp.array([[1.0, 1.0, 1.0], [1.0, 5.0, 1.0], [1.0, 1.0, 1.0]]) / 13
  inside = sum(
    kernel[i, j] * image[i : image.shape[0] - 2 + i, j : image.shape[1] - 2 + j] for i in range(3) for j in range(3)
  )
  smooth = image.at[1:-1, 1:-1].set(inside)
  return jnp.clip(smooth + (1 + 0.9 * sign * level) * (image - smooth), 0.0, 1.0)


def _autocontrast(image: Array, level: Array, sign: Array) -> Array:
  del level, sign
  low, high = image.min((0, 1)), image.max((0, 1))
  wide = high > low
  return jnp.where(wide, (image - low) / jnp.where(wide, high - low, 1.0), image)


def _equalize(image: Array, level: Array, sign: Array) -> Array:
  """Pillow's histogram equalisation of each channel: grey levels mapped by their cumulative counts."""
  del level, sign

  def channel(values: Array) -> Array:
    grey = jnp.round(values * 255).astype(jnp.int32)
    counts = jnp.zeros(256, jnp.int32).at[grey.ravel()].add(1)
    last = jnp.max(jnp.where(counts > 0, jnp.arange(256), 0))
    step = (grey.size - counts[last]) // 255
    table = jnp.clip((step // 2 + jnp.cumsum(counts) - counts) // jnp.maximum(step, 1), 0, 255)
    return jnp.where(step > 0, table[grey] / 255.0, values)

  return jnp.stack([channel(image[..., c]) for c in range(image.shape[-1])], axis=-1)


def _invert(image: Array, level: Array, sign: Array) -> Array:
  del level, sign
  return 1.0 - image


def _posterize(image: Array, level: Array, sign: Array) -> Array:
  """Keeps 4 - 4 level of the 8 bits, at least none; rising strength."""
  del sign
  bits = 4 - jnp.floor(4 * level)
  step = jnp.exp2(8 - bits)
  return jnp.floor(jnp.round(image * 255) / step) * step / 255


def _solarize(image: Array, level: Array, sign: Array) -> Array:
  del sign
  return jnp.where(image * 255 >= 256 - jnp.floor(256 * level), 1.0 - image, image)


def _solarize_add(image: Array, level: Array, sign: Array) -> Array:
  del sign
  return jnp.where(image * 255 < 128, jnp.clip(image + 110 * level / 255, 0.0, 1.0), image)


OPERATIONS: tuple[Operation, ...] = (
  _autocontrast,
  _equalize,
  _invert,
  _rotate,
  _posterize,
  _solarize,
  _solarize_add,
  functools.partial(_enhance, function=augment.adjust_saturation),
  functools.partial(_enhance, function=augment.adjust_contrast),
  functools.partial(_enhance, function=augment.adjust_brightness),
  _sharpness,
  functools.partial(_shear, axis=0),
  functools.partial(_shear, axis=1),
  functools.partial(_translate, axis=0),
  functools.partial(_translate, axis=1),
)


@TECHNIQUES.register("randaugment")
@dataclass(frozen=True)
class RandAugment:
  """`operations` random operations of magnitude ~ N(magnitude, deviation), clipped to [0, 10]."""

  magnitude: float = 9.0
  deviation: float = 0.5
  operations: int = 2
  probability: float = 0.5

  def __post_init__(self) -> None:
    if not 0 <= self.magnitude <= LEVELS:
      raise InputError(f"the magnitude must be in [0, 10], got {self.magnitude}")

  def augment(self, image: Array, key: Array) -> Array:
    for number in range(self.operations):
      pick, noise, sign, apply = jax.random.split(jax.random.fold_in(key, number), 4)
      level = jnp.clip(self.magnitude + self.deviation * jax.random.normal(noise), 0.0, LEVELS) / LEVELS
      signed = jnp.where(jax.random.bernoulli(sign), 1.0, -1.0)
      chosen = jax.random.randint(pick, (), 0, len(OPERATIONS))
      changed = jax.lax.switch(chosen, OPERATIONS, image, level, signed)
      image = jnp.where(jax.random.bernoulli(apply, self.probability), changed, image)
    return image
