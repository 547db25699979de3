"""Total-variation minimization of a random part of the pixels (Guo et al. 2018, arXiv:1711.00117).

  z = argmin_z ½ ‖m ⊙ (z - x)‖² + λ Σ_pixels √(‖∂₁z‖² + ‖∂₂z‖² + μ²),   m Bernoulli, one draw per pixel

so that what the mask leaves out is filled in smoothly. Solved by a fixed number of accelerated gradient steps
(Nesterov) of 1 / (1 + 8 λ / μ) from x ⊙ m + mean(x ⊙ m) ⊙ (1 - m). Adaptive: BPDA by the identity (Athalye et al.
2018), averaged over masks by the engine (EOT); the unrolled steps have a gradient of their own, the naive one.
Defaults: half of the pixels and λ 0.03, the authors', who solve with split Bregman; this makes 40 steps, μ 0.01.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp

from jaxrobust.core.defense import ImageDefense
from jaxrobust.core.errors import InputError
from jaxrobust.core.types import Array
from jaxrobust.defenses.registry import DEFENSES

# Of the square root: differences well below are smoothed like noise.
_SMALL = 0.01


@DEFENSES.register("tv-min")
@dataclasses.dataclass(frozen=True)
class TotalVariation(ImageDefense):
  """Images of small total variation that agree with a random part of the pixels.

  Attributes:
    keep: the share of pixels that count.
    weight: λ.
    steps: of the solver.
  """

  name = "tv-min"
  randomized = True
  keep: float = 0.5
  weight: float = 0.03
  steps: int = 40

  def __post_init__(self) -> None:
    if not 0 < self.keep <= 1 or self.weight < 0 or self.steps < 1:
      raise InputError("tv-min wants keep in (0, 1], a weight of at least 0 and at least one step")

  def transform(self, image: Array, key: Array | None) -> Array:
    assert key is not None
    mask = jax.random.bernoulli(key, self.keep, (*image.shape[:2], 1)).astype(image.dtype)
    rate = 1 / (1 + 8 * self.weight / _SMALL)
    slope = jax.grad(lambda z: 0.5 * jnp.sum(jnp.square(mask * (z - image))) + self.weight * total_variation(z))
    mean = jnp.sum(image * mask, (0, 1)) / jnp.maximum(jnp.sum(mask), 1)

    def step(number: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
      point, before = carry
      after = point - rate * slope(point)
      return after + number / (number + 3) * (after - before), after

    start = mask * image + (1 - mask) * mean
    return jnp.clip(jax.lax.fori_loop(0, self.steps, step, (start, start))[1], 0.0, 1.0)


def total_variation(image: Array) -> Array:
  """Returns the smoothed isotropic total variation of an image, over all colors together.

  >>> float(total_variation(jnp.zeros((3, 3, 1)))) < 9.1 * _SMALL
  True
  """
  down = jnp.diff(image, axis=0, append=image[-1:])
  right = jnp.diff(image, axis=1, append=image[:, -1:])
  return jnp.sum(jnp.sqrt(jnp.sum(jnp.square(down) + jnp.square(right), axis=-1) + _SMALL**2))
