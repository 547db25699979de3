"""Pixel: squares of the image fade into one of their own pixels.

  x' = (1 - w) x + w corner(x),   0 <= w <= 1,   |w|_2 <= b

with a weight for every square and channel; corner(x) is the color of the square's first pixel. Steps follow the
gradient over its l2 norm. The start has random positive entries and a norm uniform in [0, b]. Squares of 4 pixels and
budgets 1, 5 and 10 on CIFAR-10, 16 pixels and 3, 5 and 10 on ImageNet. Squares at the edge may be incomplete, where
the authors resize the image. Source and what all of these attacks share: `ascent` (arXiv:1908.08016).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp

from jaxrobust.attacks.registry import ATTACKS
from jaxrobust.attacks.unforeseen.ascent import SceneAscent
from jaxrobust.attacks.witness_descent import WitnessThreat
from jaxrobust.core.lpips import length
from jaxrobust.core.types import Array


@dataclass(frozen=True)
class Mosaic(WitnessThreat):
  """Weights of squares of one color, (rows, columns, channels); measures their l2 norm."""

  side: int = 4
  name: str = "mosaic"
  norm: ClassVar[str] = "l2"

  def identity(self, image: Array) -> Array:
    return jnp.zeros_like(image[:: self.side, :: self.side])

  def start(self, image: Array, eps: Array, key: Array) -> Array:
    ways, far = jax.random.split(jax.random.fold_in(key, 1))
    weights = jax.random.uniform(ways, self.identity(image).shape)
    return eps * jax.random.uniform(far) * weights / (length(weights) + 1e-8)

  def project(self, image: Array, offset: Array, eps: Array) -> Array:
    return jnp.clip(super().project(image, offset, eps), 0.0, 1.0)

  def draw(self, image: Array, offset: Array, key: Array, drawing: Array) -> Array:
    del key, drawing
    weights, colors = (self._spread(part, image) for part in (offset, image[:: self.side, :: self.side]))
    return (1 - weights) * image + weights * colors

  def _spread(self, squares: Array, image: Array) -> Array:
    wide = jnp.repeat(jnp.repeat(squares, self.side, axis=0), self.side, axis=1)
    return wide[: image.shape[0], : image.shape[1]]


@ATTACKS.register("pixel")
def pixel(num_steps: int = 60, step_length: float = 1.0, side: int = 4, loss: str = "ce") -> SceneAscent:
  """Makes squares of the image coarse."""
  return SceneAscent(Mosaic(side), num_steps, step_length, "pixel", "l2", loss)
