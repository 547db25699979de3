"""ImageNet-P and CIFAR-P: sequences of one image under a perturbation that grows, turns or is drawn anew.

Hendrycks and Dietterich 2019, arXiv:1903.12261; parameters of `make_imagenet_p.py` and `make_cifar_p.py`. Frames are
made on the device, one program for a sequence: `make_sequence(name, table)(image, key)` is (frames, H, W, 3).

Known deviations from the stored sets: no video compression (theirs are MP4 files); affine frames are cut from the
image itself, black outside, where the authors cut the middle 224 pixels out of a larger image.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxrobust.core.errors import InputError
from jaxrobust.core.registry import Registry
from jaxrobust.noises.color import shift_value
from jaxrobust.noises.motion import blur_along, falling, with_snow
from jaxrobust.noises.pixels import shot_noise
from jaxrobust.noises.resampling import (
  bilinear,
  filter_matrix,
  filter_table,
  gaussian,
  gaussian_taps,
  nearest,
  separable,
  zoom_matrix,
)
from jaxrobust.noises.spatter import with_water

# The ten that mFR averages, and the four for validation.
BENCHMARK = (
  "gaussian_noise",
  "shot_noise",
  "motion_blur",
  "zoom_blur",
  "snow",
  "brightness",
  "translate",
  "rotate",
  "tilt",
  "scale",
)
EXTRA = ("speckle_noise", "gaussian_blur", "spatter", "shear")

Frames = Callable[[Array, Array, int], Array]
SEQUENCES: Registry[Frames] = Registry("sequence")


@dataclass(frozen=True)
class Sequence:
  """A perturbation sequence: `sequence(image, key)` is (frames, H, W, 3), in 256 gray levels."""

  name: str
  table: int = 224

  @property
  def frames(self) -> int:
    """Returns the number of frames."""
    return num_frames(self.name, self.table)

  def __call__(self, image: Array, key: Array) -> Array:
    frames = SEQUENCES[self.name](image, key, self.table)
    return jnp.floor(jnp.clip(frames, 0, 1) * 255 + 1e-3) / 255


def make_sequence(name: str, table: int = 224) -> Sequence:
  """Returns the sequence of that name, with ImageNet-P's (224) or CIFAR-P's (32) parameters.

  >>> make_sequence("translate").frames, make_sequence("translate", 32).frames, make_sequence("tilt").frames
  (41, 16, 31)
  """
  _ = SEQUENCES[name]  # Unknown names raise UnknownNameError with the nearest ones.
  if table not in (224, 32):
    raise InputError(f"there are sequences for tables 224 and 32, not {table}")
  return Sequence(name, table)


def num_frames(name: str, table: int) -> int:
  """Returns 31, but for translations, and for CIFAR-P's motion blur."""
  return {("translate", 224): 41, ("translate", 32): 16, ("motion_blur", 32): 21}.get((name, table), 31)


def _steps(name: str, table: int) -> Array:
  return jnp.arange(num_frames(name, table), dtype=jnp.float32)


def _noise_like(make: Callable[[Array, Array, int], Array]) -> Frames:
  """Makes a clean frame and thirty draws of noise."""

  def frames(image: Array, key: Array, table: int) -> Array:
    keys = jax.random.split(key, 30)
    return jnp.concatenate([image[None], jax.lax.map(lambda k: make(image, k, table), keys)])

  return frames


@SEQUENCES.register("gaussian_noise")
@_noise_like
def gaussian_noise(image: Array, key: Array, table: int) -> Array:
  return image + (0.03 if table == 224 else 0.02) * jax.random.normal(key, image.shape)


@SEQUENCES.register("shot_noise")
@_noise_like
def _shot_noise(image: Array, key: Array, table: int) -> Array:
  return shot_noise(image, key, ((300.0,) if table == 224 else (700.0,),), 0)


@SEQUENCES.register("speckle_noise")
@_noise_like
def speckle_noise(image: Array, key: Array, table: int) -> Array:
  return image * (1 + 0.05 * jax.random.normal(key, image.shape))


@SEQUENCES.register("motion_blur")
def motion_blur(image: Array, key: Array, table: int) -> Array:
  """Turns the motion by 4 degrees a frame (CIFAR-P: 9)."""
  del key
  radius, sigma, turn, last = (10, 3.0, 4.0, 30) if table == 224 else (6, 1.8, 9.0, 20)
  blur = lambda step: blur_along(image, jnp.float32(radius), jnp.float32(sigma), (step - last) * turn, radius)
  return jax.lax.map(blur, _steps("motion_blur", table))


@SEQUENCES.register("zoom_blur")
def zoom_blur(image: Array, key: Array, table: int) -> Array:
  """Averages enlargements by 1 + 0.004 i."""
  del key
  steps = _steps("zoom_blur", table)
  zoomed = jax.lax.map(lambda step: warp(image, _about_center(image, jnp.eye(2) / (1 + 0.004 * step))), steps)
  return jnp.cumsum(zoomed, axis=0) / (steps + 1)[:, None, None, None]


@SEQUENCES.register("snow")
def snow(image: Array, key: Array, table: int) -> Array:
  """Draws the same flakes, whose fall turns by 4 degrees a frame."""
  zoom, radius, sigma = (3.0, 14, 4.0) if table == 224 else (2.0, 10, 2.0)
  flakes = 0.05 + 0.3 * jax.random.normal(key, image.shape[:2])
  rows, columns = (jnp.asarray(zoom_matrix(size, zoom), jnp.float32) for size in image.shape[:2])
  flakes = separable(flakes, rows, columns)

  def frame(step: Array) -> Array:
    fall = falling(flakes, jnp.float32(0.5), jnp.float32(radius), jnp.float32(sigma), 4 * step - 150, radius)
    return with_snow(image, fall, 0.85)

  return jax.lax.map(frame, _steps("snow", table))


@SEQUENCES.register("spatter")
def spatter(image: Array, key: Array, table: int) -> Array:
  """Drops of water that run down the lens: from frame to frame each column is convolved with a few taps."""
  loc, scale, sigma, threshold = (0.65, 0.27, 3.7, 0.69) if table == 224 else (0.6, 0.265, 1.75, 0.7)
  taps, ahead = ((0.05, 0.1, 0.15, 0.7), 1) if table == 224 else ((0.2, 0.8), 0)
  liquid = gaussian(loc + scale * jax.random.normal(key, image.shape[:2]), [sigma], 0)
  height = image.shape[0]

  def frame(liquid: Array, _: None) -> tuple[Array, Array]:
    padded = jnp.pad(liquid, ((len(taps), len(taps)), (0, 0)))
    rows = [padded[len(taps) + ahead - j :][:height] for j in range(len(taps))]
    return sum((t * row for t, row in zip(taps, rows, strict=True)), jnp.zeros_like(liquid)), with_water(
      image, liquid, 0.6
    )

  start = jnp.where(liquid < threshold, 0.0, liquid)
  return jax.lax.scan(frame, start, None, length=num_frames("spatter", table))[1]


@SEQUENCES.register("brightness")
def brightness(image: Array, key: Array, table: int) -> Array:
  """From darker to brighter."""
  del key
  step = 0.02 if table == 224 else 0.015
  return jax.vmap(lambda i: shift_value(image, (i - 15) * step))(_steps("brightness", table))


@SEQUENCES.register("gaussian_blur")
def gaussian_blur(image: Array, key: Array, table: int) -> Array:
  """Sigma grows from 0.25 by 0.035 a frame."""
  del key
  n = num_frames("gaussian_blur", table)
  make = lambda i, size: filter_matrix(gaussian_taps(0.25 + 0.035 * i, truncate=6.0), size, nearest)
  rows, columns = (jnp.asarray(filter_table(make, n, size)) for size in image.shape[:2])
  return jax.lax.map(lambda pair: separable(image, *pair), (rows, columns))


@SEQUENCES.register("translate")
def translate(image: Array, key: Array, table: int) -> Array:
  """Moves one pixel to the right a frame, through the middle."""
  del key
  steps = _steps("translate", table)
  middle = 20 if table == 224 else 7
  move = lambda step: jnp.array([[1.0, 0, 0], [0, 1.0, 0], [0, 0, 1.0]]).at[0, 2].set(middle - step)
  return jax.lax.map(lambda step: warp(image, move(step)), steps)


@SEQUENCES.register("rotate")
def rotate(image: Array, key: Array, table: int) -> Array:
  """Turns by one degree a frame."""
  del key

  def frame(step: Array) -> Array:
    angle = jnp.deg2rad(step - 15)
    turn = jnp.array([[jnp.cos(angle), jnp.sin(angle)], [-jnp.sin(angle), jnp.cos(angle)]])
    return warp(image, _about_center(image, turn))

  return jax.lax.map(frame, _steps("rotate", table))


@SEQUENCES.register("scale")
def scale(image: Array, key: Array, table: int) -> Array:
  """From 40 % to 115 % of the size (CIFAR-P: 70 % to 130 %)."""
  del key
  size = lambda step: (2.5 * step + 40) / 100 if table == 224 else (2 * step + 70) / 100
  shrink = lambda step: warp(image, _about_center(image, jnp.eye(2) / size(step)))
  return jax.lax.map(shrink, _steps("scale", table))


@SEQUENCES.register("shear")
def shear(image: Array, key: Array, table: int) -> Array:
  """Shears by one degree horizontally a frame."""
  del key
  slant = lambda step: jnp.eye(2).at[0, 1].set(jnp.tan(jnp.deg2rad(step - 15)))
  return jax.lax.map(lambda step: warp(image, _about_center(image, slant(step))), _steps("shear", table))


@SEQUENCES.register("tilt")
def tilt(image: Array, key: Array, table: int) -> Array:
  """Turns out of the plane about both axes, one degree a frame (CIFAR-P: 3/4), seen from a diagonal away."""
  del key
  height, width = image.shape[:2]
  far = float(np.hypot(width, height))
  flatten = jnp.array([[1, 0, -width / 2], [0, 1, -height / 2], [0, 0, 1], [0, 0, 1.0]])
  look = jnp.array([[far, 0, width / 2, 0], [0, far, height / 2, 0], [0, 0, 1, 0]])
  degrees = 1.0 if table == 224 else 0.75

  def frame(step: Array) -> Array:
    c, s = jnp.cos(jnp.deg2rad((step - 15) * degrees)), jnp.sin(jnp.deg2rad((step - 15) * degrees))
    about_x = jnp.array([[1, 0, 0, 0], [0, c, -s, 0], [0, s, c, 0], [0, 0, 0, 1.0]])
    about_y = jnp.array([[c, 0, -s, 0], [0, 1, 0, 0], [s, 0, c, 0], [0, 0, 0, 1.0]])
    away = jnp.eye(4).at[2, 3].set(far)
    return warp(image, jnp.linalg.inv(look @ away @ about_x @ about_y @ flatten))

  return jax.lax.map(frame, _steps("tilt", table))


def _about_center(image: Array, linear: Array) -> Array:
  """Returns the 3x3 map from output to source pixels (x, y, 1) of a linear map about the image's center."""
  center = jnp.array([(image.shape[1] - 1) / 2, (image.shape[0] - 1) / 2])
  offset = center - linear @ center
  return jnp.eye(3).at[:2, :2].set(linear).at[:2, 2].set(offset)


def warp(image: Array, source: Array) -> Array:
  """Returns the image seen through a 3x3 map from output to source pixels; black outside.

  >>> image = jnp.arange(4.0 * 4 * 1).reshape(4, 4, 1)
  >>> bool((warp(image, jnp.eye(3)) == image).all())
  True
  """
  height, width = image.shape[:2]
  x, y = jnp.meshgrid(jnp.arange(width, dtype=jnp.float32), jnp.arange(height, dtype=jnp.float32))
  u, v, w = (source[i, 0] * x + source[i, 1] * y + source[i, 2] for i in range(3))
  # One black pixel all around, so that values fade out over the border.
  padded = jnp.pad(image, ((1, 1), (1, 1), (0, 0)))
  return bilinear(padded, jnp.clip(v / w + 1, 0, height + 1), jnp.clip(u / w + 1, 0, width + 1))
