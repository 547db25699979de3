"""Gabor: a sparse field, convolved with waves of several directions, is added to the image.

  x' = clip(x + (w · mask) * g, 0, 1),   |w|_inf <= b
  g  = G_theta + (1/sides) sum_{i=1}^{sides-1} G_{theta + i pi / sides}
  G_t(u, v) = e^{-(u² + v²) / (2 sigma²)} cos(2 pi f u_t)

u and v run from -1/2 to 1/2 over a kernel of 23 pixels, u_t is u rotated by t. A tenth of the field's places, drawn
once, are not masked; theta and the frequency f in [3, kernel/4] are drawn anew at every step, as the authors do. All
offsets start at the same random value in [0, b]. 3 sides (5 on ImageNet); budgets 0.02, 0.03 and 0.04 on CIFAR-10,
0.02, 0.04 and 0.06 on ImageNet. Deviation: places are unmasked one by one, where the authors choose a fixed number in
a batch. Source and what all of these attacks share: `ascent` (arXiv:1908.08016); Gabor noise: Co et al. 2019
(arXiv:1906.03455).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxrobust.attacks.registry import ATTACKS
from jaxrobust.attacks.unforeseen.ascent import SceneAscent
from jaxrobust.attacks.witness_descent import WitnessThreat
from jaxrobust.core.types import Array


def wave(size: int, sigma: float, frequency: Array | float, angle: Array | float) -> Array:
  """Returns one Gabor kernel, (size, size)."""
  line = np.linspace(-0.5, 0.5, size, dtype=np.float32)
  v, u = np.meshgrid(line, line, indexing="ij")
  along = u * jnp.cos(angle) + v * jnp.sin(angle)
  return jnp.exp(-0.5 * (u**2 + v**2) / (sigma + 1e-3) ** 2) * jnp.cos(2 * np.pi * frequency * along)


def convolve(fields: Array, kernels: Array) -> Array:
  """Returns the cross-correlation of fields (N, H, W) with kernels (N, k, k), each with its own, padded by zeros."""
  pad = kernels.shape[-1] // 2
  made = jax.lax.conv_general_dilated(
    fields[None], kernels[:, None], (1, 1), [(pad, pad), (pad, pad)], feature_group_count=len(fields)
  )
  return made[0]


@dataclass(frozen=True)
class GaborField(WitnessThreat):
  """Entries of a sparse field, (channels, height, width); measures the largest."""

  kernel: int = 23
  sides: int = 3
  sigma: float = 3.0
  density: float = 0.1
  name: str = "gabor-field"
  redrawn: ClassVar[bool] = True

  def identity(self, image: Array) -> Array:
    return jnp.zeros(jnp.moveaxis(image, -1, 0).shape)

  def start(self, image: Array, eps: Array, key: Array) -> Array:
    return eps * jax.random.uniform(jax.random.fold_in(key, 1)) * self._mask(self.identity(image), key)

  def _mask(self, field: Array, key: Array) -> Array:
    return (jax.random.uniform(jax.random.fold_in(key, 0), field.shape) < self.density).astype(jnp.float32)

  def waves(self, angle: Array | float, frequency: Array | float) -> Array:
    """Returns the sum of waves of all directions, the first at an angle."""
    total = wave(self.kernel, self.sigma, frequency, angle)
    for side in range(1, self.sides):
      total += wave(self.kernel, self.sigma, frequency, angle + np.pi * side / self.sides) / self.sides
    return total

  def draw(self, image: Array, offset: Array, key: Array, drawing: Array) -> Array:
    turn, pace = jax.random.uniform(jax.random.fold_in(jax.random.fold_in(key, 2), drawing), (2,))
    kernel = self.waves(np.pi * turn, 3 + (self.kernel / 4 - 3) * pace)
    return self.laid(image, offset * self._mask(offset, key), kernel)

  def laid(self, image: Array, field: Array, kernel: Array) -> Array:
    """Returns the image with a field's waves added."""
    added = convolve(field, jnp.broadcast_to(kernel, (len(field), *kernel.shape)))
    return image + jnp.moveaxis(added, 0, -1)


@ATTACKS.register("gabor")
def gabor(
  num_steps: int = 80,
  step_length: float = 0.0025,
  kernel: int = 23,
  sides: int = 3,
  sigma: float = 3.0,
  density: float = 0.1,
  loss: str = "ce",
) -> SceneAscent:
  """Adds waves around sparse places."""
  return SceneAscent(GaborField(kernel, sides, sigma, density), num_steps, step_length, "gabor", loss=loss)
