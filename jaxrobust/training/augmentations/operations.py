"""The image operations that RandAugment, AutoAugment, TrivialAugment, AugMix and IDBH choose from.

Each is a pure function of one image in [0, 1] and an amount in its own unit: degrees for rotations, rows per column for
shears, parts of the image for translations, factor minus one for enhancements, bits kept, thresholds of 256 gray
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
from jaxrobust.training.augmentations import augment

Operation = Callable[[Array, Array], Array]
"""(image, amount) -> image."""

Amount = Callable[[Array, Array], Array | float]
"""(level in [0, 1], sign) -> amount."""

Space = Mapping[str, Amount]


def affine(image: Array, place: Array) -> Array:
  """Samples the image at matrix · (p - center) + center + shift, bilinearly, zeros outside; `place` is both, (2, 3).

  >>> image = jnp.arange(12.0).reshape(2, 2, 3) / 12
  >>> bool(jnp.allclose(affine(image, jnp.eye(2, 3)), image))
  True
  """
  height, width, channels = image.shape
  down = jnp.arange(height, dtype=jnp.float32)[:, None] - (height - 1) / 2
  right = jnp.arange(width, dtype=jnp.float32) - (width - 1) / 2
  row, column = (place[axis, 0] * down + place[axis, 1] * right + place[axis, 2] for axis in (0, 1))
  row, column = row + (height - 1) / 2, column + (width - 1) / 2
  upper, left = jnp.floor(row), jnp.floor(column)
  pixels = image.reshape(-1, channels)
  total = jnp.zeros_like(image)
  for i, high in ((upper, 1 - (row - upper)), (upper + 1, row - upper)):
    for j, wide in ((left, 1 - (column - left)), (left + 1, column - left)):
      inside = (i >= 0) & (i < height) & (j >= 0) & (j < width)
      # One index into the rows of pixels, known to be in bounds: seven times as fast on CPU as an index per axis.
      index = (jnp.clip(i, 0, height - 1) * width + jnp.clip(j, 0, width - 1)).astype(jnp.int32)
      sampled = pixels.at[index].get(mode="promise_in_bounds")
      total = total + jnp.where(inside, high * wide, 0.0)[..., None] * sampled
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


# (amount, image shape) -> the place of `affine`: a matrix and a shift, side by side.
_GEOMETRY: dict[str, Callable[[Array, tuple[int, ...]], Array]] = {
  "rotate": _rotation,
  "shear-y": functools.partial(_shearing, axis=0),
  "shear-x": functools.partial(_shearing, axis=1),
  "translate-y": functools.partial(_translation, axis=0),
  "translate-x": functools.partial(_translation, axis=1),
}


def _geometry(image: Array, amount: Array, name: str) -> Array:
  return affine(image, _GEOMETRY[name](amount, image.shape))


def _enhance(image: Array, amount: Array, function: Callable[[Array, Array], Array]) -> Array:
  return function(image, 1 + amount)


def _sharpness(image: Array, amount: Array) -> Array:
  """Moves away from (or toward) Pillow's SMOOTH filter; the border is kept."""
  height, width, _ = image.shape
  around = sum(image[i : height - 2 + i, j : width - 2 + j] for i in range(3) for j in range(3))
  smooth = image.at[1:-1, 1:-1].set((around + 4 * image[1:-1, 1:-1]) / 13)
  return jnp.clip(smooth + (1 + amount) * (image - smooth), 0.0, 1.0)


def _autocontrast(image: Array, amount: Array) -> Array:
  del amount
  low, high = image.min((0, 1)), image.max((0, 1))
  wide = high > low
  return jnp.where(wide, (image - low) / jnp.where(wide, high - low, 1.0), image)


def _equalize(image: Array, amount: Array) -> Array:
  """Equalizes the histogram of each channel as Pillow does: gray levels mapped by their cumulative counts."""
  del amount

  def channel(values: Array) -> Array:
    gray = jnp.round(values * 255).astype(jnp.int32)
    counts = jnp.zeros(256, jnp.int32).at[gray.ravel()].add(1)
    last = jnp.max(jnp.where(counts > 0, jnp.arange(256), 0))
    step = (gray.size - counts[last]) // 255
    table = jnp.clip((step // 2 + jnp.cumsum(counts) - counts) // jnp.maximum(step, 1), 0, 255)
    return jnp.where(step > 0, table[gray] / 255.0, values)

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
  "color": functools.partial(_enhance, function=augment.adjust_saturation),
  "contrast": functools.partial(_enhance, function=augment.adjust_contrast),
  "brightness": functools.partial(_enhance, function=augment.adjust_brightness),
  "sharpness": _sharpness,
  **{name: functools.partial(_geometry, name=name) for name in _GEOMETRY},
}


def signed(largest: float) -> Amount:
  """Returns amounts in [-largest, largest]."""
  return lambda level, sign: sign * level * largest


def nothing(level: Array, sign: Array) -> float:
  """Stands in for operations without an amount."""
  del level, sign
  return 0.0


def geometry_and_color(shear: float, translate: tuple[float, float], degrees: float, enhance: float) -> Space:
  """Returns the signed part of a space; `translate` in parts of the height and of the width."""
  return {
    "rotate": signed(degrees),
    **dict.fromkeys(("shear-y", "shear-x"), signed(shear)),
    "translate-y": signed(translate[0]),
    "translate-x": signed(translate[1]),
    **dict.fromkeys(("color", "contrast", "brightness", "sharpness"), signed(enhance)),
  }


def perform(space: Space, choice: Array, image: Array, level: Array, sign: Array) -> Array:
  """Performs operation number `choice` of the space.

  Over a batch every branch of a switch is computed for every image, so that those that move pixels share one sampling.
  It reads the image itself: what a sampling reads is computed anew for each of its pixels, a hundred operations if it
  came after the others.

  >>> turn_over = perform({"invert": nothing}, jnp.int32(0), jnp.zeros((2, 2, 3)), jnp.float32(0), jnp.float32(1))
  >>> float(turn_over.mean())
  1.0
  """
  names = list(space)
  amounts = [jnp.asarray(amount(level, sign), jnp.float32) for amount in space.values()]
  moving = [name in _GEOMETRY for name in names]
  branches = ["identity", *(name for name in names if name not in _GEOMETRY)]
  branch = jnp.asarray([0 if name in _GEOMETRY else branches.index(name) for name in names])[choice]
  changed = jax.lax.switch(branch, [OPERATIONS[name] for name in branches], image, jnp.stack(amounts)[choice])
  if not any(moving):
    return changed
  still = jnp.eye(2, 3)
  places = [
    _GEOMETRY[name](amount, image.shape) if name in _GEOMETRY else still
    for name, amount in zip(names, amounts, strict=True)
  ]
  return jnp.where(jnp.asarray(moving)[choice], affine(image, jnp.stack(places)[choice]), changed)


def random_sign(key: Array) -> Array:
  """Returns 1 or -1."""
  return jnp.where(jax.random.bernoulli(key), 1.0, -1.0)
