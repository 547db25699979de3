"""ReColorAdv: every color of the image is replaced by another, the same wherever it occurs.

  x' = to_rgb(T(from_rgb(x))),  T(c) = trilinear interpolation of identity + w,  |w|_inf <= b

in the color space of `luv`, with a table of 16 × 32 × 32 colors. Before every evaluation the table is clipped to the
unit cube and to the colors that can be shown, then to the budget. The attack is `witness_descent` with Adam at 0.001
and weight 0.0036 of the roughness, from the identity. Untargeted and targeted.

Sources: Laidlaw and Feizi 2019 (arXiv:1906.00001); bound, optimizer and weight are those of perceptual-advex 0.2.6
(arXiv:2006.12655); 100 steps (200 on ImageNet) within 0.06 are OODRobustBench's (arXiv:2310.12793). Known deviations:
the authors' code returns its last point, the engine the first that succeeds; a table without a change returns the
image itself, not what is left of it after two changes of the color space.
"""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from jaxrobust.attacks import luv
from jaxrobust.attacks.registry import ATTACKS
from jaxrobust.attacks.sampling import color_wheel
from jaxrobust.attacks.witness_descent import AdamDescent, Scene, WitnessThreat, check_colors, unchanged_at_zero
from jaxrobust.core.types import Array

SHAPE = (16, 32, 32)
# How much larger changes are in pictures of tables: within usual budgets nobody sees them.
SHOWN = 4


@functools.cache
def _identity() -> np.ndarray:
  """Returns the table that changes nothing, (16, 32, 32, 3)."""
  axes = [np.arange(size, dtype=np.float32) / np.float32(size - 1) for size in SHAPE]
  return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)


def look_up(table: Array, colors: Array) -> Array:
  """Returns what a table (X, Y, Z, 3) makes of colors in the unit cube, linear between its entries."""
  sizes = table.shape[:3]
  at = colors * jnp.array([size - 1 for size in sizes], jnp.float32)
  low = jnp.floor(at)
  part, index = at - low, low.astype(jnp.int32)
  rows, total = table.reshape(-1, 3), jnp.zeros_like(colors)
  for corner in itertools.product((0, 1), repeat=3):
    place = jnp.zeros(colors.shape[:-1], jnp.int32)
    weight = jnp.ones(colors.shape[:-1])
    for axis, (size, up) in enumerate(zip(sizes, corner, strict=True)):
      place = place * size + jnp.clip(index[..., axis] + up, 0, size - 1)
      weight = weight * (part[..., axis] if up else 1 - part[..., axis])
    total = total + weight[..., None] * rows[place]
  return total


@functools.partial(jax.tree_util.register_dataclass, data_fields=(), meta_fields=("name",))
@dataclass(frozen=True)
class ColorTable(WitnessThreat):
  """Changes of a table of colors; measures the largest change of a coordinate.

  Example:
    >>> image = jnp.full((2, 2, 3), 0.4)
    >>> darker = jnp.zeros((16, 32, 32, 3)).at[..., 0].set(-0.1)
    >>> bool(jnp.all(ColorTable().draw(image, darker, jax.random.key(0), 1) < 0.35))
    True
  """

  name: str = "color"

  def identity(self, image: Array) -> Array:
    check_colors(image, "a color table")
    return jnp.zeros((*SHAPE, 3))

  def project(self, image: Array, offset: Array, eps: Array) -> Array:
    del image
    shown = luv.from_rgb(luv.to_rgb(jnp.clip(_identity() + offset, 0.0, 1.0)))
    return jnp.clip(shown - _identity(), -eps, eps)

  def draw(self, image: Array, offset: Array, key: Array, drawing: Array) -> Array:
    del key, drawing
    return unchanged_at_zero(image, _changed(image, offset), offset)

  def picture(self, original: Array, witness: Scene) -> Array:
    """Returns a chart of colors, hues from left to right and black to white; under it they change four times as far."""
    height, width = original.shape[:2]
    chart = _chart((height + 1) // 2, width)
    below = jnp.clip(chart + SHOWN * (_changed(chart, witness.offset) - chart), 0.0, 1.0)
    return jnp.concatenate([chart, below[: height // 2]])


def _changed(colors: Array, offset: Array) -> Array:
  """Returns what a table makes of colors (…, 3) in RGB."""
  return luv.to_rgb(look_up(jnp.asarray(_identity()) + offset, luv.from_rgb(colors)))


def _chart(height: int, width: int) -> Array:
  """Returns all hues beside each other, each from black through itself to white, (height, width, 3)."""
  turn = 2 * np.pi * np.arange(width, dtype=np.float32) / width
  hues = color_wheel(jnp.asarray(np.stack([np.cos(turn), np.sin(turn)], axis=-1)))
  light = 2 * (np.arange(height, dtype=np.float32) + 0.5)[:, None, None] / height
  return jnp.where(light < 1, light * hues, hues + (light - 1) * (1 - hues))


@ATTACKS.register("recolor")
@dataclass(frozen=True)
class ReColor(AdamDescent):
  """Changes colors by one smooth function for the whole image.

  Example:
    >>> ReColor().threat.name, ReColor().learning_rate
    ('color', 0.001)
  """

  num_steps: int = 100
  learning_rate: float = 0.001
  smoothness: float = 0.0036
  loss: str = "margin"
  name: str = "recolor"
  threat = ColorTable()
