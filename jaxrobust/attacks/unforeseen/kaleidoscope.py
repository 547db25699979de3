"""Kaleidoscope: translucent disks, triangles and squares with dark edges, whose colors are attacked.

  x' = clip(E (|e| - X) + X, 0, 1),   X = (1 - (1 - transparency) U) x + sum_k M_k (c_k + w_k),   |w|_inf, |e|_inf <= b

M_k are the shapes, U their union, E the pixels of 5 × 5 around a shape that are not its own; there X is replaced by
the brightness |e| of the edge. Shapes and their first colors c_k (any hue, saturation of at least 0.7, value of at
least 0.8) are drawn once. w starts uniform in [-b, b], e in [0, b]. Disks have the diameter `size`, squares this side,
triangles that of √3 size, rounded down; turned by any angle, their corner away from the image's edge. 5 shapes of 4
pixels, transparency 0.2, budgets 0.05, 0.1 and 0.15 on CIFAR-10; 40 of 15 and 0.1 on ImageNet, with the same budgets.
Deviation: a pixel belongs to a shape if its center does; the authors fill triangles line by line. Source and what all
of these attacks share: `ascent` (arXiv:1908.08016).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from jaxrobust.attacks.registry import ATTACKS
from jaxrobust.attacks.unforeseen.ascent import SceneAscent
from jaxrobust.attacks.witness_descent import WitnessThreat, check_colors
from jaxrobust.core.types import Array

_SATURATION, _VALUE = 0.7, 0.8
_EDGE = 5


def from_hsv(hue: Array, saturation: Array, value: Array) -> Array:
  """Returns RGB colors; all numbers are from 0 to 1.

  >>> from_hsv(jnp.array([0.0, 1 / 3]), jnp.ones(2), jnp.ones(2)).round(3).tolist()
  [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
  """
  turn = (hue[..., None] * 6 + jnp.array([5.0, 3.0, 1.0])) % 6
  return value[..., None] * (1 - saturation[..., None] * jnp.clip(jnp.minimum(turn, 4 - turn), 0, 1))


def inside_corners(corners: Array, height: int, width: int) -> Array:
  """Returns which pixels are in a convex polygon, whose corners (N, 2) as (x, y) follow its outline.

  >>> inside_corners(jnp.array([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0]]), 3, 3).astype(int).tolist()
  [[1, 1, 1], [1, 1, 0], [1, 0, 0]]
  """
  x, y = jnp.meshgrid(jnp.arange(width), jnp.arange(height))
  after = jnp.roll(corners, -1, axis=0)
  way = (after - corners)[:, :, None, None]
  sides = way[:, 0] * (y - corners[:, 1, None, None]) - way[:, 1] * (x - corners[:, 0, None, None])
  return jnp.all(sides >= -1e-4, axis=0) | jnp.all(sides <= 1e-4, axis=0)


@dataclass(frozen=True)
class Shapes(WitnessThreat):
  """Changes of the colors of shapes (shapes, 3) and brightness of their edges (height, width); measures the largest."""

  shapes: int = 5
  size: int = 4
  transparency: float = 0.2
  name: str = "shapes"

  def identity(self, image: Array) -> tuple[Array, Array]:
    check_colors(image, "kaleidoscope")
    return jnp.zeros((self.shapes, 3)), jnp.zeros(image.shape[:2])

  def start(self, image: Array, eps: Array, key: Array) -> tuple[Array, Array]:
    colors, edges = self.identity(image)
    chance = jax.random.uniform(jax.random.fold_in(key, 1), (colors.size + edges.size,))
    signed = 2 * chance[: colors.size].reshape(colors.shape) - 1
    return eps * signed, eps * chance[colors.size :].reshape(edges.shape)

  def masks(self, chance: Array, height: int, width: int) -> Array:
    """Returns the shapes as (shapes, height, width) of truth values; `chance` has (kind, x, y, angle) of each."""
    sizes = jnp.array([width, height])
    long = int(self.size * 1.5 / math.sin(math.pi / 3))

    def corner(place: Array, side: int) -> Array:
      room = jnp.maximum(sizes - 2 * (side + 1), 1)
      return jnp.minimum(side + 1, sizes - 1) + jnp.floor(place * room)

    def one(chance: Array) -> Array:
      place, angle = chance[1:3], 2 * np.pi * chance[3]
      x, y = jnp.meshgrid(jnp.arange(width), jnp.arange(height))
      center = jnp.floor(place * sizes)
      disk = (x - center[0]) ** 2 + (y - center[1]) ** 2 < (self.size / 2) ** 2
      triangle = jnp.stack([jnp.zeros(2), long * _toward(angle), long * _toward(angle + np.pi / 3)])
      one, two = self.size * _toward(angle), self.size * _toward(angle + np.pi / 2)
      square = jnp.stack([jnp.zeros(2), one, one + two, two])
      polygons = (
        inside_corners(corner(place, long) + triangle, height, width),
        inside_corners(corner(place, self.size) + square, height, width),
      )
      return jnp.stack([disk, *polygons])[jnp.floor(3 * chance[0]).astype(jnp.int32)]

    return jax.vmap(one)(chance)

  def draw(self, image: Array, offset: tuple[Array, Array], key: Array, drawing: Array) -> Array:
    del drawing
    change, brightness = offset
    chance = jax.random.uniform(jax.random.fold_in(key, 0), (self.shapes, 7))
    hue, saturation, value = chance[:, 4], chance[:, 5], chance[:, 6]
    colors = from_hsv(hue, _SATURATION + (1 - _SATURATION) * saturation, _VALUE + (1 - _VALUE) * value)
    return self.laid(image, self.masks(chance[:, :4], *image.shape[:2]), colors + change, brightness)

  def laid(self, image: Array, masks: Array, colors: Array, brightness: Array) -> Array:
    """Returns the image below shapes of some colors, and edges of some brightness."""
    around = jax.lax.reduce_window(masks.astype(jnp.float32), 0.0, jax.lax.max, (1, _EDGE, _EDGE), (1, 1, 1), "SAME")
    edges = jnp.any((around > 0) & ~masks, axis=0)[..., None]
    covered = jnp.any(masks, axis=0)[..., None]
    tinted = jnp.einsum("khw,kc->hwc", masks.astype(jnp.float32), colors)
    shown = jnp.where(covered, self.transparency, 1.0) * image + tinted
    return jnp.where(edges, jnp.abs(brightness)[..., None], shown)


def _toward(angle: Array) -> Array:
  return jnp.stack([jnp.cos(angle), jnp.sin(angle)])


@ATTACKS.register("kaleidoscope")
def kaleidoscope(
  num_steps: int = 30,
  step_length: float = 0.005,
  shapes: int = 5,
  size: int = 4,
  transparency: float = 0.2,
  loss: str = "ce",
) -> SceneAscent:
  """Covers the image with colored shapes."""
  return SceneAscent(Shapes(shapes, size, transparency), num_steps, step_length, "kaleidoscope", loss=loss)
