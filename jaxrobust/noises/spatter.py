"""Spatter: drops of water or mud on the lens.

Hendrycks and Dietterich 2019, arXiv:1903.12261. The authors shade water by OpenCV's Canny edges, distance transform and
histogram equalization; here they are written as whole-image operations. Known deviation: distances to edges are exact
Euclidean ones where OpenCV approximates them by a 5x5 mask (2 % off at most, before rounding to whole pixels).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxrobust.noises.resampling import Rows, choose, gaussian

_FARTHEST = 20  # Distances are cut off here.
_WATER = (175 / 255, 238 / 255, 238 / 255)
_MUD = (63 / 255, 42 / 255, 20 / 255)
_EMBOSS = ((-2, -1, 0), (-1, 1, 1), (0, 1, 2))
_WEAK, _STRONG = 50, 150  # Gradients of Canny edges.


def spatter(image: Array, key: Array, rows: Rows, severity: Array | int) -> Array:
  """Turns blurred noise above a threshold into liquid: pale and shaded water, or plain brown mud."""
  loc, scale, _, threshold, strength, mud = choose(rows, severity)
  noise = loc + scale * jax.random.normal(key, image.shape[:2])
  liquid = gaussian(noise, [row[2] for row in rows], severity)
  liquid = jnp.where(liquid < threshold, 0.0, liquid)

  def with_mud() -> Array:
    cover = gaussian((liquid > threshold).astype(jnp.float32), [row[4] for row in rows], severity)
    cover = jnp.where(cover < 0.8, 0.0, cover)[..., None]
    return image * (1 - cover) + cover * jnp.array(_MUD)

  return jax.lax.cond(mud > 0, with_mud, lambda: with_water(image, liquid, strength))


def with_water(image: Array, liquid: Array, strength: Array | float) -> Array:
  """Puts water of a given depth (H, W) over an image."""
  return image + strength * _shade(liquid)[..., None] * jnp.array(_WATER)


def _shade(liquid: Array) -> Array:
  """Returns liquid in [0, 1], embossed by its distance from the drops' edges."""
  levels = jnp.mod(jnp.floor(liquid * 255), 256)
  distance = jnp.floor(_mean3(_distance(canny(levels))))
  distance = _equalize(distance.astype(jnp.int32))
  distance = jnp.clip(_correlate3(distance, _EMBOSS), 0, 255)
  shade = levels * jnp.round(_mean3(distance))
  return shade / jnp.maximum(shade.max(), 1e-6)


def _correlate3(plane: Array, taps: tuple[tuple[int, ...], ...]) -> Array:
  """Correlates 3x3; mirrors at the outer pixels' centers."""
  height, width = plane.shape
  padded = jnp.pad(plane, 1, mode="reflect")
  total = jnp.zeros_like(plane)
  for i in range(3):
    for j in range(3):
      if taps[i][j]:
        total = total + taps[i][j] * padded[i : i + height, j : j + width]
  return total


def _mean3(plane: Array) -> Array:
  return _correlate3(plane, ((1, 1, 1),) * 3) / 9


def canny(levels: Array) -> Array:
  """Finds Canny edges of a plane of levels: ridges of the gradient above 150, and those above 50 connected to them."""
  padded = jnp.pad(levels, 1, mode="edge")
  height, width = levels.shape
  view = lambda i, j: padded[1 + i : 1 + i + height, 1 + j : 1 + j + width]
  gx = view(-1, 1) + 2 * view(0, 1) + view(1, 1) - view(-1, -1) - 2 * view(0, -1) - view(1, -1)
  gy = view(1, -1) + 2 * view(1, 0) + view(1, 1) - view(-1, -1) - 2 * view(-1, 0) - view(-1, 1)
  size = jnp.abs(gx) + jnp.abs(gy)
  around = jnp.pad(size, 1)
  neighbor = lambda i, j: around[1 + i : 1 + i + height, 1 + j : 1 + j + width]
  flat = jnp.abs(gy) < np.tan(np.pi / 8) * jnp.abs(gx)
  steep = jnp.abs(gy) > np.tan(3 * np.pi / 8) * jnp.abs(gx)
  along = (size > neighbor(0, -1)) & (size >= neighbor(0, 1))
  across = (size > neighbor(-1, 0)) & (size >= neighbor(1, 0))
  falling = (size > neighbor(-1, -1)) & (size > neighbor(1, 1))
  rising = (size > neighbor(-1, 1)) & (size > neighbor(1, -1))
  diagonal = jnp.where(gx * gy < 0, rising, falling)
  ridge = jnp.where(flat, along, jnp.where(steep, across, diagonal)) & (size > _WEAK)
  return _connected(ridge & (size > _STRONG), ridge)


def _connected(seeds: Array, allowed: Array) -> Array:
  """Returns all allowed pixels that touch a seed through allowed ones."""

  def grow(state: tuple[Array, Array]) -> tuple[Array, Array]:
    edges, _ = state
    grown = edges
    for _ in range(4):
      grown = jax.lax.reduce_window(grown, False, jnp.logical_or, (3, 3), (1, 1), "SAME") & allowed
    return grown, jnp.any(grown != edges)

  return jax.lax.while_loop(lambda state: state[1], grow, (seeds, jnp.array(True)))[0]


def _distance(edges: Array) -> Array:
  """Returns the Euclidean distance of each pixel to the nearest edge, at most 20: one axis after the other."""
  far = float(_FARTHEST**2)
  height, width = edges.shape
  squares = jnp.where(edges, 0.0, far)
  for axis, size in ((0, height), (1, width)):
    reach = min(_FARTHEST, size - 1)
    padding = [(reach, reach) if a == axis else (0, 0) for a in range(2)]
    padded = jnp.pad(squares, padding, constant_values=far)
    for offset in range(-reach, reach + 1):
      view = jax.lax.slice_in_dim(padded, reach + offset, reach + offset + size, axis=axis)
      squares = jnp.minimum(squares, view + offset**2)
  return jnp.sqrt(squares)


def _equalize(levels: Array) -> Array:
  """Equalizes the histogram of integers from 0 to 20 to levels up to 255."""
  counts = (levels[..., None] == jnp.arange(_FARTHEST + 1)).sum((0, 1))
  first = counts[jnp.argmax(counts > 0)]
  below = jnp.cumsum(counts) - first
  table = jnp.round(below * (255 / jnp.maximum(levels.size - first, 1)))
  return jnp.where(first == levels.size, levels, jnp.clip(table, 0, 255)[levels])
