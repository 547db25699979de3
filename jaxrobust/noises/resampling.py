"""Filters and resizes as matrices: one for each axis, so that a blur of any width is two matrix products.

A row of a matrix says which source pixels an output pixel is made of; the behavior at the border is folded
into the outermost columns. Matrices are made by numpy, in double precision, while a program is traced; products
of this kind are what every backend does best, and on CPU they beat convolutions of few channels by far.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

Rows = Sequence[Sequence[float]]


def reflect(position: np.ndarray, size: int) -> np.ndarray:
  """Mirrors positions at the outer pixels' edges (d c b a | a b c d | d c b a).

  >>> reflect(np.arange(-3, 6), 3)
  array([2, 1, 0, 0, 1, 2, 2, 1, 0])
  """
  position = np.mod(position, 2 * size)
  return np.where(position < size, position, 2 * size - 1 - position)


def mirror(position: np.ndarray, size: int) -> np.ndarray:
  """Mirrors positions at the outer pixels' centers (d c b | a b c d | c b a).

  >>> mirror(np.arange(-3, 6), 3)
  array([1, 2, 1, 0, 1, 2, 1, 0, 1])
  """
  position = np.mod(position, 2 * size - 2)
  return np.where(position < size, position, 2 * size - 2 - position)


def nearest(position: np.ndarray, size: int) -> np.ndarray:
  """Repeats the outer pixels (a a a | a b c d | d d d)."""
  return np.clip(position, 0, size - 1)


def filter_matrix(taps: np.ndarray, size: int, border: Callable[[np.ndarray, int], np.ndarray]) -> np.ndarray:
  """Returns the (size, size) matrix that correlates an axis with an odd number of taps.

  >>> filter_matrix(np.array([1, 0, 0]), 3, nearest)
  array([[1., 0., 0.],
         [1., 0., 0.],
         [0., 1., 0.]])
  """
  radius = len(taps) // 2
  out = np.arange(size)[:, None]
  matrix = np.zeros((size, size))
  source = border(out + np.arange(-radius, radius + 1), size)
  np.add.at(matrix, (np.broadcast_to(out, source.shape), source), np.broadcast_to(taps, source.shape))
  return matrix


def gaussian_taps(sigma: float, truncate: float = 4.0) -> np.ndarray:
  """Returns a normalized Gaussian cut off after `truncate` deviations, as scipy.ndimage makes it."""
  radius = int(truncate * sigma + 0.5)
  taps = np.exp(-0.5 * (np.arange(-radius, radius + 1) / max(sigma, 1e-12)) ** 2)
  return taps / taps.sum()


def zoom_positions(size: int, factor: float) -> np.ndarray:
  """Returns where the pixels of an axis come from when its middle is enlarged: scipy.ndimage.zoom, order 1, trimmed."""
  crop = int(np.ceil(size / factor))
  out = round(crop * factor)
  row = np.arange(size) + (out - size) // 2
  return (size - crop) // 2 + row * ((crop - 1) / (out - 1))


def zoom_matrix(size: int, factor: float) -> np.ndarray:
  """Returns the same as a (size, size) matrix of linear interpolation."""
  return np.maximum(0, 1 - np.abs(zoom_positions(size, factor)[:, None] - np.arange(size)))


def box_matrix(size: int, new_size: int) -> np.ndarray:
  """Returns the (new_size, size) means of Pillow's BOX filter."""
  scale = size / new_size
  support = 0.5 * max(scale, 1.0)
  center = (np.arange(new_size) + 0.5) * scale
  low = np.maximum((center - support + 0.5).astype(int), 0)[:, None]
  high = np.minimum((center + support + 0.5).astype(int), size)[:, None]
  source = np.arange(size)
  distance = (source + 0.5 - center[:, None]) / max(scale, 1.0)
  weights = ((source >= low) & (source < high) & (distance > -0.5) & (distance <= 0.5)).astype(float)
  return weights / weights.sum(1, keepdims=True)


def select(values: np.ndarray | Sequence, severity: Array | int) -> Array:
  """Returns the entry of a table made while tracing that belongs to a severity counted from 0."""
  return jnp.asarray(np.asarray(values), jnp.float32)[severity]


def choose(rows: Rows, severity: Array | int) -> list[Array]:
  """Returns the parameters of a severity counted from 0, as scalars."""
  return list(select(rows, severity))


def filter_table(make: Callable[[int, int], np.ndarray], severities: int, size: int) -> np.ndarray:
  """Returns matrices of all severities: `make(severity, size)`, stacked."""
  return np.stack([make(severity, size) for severity in range(severities)]).astype(np.float32)


def separable(image: Array, rows: Array, columns: Array) -> Array:
  """Applies a matrix to the rows (axis 0) and one to the columns (axis 1) of an image (H, W) or (H, W, C)."""
  image = jnp.einsum("ij,j...->i...", rows, image, precision=jax.lax.Precision.HIGHEST)
  return jnp.einsum("jk,ik...->ij...", columns, image, precision=jax.lax.Precision.HIGHEST)


def filtered(image: Array, make: Callable[[int, int], np.ndarray], severities: int, severity: Array | int) -> Array:
  """Filters both axes with the matrices `make(severity, size)` of one severity."""
  height, width = image.shape[:2]
  rows = filter_table(make, severities, height)
  columns = rows if height == width else filter_table(make, severities, width)
  return separable(image, select(rows, severity), select(columns, severity))


def gaussian(image: Array, sigmas: Sequence[float], severity: Array | int) -> Array:
  """Blurs by one of some sigmas; outer pixels are repeated (skimage.filters.gaussian)."""
  return filtered(image, lambda s, size: filter_matrix(gaussian_taps(sigmas[s]), size, nearest), len(sigmas), severity)


def look_up(values: Array, index: Array) -> Array:
  """Returns values[index] for indices known to be inside: without the checks, several times as fast on CPU."""
  return values.at[index].get(mode="promise_in_bounds")


def bilinear(image: Array, y: Array, x: Array) -> Array:
  """Returns the values of an image (H, W, C) at real positions that lie inside it, linearly between pixels."""
  height, width, channels = image.shape
  top, left = jnp.floor(y), jnp.floor(x)
  fy, fx = (y - top)[..., None], (x - left)[..., None]
  row, column = top.astype(jnp.int32), left.astype(jnp.int32)
  below, right = jnp.minimum(row + 1, height - 1), jnp.minimum(column + 1, width - 1)
  flat = image.reshape(height * width, channels)
  upper = look_up(flat, row * width + column) * (1 - fx) + look_up(flat, row * width + right) * fx
  lower = look_up(flat, below * width + column) * (1 - fx) + look_up(flat, below * width + right) * fx
  return upper * (1 - fy) + lower * fy
