"""Glitch: every color of every horizontal band is shifted sideways by itself.

  x'[y, x, c] = bilinear sample of x[.., c] at (x - 1/2 + w[c, band(y)] width/2, y - 1/2),   |w|_inf <= b

mirrored at the edges. The half pixels are the authors': they place pixels at their corners, their sampling at the
centers. Offsets are in half sides; 16 bands, 56 on ImageNet. The start is uniform in [0, b]. Budgets 0.03, 0.05 and
0.1 on CIFAR-10, 0.03, 0.05 and 0.07 on ImageNet. Their graying has strength zero and is left out. Source and what all
of these attacks share: `ascent` (arXiv:1908.08016).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp

from jaxrobust.attacks.registry import ATTACKS
from jaxrobust.attacks.sampling import reflected, sample_pixels
from jaxrobust.attacks.unforeseen.ascent import SceneAscent
from jaxrobust.attacks.witness_descent import WitnessThreat, check_divides
from jaxrobust.core.types import Array


@dataclass(frozen=True)
class Bands(WitnessThreat):
  """Shifts of bands, (channels, lines); measures the largest."""

  lines: int = 16
  name: str = "bands"
  unit: ClassVar[str] = "half sides"

  def identity(self, image: Array) -> Array:
    check_divides(image, (self.lines, 1), f"glitch's {self.lines} lines")
    return jnp.zeros((image.shape[-1], self.lines))

  def start(self, image: Array, eps: Array, key: Array) -> Array:
    return eps * jax.random.uniform(jax.random.fold_in(key, 1), self.identity(image).shape)

  def draw(self, image: Array, offset: Array, key: Array, drawing: Array) -> Array:
    del key, drawing
    height, width = image.shape[:2]
    y, x = jnp.arange(height) - 0.5, jnp.arange(width) - 0.5

    def shifted(channel: Array, by: Array) -> Array:
      across = x + jnp.repeat(by, height // self.lines)[:, None] * width / 2
      at = jnp.stack([reflected(across, width), jnp.broadcast_to(reflected(y, height)[:, None], across.shape)], -1)
      return sample_pixels(channel[..., None], at)[..., 0]

    return jax.vmap(shifted, in_axes=(2, 0), out_axes=2)(image, offset)


@ATTACKS.register("glitch")
def glitch(num_steps: int = 60, step_length: float = 0.0025, lines: int = 16, loss: str = "ce") -> SceneAscent:
  """Shifts the colors of bands sideways."""
  return SceneAscent(Bands(lines), num_steps, step_length, "glitch", loss=loss)
