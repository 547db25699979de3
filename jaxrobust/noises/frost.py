"""Frost: a picture of frosted glass mixed into the image (Hendrycks and Dietterich 2019, arXiv:1903.12261).

The authors' six pictures, of which their code draws the first five, have no clear license. Who has them names their
folder; for everybody else a procedural texture with their colors and roughness takes their place.
"""

from __future__ import annotations

import functools
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxrobust.core.errors import InputError
from jaxrobust.core.pictures import open_picture
from jaxrobust.core.reading import read_file
from jaxrobust.noises.resampling import Rows, choose
from jaxrobust.noises.weather import plasma_fractal, power_of_two

FILES = ("frost1.png", "frost2.png", "frost3.png", "frost4.jpg", "frost5.jpg")


def frost(image: Array, key: Array, rows: Rows, severity: Array | int, folder: str | None = None) -> Array:
  """Returns a x + b frost, with a random cut-out of a picture in `folder`, or a procedural texture of the image."""
  image_weight, frost_weight, _ = choose(rows, severity)
  height, width, scale = *image.shape[:2], rows[0][2]
  if folder is None:
    cut = frost_texture(key, height, width, fine=scale < 1)
  else:
    cut = _cut_out(key, image.shape, load_pictures(folder, height, width, scale))
  return image_weight * image + frost_weight * cut


# Mean color and deviation of cut-outs from the authors' first five pictures, and how much their brightness varies.
_FROST_COLORS = (
  (0.292, 0.576, 0.643),
  (0.773, 0.790, 0.826),
  (0.776, 0.793, 0.830),
  (0.566, 0.624, 0.675),
  (0.389, 0.434, 0.481),
)
_FROST_DEVIATIONS = (0.069, 0.080, 0.079, 0.105, 0.141)
_FROST_SHADE = 0.03


def frost_texture(key: Array, height: int, width: int, fine: bool) -> Array:
  """Returns ridges of fractal noise in the tone of one of five panes; `fine` for a picture shrunk to a fifth."""
  size = power_of_two(max(height, width))
  pattern_key, pane_key, shade_key = jax.random.split(key, 3)
  heights = plasma_fractal(pattern_key, size, 1.0 if fine else 1.08)[:height, :width]
  # Folding at the middle turns contour lines into the bright needles of ice.
  needles = heights - 1.5 * jnp.abs(heights - heights.mean())
  pattern = (needles - needles.mean()) / jnp.maximum(needles.std(), 1e-6)
  pane = jax.random.randint(pane_key, (), 0, len(_FROST_COLORS))
  color = jnp.array(_FROST_COLORS)[pane] + _FROST_SHADE * jax.random.normal(shade_key)
  return jnp.clip(color + jnp.array(_FROST_DEVIATIONS)[pane] * pattern[..., None], 0, 1)


def _cut_out(key: Array, shape: tuple[int, ...], textures: list[np.ndarray]) -> Array:
  """Returns a random window of a random texture."""
  which, where = jax.random.split(key)
  height = max(texture.shape[0] for texture in textures)
  width = max(texture.shape[1] for texture in textures)
  sizes = jnp.array([texture.shape[:2] for texture in textures])
  stack = np.stack([np.pad(t, ((0, height - t.shape[0]), (0, width - t.shape[1]), (0, 0))) for t in textures])
  index = jax.random.randint(which, (), 0, len(textures))
  corner = jax.random.randint(where, (2,), 0, sizes[index] - jnp.array(shape[:2]))
  window = jax.lax.dynamic_slice(jnp.asarray(stack), (index, corner[0], corner[1], 0), (1, *shape))
  return window[0].astype(jnp.float32) / 255


@functools.cache
def load_pictures(folder: str, height: int, width: int, scale: float) -> list[np.ndarray]:
  """Returns the authors' pictures, uint8, at a scale; enlarged where a picture would be smaller than the image."""
  pictures = []
  for name in FILES:
    path = Path(folder) / name
    if not path.is_file():
      raise InputError(f"there is no {path}; frost needs {', '.join(FILES)} of github.com/hendrycks/robustness")
    levels = np.asarray(open_picture(read_file(path)), np.float32)
    fit = max(scale, 1.1 * height / levels.shape[0], 1.1 * width / levels.shape[1])
    for axis in (0, 1):
      levels = _resize_axis(levels, int(np.ceil(levels.shape[axis] * fit)) if fit != 1 else levels.shape[axis], axis)
    pictures.append(np.round(levels).astype(np.uint8))
  return pictures


def _resize_axis(levels: np.ndarray, size: int, axis: int) -> np.ndarray:
  """Resizes linearly without smoothing, as OpenCV does."""
  old = levels.shape[axis]
  position = np.clip((np.arange(size) + 0.5) * old / size - 0.5, 0, old - 1)
  low = np.floor(position).astype(int)
  shape = [size if a == axis else 1 for a in range(3)]
  part = (position - low).reshape(shape).astype(np.float32)
  return levels.take(low, axis) * (1 - part) + levels.take(np.minimum(low + 1, old - 1), axis) * part
