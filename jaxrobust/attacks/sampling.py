"""Images at places between their pixels, and fields at more places than they have: what spatial threats are made of.

Coordinates are PyTorch's without `align_corners`: the edges of an image are at -1 and 1, centers of pixels half a pixel
inside.
"""

from __future__ import annotations

import functools

import jax.numpy as jnp
import numpy as np

from jaxrobust.core.types import Array


def places(height: int, width: int) -> np.ndarray:
  """Returns the centers of pixels, (height, width, 2) as (x, y), where edges of the image are at -1 and 1.

  >>> places(1, 2).tolist()
  [[[-0.5, 0.0], [0.5, 0.0]]]
  """
  y, x = ((2 * np.arange(size, dtype=np.float32) + 1) / size - 1 for size in (height, width))
  return np.stack(np.meshgrid(x, y), axis=-1).astype(np.float32)


def sample(image: Array, grid: Array) -> Array:
  """Returns the image at the places of a grid (…, 2) as (x, y), bilinear between centers of pixels and zero outside."""
  height, width = image.shape[:2]
  return sample_pixels(image, (grid + 1) * jnp.array([width, height]) / 2 - 0.5)


def sample_pixels(image: Array, at: Array) -> Array:
  """Returns the image at places (…, 2) as (x, y), counted in pixels from the center of the first; zero outside.

  >>> sample_pixels(jnp.arange(3.0).reshape(1, 3, 1), jnp.array([[0.5, 0.0], [2.5, 0.0], [4.0, 0.0]])).ravel().tolist()
  [0.5, 1.0, 0.0]
  """
  height, width, channels = image.shape
  low = jnp.floor(at)
  part = at - low
  column, row = low[..., 0].astype(jnp.int32), low[..., 1].astype(jnp.int32)
  pixels = image.reshape(-1, channels)

  def corner(right: int, down: int) -> Array:
    x, y = column + right, row + down
    there = (x >= 0) & (x < width) & (y >= 0) & (y < height)
    values = pixels[jnp.clip(y, 0, height - 1) * width + jnp.clip(x, 0, width - 1)]
    weight = (part[..., 0] if right else 1 - part[..., 0]) * (part[..., 1] if down else 1 - part[..., 1])
    return values * jnp.where(there, weight, 0.0)[..., None]

  return corner(0, 0) + corner(1, 0) + corner(0, 1) + corner(1, 1)


def reflected(at: Array, size: int) -> Array:
  """Returns coordinates of pixels mirrored at the edges of an image as often as need be, then kept at its pixels.

  >>> reflected(jnp.array([-1.0, -2.5, 3.0, 4.5]), 4).tolist()
  [0.0, 1.5, 3.0, 2.5]
  """
  way = jnp.abs(at + 0.5) % (2 * size)
  return jnp.clip(jnp.where(way > size, 2 * size - way, way) - 0.5, 0, size - 1)


def color_wheel(field: Array) -> Array:
  """Returns a field of vectors (…, 2) as colors: hues are directions, white is no vector, the longest are most vivid.

  Red is to the right, and the other hues follow clockwise as the image is seen: green, then blue.

  >>> color_wheel(jnp.array([[2.0, 0.0], [0.0, 0.0]])).round(2).tolist()
  [[1.0, 0.25, 0.25], [1.0, 1.0, 1.0]]
  """
  length = jnp.linalg.norm(field, axis=-1)
  share = length / jnp.maximum(jnp.max(length), 1e-30)
  angle = jnp.arctan2(field[..., 1], field[..., 0])
  hues = 0.5 + 0.5 * jnp.cos(angle[..., None] - 2 * jnp.pi / 3 * jnp.arange(3))
  return 1 - share[..., None] * (1 - hues)


@functools.cache
def cubic_matrix(size: int, larger: int) -> np.ndarray:
  """Returns the matrix (larger, size) that interpolates as PyTorch's bicubic: A = -0.75, edges repeated.

  >>> cubic_matrix(2, 4).sum(axis=1).round(6).tolist()
  [1.0, 1.0, 1.0, 1.0]
  """
  matrix = np.zeros((larger, size))
  for row in range(larger):
    at = (row + 0.5) * size / larger - 0.5
    for column in range(int(np.floor(at)) - 1, int(np.floor(at)) + 3):
      matrix[row, min(max(column, 0), size - 1)] += _cubic(abs(at - column))
  return matrix.astype(np.float32)


def _cubic(distance: float, a: float = -0.75) -> float:
  if distance <= 1:
    return ((a + 2) * distance - (a + 3)) * distance**2 + 1
  return a * (((distance - 5) * distance + 8) * distance - 4) if distance < 2 else 0.0
