"""ALP: adversarial logit pairing; Kannan et al. 2018 (arXiv:1803.06373).

  (CE(f(x), y) + CE(f(x'), y)) / 2 + weight mean_k (f_k(x) - f_k(x'))^2

on clean images and their adversarial partners, f the logits. Defaults: weight 0.5 (the paper's for ImageNet), 10
steps of eps / 4. Its robustness did not survive stronger attacks (Engstrom et al. 2018, arXiv:1807.10272).
"""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp

from jaxrobust.core.types import Array
from jaxrobust.training.technique import TECHNIQUES, Batch, Context, Losses, Margin, Network, no_margin
from jaxrobust.training.techniques.adversarial import InnerMaximization, paired
from jaxrobust.training.techniques.objectives import soft_cross_entropy


def alp_loss(clean: Array, adversarial: Array, targets: Array, weight: float, margin: Margin = no_margin) -> Array:
  """Returns the objective per example, from the logits of both images."""
  both = [soft_cross_entropy(margin(logits, targets), targets) for logits in (clean, adversarial)]
  return 0.5 * (both[0] + both[1]) + weight * jnp.mean(jnp.square(clean - adversarial), axis=-1)


@TECHNIQUES.register("alp")
@dataclasses.dataclass(frozen=True)
class LogitPairing(InnerMaximization):
  """The ALP objective; the attack's settings are those of `pgd-at`."""

  weight: float = 0.5

  def craft(self, batch: Batch, context: Context) -> Array:
    return self.search(batch, context)

  def loss(self, network: Network, batch: Batch, context: Context) -> Losses:
    return paired(network, batch, context, alp_loss, self.weight)
