"""JPEG: noise on the cosine coefficients of the blocks that the format cuts an image into.

  x' = clip(x + RGB(IDCT(w)), 0, 1),   |w|_inf <= b

for the blocks of 8 × 8 pixels of each of the channels Y, Cb and Cr. As the authors' codec quantizes nothing, it is
linear, and noise can be decoded by itself. The start is uniform in [0, b]. Budgets of CIFAR-10 and ImageNet: 1/255,
3/255 and 6/255. Source and what all of these attacks share: `ascent` (arXiv:1908.08016).
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from jaxrobust.attacks.registry import ATTACKS
from jaxrobust.attacks.unforeseen.ascent import SceneAscent
from jaxrobust.attacks.witness_descent import WitnessThreat, check_colors, check_divides
from jaxrobust.core.types import Array

_RGB = np.array([[1.0, 0.0, 1.402], [1.0, -0.344136, -0.714136], [1.0, 1.772, 0.0]], np.float32)


def cosines(size: int) -> np.ndarray:
  """Returns the orthonormal matrix of the discrete cosine transform, a row for each frequency.

  >>> np.allclose(cosines(8) @ cosines(8).T, np.eye(8), atol=1e-6)
  True
  """
  at, frequency = np.meshgrid(np.arange(size) + 0.5, np.arange(size))
  rows = np.sqrt(2 / size) * np.cos(np.pi / size * at * frequency)
  rows[0] /= np.sqrt(2)
  return rows.astype(np.float32)


@dataclass(frozen=True)
class JpegCoefficients(WitnessThreat):
  """Changes of cosine coefficients of blocks in YCbCr, (rows, columns, block, block, 3); measures the largest."""

  block: int = 8
  name: str = "dct"

  def identity(self, image: Array) -> Array:
    check_colors(image, "jpeg")
    check_divides(image, (self.block, self.block), f"jpeg's blocks of {self.block} pixels")
    return jnp.zeros((image.shape[0] // self.block, image.shape[1] // self.block, self.block, self.block, 3))

  def start(self, image: Array, eps: Array, key: Array) -> Array:
    return eps * jax.random.uniform(jax.random.fold_in(key, 1), self.identity(image).shape)

  def draw(self, image: Array, offset: Array, key: Array, drawing: Array) -> Array:
    del key, drawing
    basis = cosines(self.block)
    blocks = jnp.einsum("rcuvk,uy,vx,lk->rycxl", offset, basis, basis, _RGB)
    return image + blocks.reshape(image.shape)


@ATTACKS.register("jpeg")
def jpeg(num_steps: int = 50, step_length: float = 0.0024, block: int = 8, loss: str = "ce") -> SceneAscent:
  """Changes the coefficients of a JPEG file."""
  return SceneAscent(JpegCoefficients(block), num_steps, step_length, "jpeg", loss=loss)
