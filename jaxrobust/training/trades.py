"""TRADES: accuracy and smoothness, weighed by beta; Zhang et al. 2019 (arXiv:1901.08573).

  CE(f(x), y) + beta max_{|x' - x| <= eps} KL(f(x) || f(x'))

Defaults: beta 6, 10 steps of eps / 4. Known deviation: the inner search starts uniformly in the ball (as ours always
do) instead of at x plus 0.001 Gaussian noise; both only leave the point where the divergence has no gradient.
"""

from __future__ import annotations

import dataclasses

import jax

from jaxrobust.core.errors import InputError
from jaxrobust.core.types import Array
from jaxrobust.training.adversarial import AdversarialTraining, craft
from jaxrobust.training.objectives import kl_divergence, soft_cross_entropy
from jaxrobust.training.technique import TECHNIQUES, Batch, Context, Losses, Network


def trades_loss(clean: Array, adversarial: Array, targets: Array, beta: float) -> Array:
  """The objective per example, from the logits of both images."""
  return soft_cross_entropy(clean, targets) + beta * kl_divergence(clean, adversarial)


@TECHNIQUES.register("trades")
@dataclasses.dataclass(frozen=True)
class Trades:
  """The TRADES objective; the attack's settings are those of `pgd-at`."""

  beta: float = 6.0
  eps: str = "8/255"
  norm: str = "linf"
  num_steps: int = 10
  step_size: float = 0.25

  def __post_init__(self) -> None:
    if self.beta < 0:
      raise InputError(f"beta must not be negative, got {self.beta}")
    self.inner  # noqa: B018 - refuses bad settings now

  @property
  def inner(self) -> AdversarialTraining:
    return AdversarialTraining(self.eps, self.norm, self.num_steps, self.step_size)

  @property
  def budget(self) -> float:
    return self.inner.budget

  def loss(self, network: Network, batch: Batch, context: Context) -> Losses:
    reference = jax.lax.stop_gradient(context.classifier(batch.images))
    eps = self.budget * context.progress
    images = craft(self.inner.attack, context.classifier, batch.images, reference, eps, batch.keys, loss=kl_divergence)
    clean, stats = network(batch.images, context.batch_stats)
    adversarial, stats = network(images, stats)
    return Losses(trades_loss(clean, adversarial, batch.targets, self.beta), adversarial, stats)
