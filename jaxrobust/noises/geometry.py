"""Pixelation and elastic distortion.

Hendrycks and Dietterich 2019, arXiv:1903.12261.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxrobust.noises.resampling import (
  Rows,
  bilinear,
  box_matrix,
  choose,
  filter_matrix,
  filter_table,
  filtered,
  gaussian_taps,
  reflect,
  select,
)


def pixelate(image: Array, key: Array, rows: Rows, severity: Array | int) -> Array:
  """Shrinks to a share of each side by box means and enlarges again by repetition, in 8 bits like Pillow."""
  del key

  def make(s: int, size: int) -> np.ndarray:
    small = int(size * rows[s][0])
    # Pillow enlarges by looking up the source of each pixel's center.
    source = np.minimum(((np.arange(size) + 0.5) * small / size).astype(int), small - 1)
    return box_matrix(size, small)[source]

  height, width = image.shape[:2]
  levels = jnp.round(image * 255)
  wide = select(filter_table(make, len(rows), width), severity)
  tall = select(filter_table(make, len(rows), height), severity)
  highest = jax.lax.Precision.HIGHEST
  levels = _to_level(jnp.einsum("vw,hwc->hvc", wide, levels, precision=highest))
  return _to_level(jnp.einsum("ij,jwc->iwc", tall, levels, precision=highest)) / 255


def _to_level(values: Array) -> Array:
  # Means of a few integers come out a hair off a half.
  return jnp.floor(values + 0.5 + 1e-3)


def elastic_transform(image: Array, key: Array, rows: Rows, severity: Array | int) -> Array:
  """Applies a random affine map, then smooth random displacements."""
  strength, _, shift = choose(rows, severity)
  affine_key, noise_key = jax.random.split(key)
  height, width = image.shape[:2]
  image = _affine(image, shift * jax.random.uniform(affine_key, (3, 2), minval=-1.0, maxval=1.0))

  def smooth(s: int, size: int) -> np.ndarray:
    return filter_matrix(gaussian_taps(rows[s][1], truncate=3.0), size, reflect)

  noise = jax.random.uniform(noise_key, (height, width, 2), minval=-1.0, maxval=1.0)
  moved = strength * filtered(noise, smooth, len(rows), severity)
  x = _fold(jnp.arange(width) + moved[..., 0], width, 0.5)
  y = _fold(jnp.arange(height)[:, None] + moved[..., 1], height, 0.5)
  return bilinear(image, y, x)


def _affine(image: Array, shifts: Array) -> Array:
  """Maps three corners of a central square to themselves plus shifts in pixels (x, y); mirrors at the border.

  The authors put (height, width) where (x, y) belongs, which matters for images that are not square.
  """
  height, width = image.shape[:2]
  center = np.array([height // 2, width // 2], np.float32)
  square = min(height, width) // 3
  corners = (center + square * np.array([[1, 1], [1, -1], [-1, -1]])).astype(np.float32)
  goal = jnp.concatenate([corners + shifts, jnp.ones((3, 1))], axis=1)
  # Where each output pixel comes from: the map from the shifted corners back to the corners.
  back = _inverse3(goal) @ corners
  x, y = jnp.meshgrid(jnp.arange(width, dtype=jnp.float32), jnp.arange(height, dtype=jnp.float32))
  source_x = back[0, 0] * x + back[1, 0] * y + back[2, 0]
  source_y = back[0, 1] * x + back[1, 1] * y + back[2, 1]
  return bilinear(image, _fold(source_y, height, 0.0), _fold(source_x, width, 0.0))


def _inverse3(matrix: Array) -> Array:
  """Returns the inverse of a 3x3 matrix by cofactors: far cheaper to compile than a general solver."""
  a, b, c = matrix
  columns = jnp.stack([jnp.cross(b, c), jnp.cross(c, a), jnp.cross(a, b)], axis=1)
  return columns / jnp.dot(a, jnp.cross(b, c))


def _fold(position: Array, size: int, edge: float) -> Array:
  """Mirrors real positions at -edge and size - 1 + edge until they are inside, then keeps them on the grid."""
  period = size - 1 + 2 * edge
  turned = jnp.mod(position + edge, 2 * period)
  return jnp.clip(jnp.where(turned > period, 2 * period - turned, turned) - edge, 0, size - 1)
