"""Snow: flakes of several layers, each an oblong of its own direction, over a slightly whitened image.

  x' = clip((1 - d) x + d max(x, 3/2 luminance(x) + 1/2) + sum_l (w_l · mask_l)^4 * k_l, 0, 1),   |w|_2 <= b

The masks leave one place in grid² and, like the kernels k_l (a line from the middle, mirrored, of width 1, 3 or 5 with
probability .6, .3 and .1, flipped for the whole image or not), are drawn once. The start is e^{-u/5}, u uniform,
projected and then masked; steps follow the sign. Flakes of 3 pixels, a grid of 10, and budgets 3, 4 and 5 on CIFAR-10;
on ImageNet flakes of 15 pixels, blurred over 3 by a Gaussian, a grid of 15, and 10, 15 and 25. Source and what all of
these attacks share: `ascent` (arXiv:1908.08016).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxrobust.attacks.registry import ATTACKS
from jaxrobust.attacks.unforeseen.ascent import SceneAscent
from jaxrobust.attacks.unforeseen.gabor import convolve
from jaxrobust.attacks.witness_descent import WitnessThreat, check_colors
from jaxrobust.core.types import Array

_WIDTHS, _CHANCES = (1.0, 3.0, 5.0), (0.6, 0.3, 0.1)
_SIGMAS = (10.0, 15.0)
_LUMINANCE = (0.2126, 0.7152, 0.0722)


def oblong(size: int, row: Array | int, column: Array | int, width: Array | float) -> Array:
  """Returns a line from the middle of a square to (row, column) and its mirror image, smooth at its sides.

  >>> (100 * oblong(3, 2, 2, 1.0)).round().astype(int).tolist()
  [[100, 35, 0], [35, 100, 35], [0, 35, 100]]
  """
  middle = size // 2
  steep = row > column
  far, near = jnp.where(steep, row, column) - middle, jnp.where(steep, column, row) - middle
  slope = near / far
  half = width * jnp.sqrt(1 + slope) / 4
  along = jnp.arange(size) - middle
  # Rows are across the line, columns along it.
  value = jnp.clip(1 + half - jnp.abs(along[:, None] - slope * along[None]), 0.0, 1.0)
  value = jnp.where((along[:, None] >= 0) & (along[None] >= 0) & (along[None] <= far), value, 0.0)
  line = jnp.where(steep, value.T, value)
  quarter = (along[:, None] <= 0) & (along[None] <= 0)
  return jnp.where(quarter, line[::-1, ::-1], line)


def blurred(kernel: Array, size: int, sigma: Array) -> Array:
  """Returns a kernel after a Gaussian of `size` pixels, mirrored at its edges."""
  weights = jnp.exp(-0.5 * (jnp.arange(size) - size // 2) ** 2 / sigma**2)
  weights /= jnp.sum(weights)
  padded = jnp.pad(kernel, size // 2, mode="reflect")
  across = jnp.stack([padded[i : i + len(kernel)] for i in range(size)], -1) @ weights
  return jnp.stack([across[:, i : i + len(kernel)] for i in range(size)], -1) @ weights


@dataclass(frozen=True)
class Flakes(WitnessThreat):
  """Sizes of flakes, (layers, height, width); measures their l2 norm."""

  flake: int = 3
  layers: int = 5
  grid: int = 10
  blur: int = 1
  whitening: float = 0.15
  name: str = "flakes"
  norm: ClassVar[str] = "l2"

  def identity(self, image: Array) -> Array:
    check_colors(image, "snow")
    return jnp.zeros((self.layers, *image.shape[:2]))

  def start(self, image: Array, eps: Array, key: Array) -> Array:
    flakes = self.identity(image)
    sizes = jnp.exp(-jax.random.uniform(jax.random.fold_in(key, 1), flakes.shape) / 5)
    return self.project(image, sizes, eps) * self._mask(flakes, key)

  def _mask(self, flakes: Array, key: Array) -> Array:
    return (jax.random.uniform(jax.random.fold_in(key, 0), flakes.shape) < 1 / self.grid**2).astype(jnp.float32)

  def kernels(self, key: Array) -> Array:
    """Returns a kernel for each layer, (layers, flake, flake)."""
    chance = jax.random.uniform(jax.random.fold_in(key, 2), (self.layers, 5))
    nearest = self.flake // 2 + 1

    def one(chance: Array) -> Array:
      row, column = nearest + jnp.floor(chance[:2] * (self.flake - nearest))
      width = jnp.array(_WIDTHS)[jnp.searchsorted(jnp.array(_CHANCES).cumsum()[:-1], chance[2])]
      sigma = _SIGMAS[0] + (_SIGMAS[1] - _SIGMAS[0]) * chance[3]
      return blurred(oblong(self.flake, row, column, width), self.blur, sigma)

    made = jax.vmap(one)(chance)
    return jnp.where(chance[0, 4] < 0.5, made[..., ::-1], made)

  def draw(self, image: Array, offset: Array, key: Array, drawing: Array) -> Array:
    del drawing
    return self.laid(image, offset * self._mask(offset, key), self.kernels(key))

  def laid(self, image: Array, flakes: Array, kernels: Array) -> Array:
    """Returns the image below flakes of some sizes and forms."""
    fallen = jnp.sum(convolve(flakes**4, kernels), axis=0)
    light = jnp.maximum(image, 1.5 * (image @ np.array(_LUMINANCE, np.float32))[..., None] + 0.5)
    return (1 - self.whitening) * image + self.whitening * light + fallen[..., None]


@ATTACKS.register("snow")
def snow(
  num_steps: int = 20,
  step_length: float = 0.2,
  flake: int = 3,
  layers: int = 5,
  grid: int = 10,
  blur: int = 1,
  whitening: float = 0.15,
  loss: str = "ce",
) -> SceneAscent:
  """Lets it snow on the image."""
  return SceneAscent(Flakes(flake, layers, grid, blur, whitening), num_steps, step_length, "snow", loss=loss)
