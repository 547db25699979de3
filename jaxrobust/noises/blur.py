"""Gaussian, defocus, zoom and glass blur.

Hendrycks and Dietterich 2019, arXiv:1903.12261.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxrobust.noises.resampling import Rows, choose, filter_matrix, gaussian, look_up, mirror, select, zoom_positions


def gaussian_blur(image: Array, key: Array, rows: Rows, severity: Array | int) -> Array:
  """Blurs with a Gaussian of the given sigma, cut off after four of them."""
  del key
  return gaussian(image, [row[0] for row in rows], severity)


def disk(radius: float, alias_blur: float) -> np.ndarray:
  """Returns a disk of that radius with a slightly blurred rim, summing to about 1.

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


def defocus_blur(image: Array, key: Array, rows: Rows, severity: Array | int) -> Array:
  """Convolves with a disk, mirrored at the border.

  Spelled out as shifted sums over whole rows: with three channels that is several times as fast on CPU as a
  convolution or as products of matrices. Rows above and below the center have the same weights and are added first.
  """
  del key
  kernels = [disk(*row) for row in rows]
  half = max(len(kernel) for kernel in kernels) // 2
  padded_kernels = [np.pad(kernel, half - len(kernel) // 2) for kernel in kernels]
  kernel = select(padded_kernels, severity)
  height, width, channels = image.shape
  flat = jnp.pad(image, ((half, half), (half, half), (0, 0)), mode="reflect")
  flat = flat.reshape(height + 2 * half, (width + 2 * half) * channels)

  def add(i: Array, total: Array) -> Array:
    below = jax.lax.dynamic_slice_in_dim(flat, half + i, height)
    above = jax.lax.dynamic_slice_in_dim(flat, half - i, height)
    pair = jnp.where(i > 0, below + above, below)
    weights = kernel[half + i]
    shifted = [weights[j] * pair[:, j * channels :][:, : width * channels] for j in range(2 * half + 1)]
    return total + functools.reduce(jnp.add, shifted)

  total = jax.lax.fori_loop(0, half + 1, add, jnp.zeros((height, width * channels)))
  return total.reshape(image.shape)


def zoom_blur(image: Array, key: Array, rows: Rows, severity: int) -> Array:
  """Averages the image and enlargements of its middle, linearly interpolated along one axis and the other."""
  del key
  total = image
  for factor in rows[severity]:
    total = total + _enlarge(_enlarge(image, factor, 0), factor, 1)
  return total / (len(rows[severity]) + 1)


def _enlarge(image: Array, factor: float, axis: int) -> Array:
  position = zoom_positions(image.shape[axis], factor)
  low = np.floor(position).astype(int)
  high = np.minimum(low + 1, image.shape[axis] - 1)
  part = jnp.asarray(position - low, jnp.float32).reshape([-1 if a == axis else 1 for a in range(3)])
  return jnp.take(image, low, axis) * (1 - part) + jnp.take(image, high, axis) * part


# A chain of copies longer than 2**5 has a probability below 1e-11: each link needs an offset that points back to a
# pixel the pass has already visited, which fewer than 43 % do.
_DOUBLINGS = 5


def glass_blur(image: Array, key: Array, rows: Rows, severity: Array | int) -> Array:
  """Blurs, replaces every pixel by a random one nearby in some rounds, blurs.

  The authors' loop runs from the lower right to the upper left and swaps a pixel with one at an offset in [-d, d);
  since numpy's swap of two views copies one way only, a pixel takes the other's value and the other keeps its own.
  A pixel therefore ends with an original one at the end of a chain: pixel, its source, that one's source, … for as
  long as the source was visited before. Pointer doubling follows all chains at once, with no loop over pixels.
  """
  sigmas = [row[0] for row in rows]
  _, reach, rounds = choose(rows, severity)
  # Truncated to 8 bits, as the authors do before shuffling.
  image = jnp.floor(gaussian(image, sigmas, severity) * 255 + 1e-3) / 255
  shape = image.shape
  # One draw for all rounds: each call of the generator costs a second of compilation.
  chance = jax.random.bits(key, (int(max(row[2] for row in rows)), shape[0] * shape[1]))

  def shuffle(i: Array, flat: Array) -> Array:
    return look_up(flat, _sources(chance[i], shape[0], shape[1], reach.astype(jnp.int32)))

  flat = jax.lax.fori_loop(0, rounds.astype(jnp.int32), shuffle, image.reshape(-1, shape[-1]))
  return gaussian(flat.reshape(shape), sigmas, severity)


def _sources(chance: Array, height: int, width: int, reach: Array) -> Array:
  """Returns, for each pixel, the one it takes its value from in one pass over the image, from 32 random bits each."""
  n = height * width
  y, x = jnp.arange(height)[:, None], jnp.arange(width)
  chance, span = chance.reshape(height, width), (2 * reach).astype(jnp.uint32)
  dy, dx = ((bits * span >> 16).astype(jnp.int32) - reach for bits in (chance >> 16, chance & 0xFFFF))

  def visited(y: Array, x: Array) -> Array:
    return (y > reach) & (y <= height - reach) & (x > reach) & (x <= width - reach)

  here = y * width + x
  source = jnp.where(visited(y, x), (y + dy) * width + x + dx, here)
  link = (source > here) & visited(y + dy, x + dx)
  # Nodes 0 … n-1 are pixels after the pass, n … 2n-1 the originals, where every chain ends.
  following = jnp.concatenate([jnp.where(link, source, source + n).reshape(-1), jnp.arange(n, 2 * n)])
  for _ in range(_DOUBLINGS):
    following = jax.lax.optimization_barrier(look_up(following, following))
  return following[:n] % n
