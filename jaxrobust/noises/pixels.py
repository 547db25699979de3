"""Noise that strikes every value on its own: Gaussian, shot, impulse and speckle.

Hendrycks and Dietterich 2019, arXiv:1903.12261.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxrobust.core.threefry import unrolled
from jaxrobust.noises.resampling import Rows, choose, look_up, select


def gaussian_noise(image: Array, key: Array, rows: Rows, severity: Array | int) -> Array:
  """Returns x + c z, as from a sensor in low light."""
  (scale,) = choose(rows, severity)
  return image + scale * jax.random.normal(key, image.shape)


def speckle_noise(image: Array, key: Array, rows: Rows, severity: Array | int) -> Array:
  """Returns x + c x z: stronger where the image is brighter."""
  (scale,) = choose(rows, severity)
  return image * (1 + scale * jax.random.normal(key, image.shape))


def impulse_noise(image: Array, key: Array, rows: Rows, severity: Array | int) -> Array:
  """Strews salt and pepper: a share c of the values becomes 0 or 1, each channel by itself (skimage's `s&p`)."""
  (share,) = choose(rows, severity)
  chance = jax.random.uniform(unrolled(key), image.shape)
  return jnp.where(chance < share / 2, 1.0, jnp.where(chance < share, 0.0, image))


def shot_noise(image: Array, key: Array, rows: Rows, severity: Array | int) -> Array:
  """Returns Poisson(c x) / c: light arrives in c photons at most.

  Inverts the distribution function, tabulated for the 256 gray levels, by bisection: exact for 8-bit images (as
  the authors' are), and without the rejections that make a batch wait for its unluckiest value.
  """
  (photons,) = choose(rows, severity)
  largest = max(row[0] for row in rows)
  # Ten deviations above the largest mean; the bisection wants a power of two.
  bits = int(largest + 10 * largest**0.5 + 10).bit_length()
  below = select([_poisson_distribution(row[0], bits) for row in rows], severity).reshape(-1)
  level = jnp.round(image * 255).astype(jnp.int32) << bits
  chance = jax.random.uniform(key, image.shape)
  # The smallest count whose distribution function exceeds the chance.
  count = jnp.zeros(image.shape, jnp.int32)
  for bit in reversed(range(bits)):
    higher = count + (1 << bit)
    count = jnp.where(look_up(below, level + higher - 1) <= chance, higher, count)
  return count / photons


def _poisson_distribution(photons: float, bits: int) -> np.ndarray:
  """Returns P(count <= k) for each of the 256 gray levels and k < 2**bits."""
  counts = np.arange(2**bits)
  mean = photons * np.arange(256)[:, None] / 255
  log_factorial = np.cumsum(np.log(np.maximum(counts, 1)))
  log_mass = counts * np.log(np.maximum(mean, 1e-300)) - mean - log_factorial
  return np.cumsum(np.exp(log_mass), axis=1)
