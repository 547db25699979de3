"""Free adversarial training: one backward pass for weights and perturbation; Shafahi et al. 2019 (arXiv:1904.12843).

Each batch is replayed m times. A replay makes one update of the weights with the gradient at x + d and, with the same
backward pass, one of the perturbation: d <- clip(d + eps step sign ∇_d L, -eps, eps). Row i of d goes on with row i
of the next batch. Defaults: m 8 and steps of a whole eps (CIFAR-10; 4 for ImageNet). A run of E epochs makes m E
passes: the paper divides its epochs by m. The linf norm only, as in the paper.
"""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp

from jaxrobust.core.budget import Budget
from jaxrobust.core.errors import InputError
from jaxrobust.core.types import Array
from jaxrobust.training.technique import TECHNIQUES, Batch, Context, Losses, Network, Objective
from jaxrobust.training.techniques.objectives import soft_cross_entropy


@TECHNIQUES.register("free-at")
@dataclasses.dataclass(frozen=True)
class FreeTraining(Objective):
  """Cross-entropy on perturbed images, `replays` updates with each batch; the state is the perturbation."""

  eps: str = "8/255"
  step_size: float = 1.0
  replays: int = 8

  norm = "linf"
  needs_state_grad = True

  def __post_init__(self) -> None:
    Budget.parse(self.eps, self.norm)
    if isinstance(self.replays, bool) or not isinstance(self.replays, int) or self.replays < 1:
      raise InputError(f"replays must be an integer of at least 1, got {self.replays!r}")

  @property
  def budget(self) -> float:
    return Budget.parse(self.eps).value

  def init_state(self, shape: tuple[int, ...], examples: int) -> Array:
    del examples
    return jnp.zeros(shape)

  def loss(self, network: Network, batch: Batch, context: Context) -> Losses:
    logits, stats = network(jnp.clip(batch.images + context.state, 0.0, 1.0), context.batch_stats)
    return Losses(soft_cross_entropy(context.margin(logits, batch.targets), batch.targets), logits, stats)

  def update_state(self, batch: Batch, context: Context, ascent: Array) -> Array:
    del batch
    eps = self.budget * context.eps_scale
    return jnp.clip(context.state + self.step_size * eps * jnp.sign(ascent), -eps, eps)
