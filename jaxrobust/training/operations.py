"""The image operations that RandAugment, AutoAugment, TrivialAugment, AugMix and IDBH choose from.

Each is a pure function of one image in [0, 1] and an amount in its own unit: degrees for rotations, rows per column for
shears, parts of the image for translations, factor minus one for enhancements, bits kept, thresholds of 256 grey
levels. A *space* says how an amount follows from a level in [0, 1] and a sign; the published policies differ in
little else. Known deviations from Pillow: geometry is bilinear with zeros outside, and values are not rounded to 8 bits
first except where the operation is about bits.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp

from jaxrobust.core.types import Array
from jaxrobust.training import augment

Operation = Callable[[Array, Array], Array]
"""(image, amount) -> image."""

Amount = Callable[[Array, Array], Array | float]
"""(level in [0, 1], sign) -> amount."""

Space = Mapping[str, Amount]


def affine(image: Array, matrix: Array, shift: Array) -> Array:
  """Samples the image at matrix · (p - centre) + centre + shift, bilinearly, zeros outside.

  >>> image = jnp.arange(12.0).reshape(2, 2, 3) / 12
  >>> bool(jnp.allclose(affine(image, jnp.eye(2), jnp.zeros(2)), image))
  True
  """
  size = jnp.asarray(image.shape[:2])
  centre = (size - 1) / 2
  grid = jnp.stack(jnp.meshgrid(*map(jnp.arange, image.shape[:2]), indexing="ij"), axis=-1) - centre
  points = grid @ matrix.T + centre + shift
  first = jnp.floor(points)
  share = points - first
  total = jnp.zeros_like(image)
  for corner in ((0, 0), (0, 1), (1, 0), (1, 1)):
    place = (first + jnp.asarray(corner)).astype(jnp.int32)
    weight = jnp.prod(jnp.where(jnp.asarray(corner), share, 1 - share), axis=-1)
    inside = jnp.all((place >= 0) & (place < size), axis=-1)
    row, column = jnp.moveaxis(jnp.clip(place, 0, size - 1), -1, 0)
    total = total + jnp.where(inside, weight, 0.0)[..., None] * image[row, column]
  return total


def _rotation(degrees: Array, shape: tuple[int, ...]) -> Array:
  del shape
  angle = jnp.deg2rad(degrees)
  cos, sin = jnp.cos(angle), jnp.sin(angle)
  return jnp.array([[cos, -sin, 0.0], [sin, cos, 0.0]])


def _shearing(amount: Array, shape: tuple[int, ...], axis: int) -> Array:
  del shape
  return jnp.eye(2, 3).at[axis, 1 - axis].set(amount)


def _translation(part: Array, shape: tuple[int, ...], axis: int) -> Array:
  return jnp.eye(2, 3).at[axis, 2].set(part * shape[axis])


# (amount, image shape) -> the matrix of `affine` and its shift, side by side.
_GEOMETRY: dict[str, Callable[[Array, tuple[int, ...]], Array]] = {
  "rotate": _rotation,
  "shear-y": functools.partial(_shearing, axis=0),
  "shear-x": functools.partial(_shearing, axis=1),
  "translate-y": functools.partial(_translation, axis=0),
  "translate-x": functools.partial(_translation, axis=1),
}


def _geometry(image: Array, amount: Array, name: str) -> Array:
  placed = _GEOMETRY[name](amount, image.shape)
  return affine(image, placed[:, :2], placed[:, 2])


def _enhance(image: Array, amount: Array, function: Callable[[Array, Array], Array]) -> Array:
  return function(image, 1 + amount)


def _sharpness(image: Array, amount: Array) -> Array:
  """Away from (or towards) Pillow's SMOOTH filter; the border is kept."""
  kernel = jnp.array([[1.0, 1.0, 1.0], [1.0, 5.0, 1.0], [1.0, 1.0, 1.0]]) / 13
  inside = sum(
    kernel[i, j] * image[i : image.shape[0] - 2 + i, j : image.shape[1] - 2 + j] for i in range(3) for j in range(3)
  )
  smooth = image.at[1:-1, 1:-1].set(inside)
  return jnp.clip(smooth + (1 + amount) * (image - smooth), 0.0, 1.0)


def _autocontrast(image: Array, amount: Array) -> Array:
  del amount
  low, high = image.min((0, 1)), image.max((0, 1))
  wide = high > low
  return jnp.where(wide, (image - low) / jnp.where(wide, high - low, 1.0), image)


def _equalize(image: Array, amount: Array) -> Array:
  """Pillow's histogram equalisation of each channel: grey levels mapped by their cumulative counts."""
  del amount

  def channel(values: Array) -> Array:
    grey = jnp.round(values * 255).astype(jnp.int32)
    counts = jnp.zeros(256, jnp.int32).at[grey.ravel()].add(1)
    last = jnp.max(jnp.where(counts > 0, jnp.arange(256), 0))
    step = (grey.size - counts[last]) // 255
    table = jnp.clip((step // 2 + jnp.cumsum(counts) - counts) // jnp.maximum(step, 1), 0, 255)
    return jnp.where(step > 0, table[grey] / 255.0, values)

  return jax.vmap(channel, in_axes=-1, out_axes=-1)(image)


def _posterize(image: Array, bits: Array) -> Array:
  """Keeps the highest of the 8 bits."""
  step = jnp.exp2(8 - bits)
  return jnp.floor(jnp.round(image * 255) / step) * step / 255


def _solarize(image: Array, threshold: Array) -> Array:
  return jnp.where(image * 255 >= threshold, 1.0 - image, image)


def _solarize_add(image: Array, amount: Array) -> Array:
  return jnp.where(image * 255 < 128, jnp.clip(image + amount / 255, 0.0, 1.0), image)


OPERATIONS: dict[str, Operation] = {
  "identity": lambda image, amount: image,
  "autocontrast": _autocontrast,
  "equalize": _equalize,
  "invert": lambda image, amount: 1.0 - image,
  "posterize": _posterize,
  "solarize": _solarize,
  "solarize-add": _solarize_add,
  "colour": functools.partial(_enhance, function=augment.adjust_saturation),
  "contrast": functools.partial(_enhance, function=augment.adjust_contrast),
  "brightness": functools.partial(_enhance, function=augment.adjust_brightness),
  "sharpness": _sharpness,
  **{name: functools.partial(_geometry, name=name) for name in _GEOMETRY},
}


def signed(largest: float) -> Amount:
  """Amounts in [-largest, largest]."""
  return lambda level, sign: sign * level * largest


def nothing(level: Array, sign: Array) -> float:
  """For operations without an amount."""
  del level, sign
  return 0.0


def geometry_and_colour(shear: float, translate: tuple[float, float], degrees: float, enhance: float) -> Space:
  """The signed part of a space; `translate` in parts of the height and of the width."""
  return {
    "rotate": signed(degrees),
    **dict.fromkeys(("shear-y", "shear-x"), signed(shear)),
    "translate-y": signed(translate[0]),
    "translate-x": signed(translate[1]),
    **dict.fromkeys(("colour", "contrast", "brightness", "sharpness"), signed(enhance)),
  }


def perform(space: Space, choice: Array, image: Array, level: Array, sign: Array) -> Array:
  """Operation number `choice` of the space.

  Over a batch every branch of a switch is computed for every image, so that those that move pixels share one sampling.

  >>> turn_over = perform({"invert": nothing}, jnp.int32(0), jnp.zeros((2, 2, 3)), jnp.float32(0), jnp.float32(1))
  >>> float(turn_over.mean())
  1.0
  """
  names = list(space)
  amounts = [jnp.asarray(amount(level, sign), jnp.float32) for amount in space.values()]
  moving = [name in _GEOMETRY for name in names]
  branches = ["identity", *(name for name in names if name not in _GEOMETRY)]
  branch = jnp.asarray([0 if name in _GEOMETRY else branches.index(name) for name in names])[choice]
  image = jax.lax.switch(branch, [OPERATIONS[name] for name in branches], image, jnp.stack(amounts)[choice])
  if not any(moving):
    return image
  still = jnp.eye(2, 3)
  places = [
    _GEOMETRY[name](amount, image.shape) if name in _GEOMETRY else still
    for name, amount in zip(names, amounts, strict=True)
  ]
  place = jnp.stack(places)[choice]
  return jnp.where(jnp.asarray(moving)[choice], affine(image, place[:, :2], place[:, 2]), image)


def random_sign(key: Array) -> Array:
  """1 or -1."""
  return jnp.where(jax.random.bernoulli(key), 1.0, -1.0)
