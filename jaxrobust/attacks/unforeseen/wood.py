"""Wood: rings around the middle that darken the image, and whose shape is attacked.

  x' = x |sin(pi rings (r + bilinear(w)))|^(1/power),   |w|_inf <= b

r is the distance to the middle in half sides, w a coarse square of offsets, zero at the start. Budgets of CIFAR-10
and ImageNet: 0.03, 0.05 and 0.1; there with 4 rings and a resolution of 32. Where the sine is zero (the very middle)
the gradient is taken to be zero. Source and what all of these attacks share: `ascent` (arXiv:1908.08016).
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from jaxrobust.attacks.registry import ATTACKS
from jaxrobust.attacks.unforeseen.ascent import SceneAscent
from jaxrobust.attacks.witness_descent import WitnessThreat
from jaxrobust.core.types import Array


@dataclass(frozen=True)
class Rings(WitnessThreat):
  """Offsets of the rings' radius, (resolution, resolution); measures the largest."""

  resolution: int = 16
  rings: int = 5
  power: int = 8
  name: str = "rings"

  def identity(self, image: Array) -> Array:
    del image
    return jnp.zeros((self.resolution, self.resolution))

  def draw(self, image: Array, offset: Array, key: Array, drawing: Array) -> Array:
    del key, drawing
    y, x = (2 * np.arange(size, dtype=np.float32) / size - 1 for size in image.shape[:2])
    radius = np.hypot(*np.meshgrid(x, y)).astype(np.float32)
    moved = radius + jax.image.resize(offset, image.shape[:2], "linear", antialias=False)
    height = jnp.abs(jnp.sin(np.pi * self.rings * moved))
    dark = jnp.where(height > 0, jnp.where(height > 0, height, 1.0) ** (1 / self.power), 0.0)
    return image * dark[..., None]


@ATTACKS.register("wood")
def wood(
  num_steps: int = 70,
  step_length: float = 0.000625,
  resolution: int = 16,
  rings: int = 5,
  power: int = 8,
  loss: str = "ce",
) -> SceneAscent:
  """Lays rings of wood over the image."""
  return SceneAscent(Rings(resolution, rings, power), num_steps, step_length, "wood", loss=loss)
