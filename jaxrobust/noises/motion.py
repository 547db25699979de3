"""Motion blur, and snow that falls with it.

Hendrycks and Dietterich 2019, arXiv:1903.12261. Motion blur follows ImageMagick's MotionBlurImage, which the
authors call: one-sided Gaussian weights along a line of whole pixels, outer pixels repeated. At a given angle the two
agree to ±1 gray level everywhere (PSNR above 77 dB for every severity); snow differs in its random numbers alone.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxrobust.noises.resampling import Rows, choose, filtered, zoom_matrix


def _one_by_one(function: Callable[..., Array]) -> Callable[..., Array]:
  """Makes batches loops on CPUs: a slice at an example's own offset is copied whole, where a gather is not."""
  looped = jax.custom_batching.sequential_vmap(function)
  return lambda *arguments: jax.lax.platform_dependent(*arguments, cpu=looped, default=function)


@_one_by_one
def _blur_along(padded: Array, weights: Array, dy: Array, dx: Array) -> Array:
  """Returns the weighted sum of views of an image padded by the number of weights on each side."""
  reach = len(weights)
  shape = (padded.shape[0] - 2 * reach, padded.shape[1] - 2 * reach, padded.shape[2])

  def add(i: int, total: Array) -> Array:
    return total + weights[i] * jax.lax.dynamic_slice(padded, (reach + dy[i], reach + dx[i], 0), shape)

  return jax.lax.fori_loop(0, reach, add, jnp.zeros(shape, padded.dtype))


def blur_along(image: Array, radius: Array, sigma: Array, angle: Array, largest_radius: int) -> Array:
  """Blurs an image (H, W, C) by motion toward an angle in degrees.

  >>> line = blur_along(jnp.zeros((32, 32, 1)).at[16, 16].set(1.0), 3.0, 1.0, 0.0, 3)
  >>> bool((line[16, 10:17, 0] > 0).all()), round(float(line.sum()), 5)
  (True, 1.0)
  """
  width = 2 * largest_radius + 1
  step = jnp.arange(width, dtype=jnp.float32)
  weights = jnp.where(step < 2 * radius + 1, jnp.exp(-(step**2) / (2 * sigma**2)), 0.0)
  # Where the line leaves a small image altogether, it stops without being renormalized.
  dy = jnp.ceil(step * jnp.sin(jnp.deg2rad(angle)) - 0.5).astype(jnp.int32)
  dx = jnp.ceil(step * jnp.cos(jnp.deg2rad(angle)) - 0.5).astype(jnp.int32)
  inside = (jnp.abs(dy) < image.shape[0]) & (jnp.abs(dx) < image.shape[1])
  weights = jnp.where(inside, weights / weights.sum(), 0.0)
  padded = jnp.pad(image, ((width, width), (width, width), (0, 0)), mode="edge")
  return _blur_along(padded, weights, dy, dx)


def motion_blur(image: Array, key: Array, rows: Rows, severity: Array | int) -> Array:
  """Blurs by motion toward an angle between -45 and 45 degrees."""
  radius, sigma = choose(rows, severity)
  angle = jax.random.uniform(key, minval=-45.0, maxval=45.0)
  return blur_along(image, radius, sigma, angle, _largest(rows, 0))


def snow(image: Array, key: Array, rows: Rows, severity: Array | int) -> Array:
  """Bleaches colors and lets flakes fall from two sides: enlarged noise, thresholded, blurred by its motion."""
  loc, scale, _, threshold, radius, sigma, share = choose(rows, severity)
  noise_key, angle_key = jax.random.split(key)
  flakes = loc + scale * jax.random.normal(noise_key, image.shape[:2])
  angle = jax.random.uniform(angle_key, minval=-135.0, maxval=-45.0)
  zoomed = filtered(flakes, lambda s, size: zoom_matrix(size, rows[s][2]), len(rows), severity)
  fall = falling(zoomed, threshold, radius, sigma, angle, _largest(rows, 4))
  return with_snow(image, fall, share)


def falling(flakes: Array, threshold: Array, radius: Array, sigma: Array, angle: Array, largest_radius: int) -> Array:
  """Returns flakes (H, W) above a threshold, blurred along their fall: (H, W, 1), in 8 bits."""
  flakes = jnp.clip(jnp.where(flakes < threshold, 0.0, flakes), 0, 1)
  flakes = jnp.floor(flakes * 255) / 255
  return jnp.round(blur_along(flakes[..., None], radius, sigma, angle, largest_radius) * 255) / 255


def with_snow(image: Array, fall: Array, share: Array | float) -> Array:
  """Returns an image bleached to a share of itself, with falling snow and the same snow turned by half a turn."""
  luma = (image @ jnp.array([0.299, 0.587, 0.114]))[..., None]
  bleached = share * image + (1 - share) * jnp.maximum(image, luma * 1.5 + 0.5)
  return bleached + fall + fall[::-1, ::-1]


def _largest(rows: Rows, column: int) -> int:
  return int(np.max([row[column] for row in rows]))
