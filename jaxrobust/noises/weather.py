"""Fog, and the fractal it is made of (Hendrycks and Dietterich 2019, arXiv:1903.12261)."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array

from jaxrobust.noises.resampling import Rows, choose


def plasma_fractal(key: Array, size: int, decay: Array | float) -> Array:
  """Returns a diamond-square height map (size, size) in [0, 1], size a power of two, that wraps around.

  Each level halves the grid; its new points are the mean of four neighbors plus w² U(-1, 1), with w divided by
  `decay` from level to level.

  >>> heights = plasma_fractal(jax.random.key(0), 16, 2.0)
  >>> heights.shape, float(heights.min()), float(heights.max())
  ((16, 16), 0.0, 1.0)
  """
  # One draw for all levels: each call of the generator costs a second of compilation.
  chance = jax.random.uniform(key, (size * size,), minval=-1.0, maxval=1.0)
  grid = jnp.zeros((1, 1))
  wobble = jnp.float32(100.0)
  for level in range(size.bit_length() - 1):
    n = 2**level
    noise = wobble**2 * chance[n * n : 4 * n * n].reshape(3, n, n)
    rows = grid + jnp.roll(grid, -1, 0)
    center = (rows + jnp.roll(rows, -1, 1)) / 4 + noise[0]
    right = (center + jnp.roll(center, 1, 0) + grid + jnp.roll(grid, -1, 1)) / 4 + noise[1]
    below = (center + jnp.roll(center, 1, 1) + grid + jnp.roll(grid, -1, 0)) / 4 + noise[2]
    even, odd = jnp.stack([grid, right], -1).reshape(n, 2 * n), jnp.stack([below, center], -1).reshape(n, 2 * n)
    # Without the barrier the compiler folds all levels into one expression, which takes it a minute.
    grid = jax.lax.optimization_barrier(jnp.stack([even, odd], 1).reshape(2 * n, 2 * n))
    wobble = wobble / decay
  grid = grid - grid.min()
  return grid / grid.max()


def fog(image: Array, key: Array, rows: Rows, severity: Array | int) -> Array:
  """Adds a fractal cloud, and scales the brightest value back to where it was."""
  strength, decay = choose(rows, severity)
  height, width = image.shape[:2]
  cloud = plasma_fractal(key, power_of_two(max(height, width)), decay)[:height, :width, None]
  brightest = image.max()
  return (image + strength * cloud) * brightest / (brightest + strength)


def power_of_two(size: int) -> int:
  """Returns the smallest power of two that is not smaller."""
  return 1 << (size - 1).bit_length()
