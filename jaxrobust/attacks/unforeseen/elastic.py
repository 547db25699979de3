"""Elastic: a smooth warp of the image, from a coarse field of offsets.

  x'[p] = bilinear sample of x at q(p) + bicubic(w)[p],   |w|_2 <= b

w has a vector for every `factor` × `factor` pixels, in half sides of the image; x is 0 outside. The authors' places
q(p) run from -1 to 1 where their sampling takes these for the image's edges and not for centers of pixels, so that
the image shrinks a little (by 31/32 of 32 pixels) even without a warp; kept as it is. Steps follow the sign, the
start is uniform in the cube of ±1, projected. Budgets 0.1, 0.25 and 0.5; factor 32 on ImageNet. Source and what all
of these attacks share: `ascent` (arXiv:1908.08016).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxrobust.attacks.registry import ATTACKS
from jaxrobust.attacks.sampling import color_wheel, cubic_matrix, sample
from jaxrobust.attacks.unforeseen.ascent import SceneAscent
from jaxrobust.attacks.witness_descent import Scene, WitnessThreat, check_divides
from jaxrobust.core.types import Array


@dataclass(frozen=True)
class Warp(WitnessThreat):
  """A coarse field of offsets (rows, columns, 2); measures its l2 norm."""

  factor: int = 2
  name: str = "warp"
  norm: ClassVar[str] = "l2"
  unit: ClassVar[str] = "half sides"

  def identity(self, image: Array) -> Array:
    check_divides(image, (self.factor, self.factor), f"elastic's factor {self.factor}")
    return jnp.zeros((image.shape[0] // self.factor, image.shape[1] // self.factor, 2))

  def start(self, image: Array, eps: Array, key: Array) -> Array:
    return jax.random.uniform(jax.random.fold_in(key, 1), self.identity(image).shape, minval=-1.0)

  def draw(self, image: Array, offset: Array, key: Array, drawing: Array) -> Array:
    del key, drawing
    height, width = image.shape[:2]
    here = np.stack(np.meshgrid(np.linspace(-1, 1, width), np.linspace(-1, 1, height)), -1).astype(np.float32)
    return sample(image, jnp.asarray(here) + _fine(offset, height, width))

  def picture(self, original: Array, witness: Scene) -> Array:
    """Returns the directions that pixels are fetched from, as hues."""
    return color_wheel(_fine(witness.offset, *original.shape[:2]))


def _fine(offset: Array, height: int, width: int) -> Array:
  """Returns a coarse field at every pixel."""
  rows, columns = offset.shape[:2]
  return jnp.einsum("yr,xc,rcd->yxd", cubic_matrix(rows, height), cubic_matrix(columns, width), offset)


@ATTACKS.register("elastic")
def elastic(num_steps: int = 30, step_length: float = 0.006, factor: int = 2, loss: str = "ce") -> SceneAscent:
  """Warps the image smoothly."""
  return SceneAscent(Warp(factor), num_steps, step_length, "elastic", loss=loss)
