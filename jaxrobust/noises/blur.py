"""Gaussian, defocus, zoom and glass blur.

Hendrycks and Dietterich 2019, arXiv:1903.12261.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxrobust.noises.resampling import (
  Rows,
  choose,
  filter_matrix,
  gaussian,
  mirror,
  zoom_matrix,
)

# Singular values of a defocus kernel below this share of the largest are rounding errors.
_RANK_TOLERANCE = 1e-5


def gaussian_blur(image: Array, key: Array, rows: Rows, severity: Array | int) -> Array:
  """A Gaussian of the given sigma, cut off after four of them."""
  del key
  return gaussian(image, [row[0] for row in rows], severity)


def disk(radius: float, alias_blur: float) -> np.ndarray:
  """A disk of that radius with a slightly blurred rim, summing to about 1.

  Up to a radius of 8 it sits in 17x17 pixels and its rim is blurred over 3x3 of them, above over 5x5.

  >>> disk(3, 0.1).shape, round(float(disk(3, 0.1).sum()), 6), disk(10, 0.5).shape
  ((17, 17), 1.0, (21, 21))
  """
  half, taps = (8, 3) if radius <= 8 else (int(radius), 5)
  axis = np.arange(-half, half + 1)
  inside = (axis[:, None] ** 2 + axis**2 <= radius**2).astype(np.float64)
  reach = np.arange(taps) - taps // 2
  rim = np.exp(-(reach**2) / (2 * alias_blur**2))
  matrix = filter_matrix(rim / rim.sum(), len(axis), mirror)
  return matrix @ (inside / inside.sum()) @ matrix.T


def defocus_blur(image: Array, key: Array, rows: Rows, severity: int) -> Array:
  """Convolution with a disk, as a sum of separable kernels (its singular value decomposition)."""
  del key
  kernel = disk(*rows[severity])
  left, scale, right = np.linalg.svd(kernel)
  rank = int((scale > _RANK_TOLERANCE * scale[0]).sum())
  height, width = image.shape[:2]
  tall = np.concatenate([filter_matrix(left[:, r] * scale[r], height, mirror) for r in range(rank)])
  wide = np.concatenate([filter_matrix(right[r], width, mirror) for r in range(rank)], axis=1)
  return _sum_of_products(image, tall, wide, rank)


def zoom_blur(image: Array, key: Array, rows: Rows, severity: int) -> Array:
  """The mean of the image and of enlargements of its middle."""
  del key
  factors = rows[severity]
  height, width = image.shape[:2]
  tall = np.concatenate([zoom_matrix(height, factor) for factor in factors])
  wide = np.concatenate([zoom_matrix(width, factor) for factor in factors], axis=1)
  total = _sum_of_products(image, tall, wide, len(factors))
  return (image + total) / (len(factors) + 1)


def _sum_of_products(image: Array, tall: np.ndarray, wide: np.ndarray, terms: int) -> Array:
  """The sum over r of A_r X B_r', with all A_r stacked as (r h, H) and all B_r side by side as (w, r W)."""
  height, width, channels = image.shape
  highest = jax.lax.Precision.HIGHEST
  rows = jnp.matmul(jnp.asarray(tall, jnp.float32), image.reshape(height, width * channels), precision=highest)
  rows = rows.reshape(terms, height, width, channels)
  columns = jnp.asarray(wide.reshape(width, terms, width), jnp.float32)
  return jnp.einsum("vrw,rhwc->hvc", columns, rows, precision=highest)


# A chain of copies longer than 2**6 has a probability below 1e-24 per pixel: each link needs an offset that
# points back to a pixel the pass has already visited, which fewer than 43 % do.
_DOUBLINGS = 6


def glass_blur(image: Array, key: Array, rows: Rows, severity: Array | int) -> Array:
  """Blur, some rounds of replacing every pixel by a random one nearby, blur.

  The authors' loop runs from the lower right to the upper left and swaps a pixel with one at an offset in [-d, d);
  since numpy's swap of two views copies one way only, a pixel takes the other's value and the other keeps its own.
  A pixel therefore ends with an original one at the end of a chain: pixel, its source, that one's source, … for as
  long as the source was visited before. Pointer doubling follows all chains at once, with no loop over pixels.
  """
  sigmas = [row[0] for row in rows]
  _, reach, rounds = choose(rows, severity)
  # Truncated to 8 bits, as the authors do before shuffling.
  image = jnp.floor(gaussian(image, sigmas, severity) * 255 + 1e-3) / 255
  flat = image.reshape(-1, image.shape[-1])
  for round_, round_key in enumerate(jax.random.split(key, int(max(row[2] for row in rows)))):
    source = _shuffle(round_key, image.shape[0], image.shape[1], reach.astype(jnp.int32))
    flat = jnp.where(round_ < rounds, flat[source], flat)
  return gaussian(flat.reshape(image.shape), sigmas, severity)


def _shuffle(key: Array, height: int, width: int, reach: Array) -> Array:
  """For each pixel, the one it takes its value from in one pass over the image."""
  offset = jax.random.randint(key, (2, height, width), -reach, reach)
  y, x = jnp.arange(height)[:, None], jnp.arange(width)
  visited = (y > reach) & (y <= height - reach) & (x > reach) & (x <= width - reach)
  here = y * width + x
  source = jnp.where(visited, (y + offset[0]) * width + x + offset[1], here).reshape(-1)
  later = (source > here.reshape(-1)) & visited.reshape(-1)[source]
  # Nodes 0 … n-1 are pixels after the pass, n … 2n-1 the originals, where every chain ends.
  n = height * width
  following = jnp.concatenate([jnp.where(later, source, source + n), jnp.arange(n, 2 * n)])
  for _ in range(_DOUBLINGS):
    following = following[following]
  return following[:n] - n
