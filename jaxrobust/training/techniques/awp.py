"""AWP: adversarial weight perturbation; Wu et al. 2020 (arXiv:2004.05884).

  w <- w - rate · ∇_w L(w + v),        v_l = gamma |w_l| g_l / |g_l|,    g = ∇_w L(w)

for each layer l: the gradient is taken where the loss on the adversarial images, found once at w, is worst near w. It
works with any objective (AT-AWP with `pgd-at`, TRADES-AWP with `trades`). Defaults: gamma 0.01 (the authors' for
PGD-AT; 0.005 for TRADES), from the first step on. As in the authors' code, only matrices and kernels move, batch
statistics are those of the perturbed pass, and weight decay acts on the perturbed weights.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from jaxrobust.core.errors import InputError
from jaxrobust.core.types import Array
from jaxrobust.training.technique import TECHNIQUES, Perturbation

_SMALLEST = 1e-20


@TECHNIQUES.register("awp")
@dataclasses.dataclass(frozen=True)
class WeightPerturbation(Perturbation):
  """Layer-wise steps of `gamma` times the weights' norm, after a share `start` of the run."""

  gamma: float = 0.01
  start: float = 0.0

  def __post_init__(self) -> None:
    if not self.gamma >= 0 or not 0 <= self.start < 1:
      raise InputError(f"gamma must not be negative and start in [0, 1), got {self.gamma} and {self.start}")

  def perturb(self, params: Any, grads: Any, train_fraction: Array | float) -> Any:
    gamma = jnp.where(jnp.asarray(train_fraction) >= self.start, self.gamma, 0.0)

    def move(weight: Array, grad: Array) -> Array:
      if weight.ndim < 2:
        return weight
      return weight + gamma * _norm(weight) / (_norm(grad) + _SMALLEST) * grad

    return jax.tree.map(move, params, grads)


def _norm(array: Array) -> Array:
  return jnp.sqrt(jnp.sum(jnp.square(array)))
