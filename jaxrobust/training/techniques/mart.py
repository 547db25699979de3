"""MART: misclassification-aware adversarial training; Wang et al. 2020 (openreview rklOg6EFwS).

  BCE(p(x'), y) + beta KL(p(x) || p(x')) (1 - p_y(x))         BCE(p, y) = -log p_y - log(1 - max_{k != y} p_k)

x' climbs the cross-entropy. Examples that the network gets wrong when clean weigh more in the second part. Defaults:
beta 6 (the authors' code; the paper's tables use 5), 10 steps of eps / 4. As in the authors' code 1 - p is 1.0001 - p
in the logarithm. Known deviation: the search starts uniformly in the ball. With soft targets the true class is the
likeliest one.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp

from jaxrobust.core.largest import largest_value
from jaxrobust.core.types import Array
from jaxrobust.training.technique import TECHNIQUES, Batch, Context, Losses, Margin, Network, no_margin
from jaxrobust.training.techniques.adversarial import InnerMaximization, paired
from jaxrobust.training.techniques.objectives import kl_divergence, soft_cross_entropy

# Keeps the logarithm finite at a network that is sure.
_ABOVE_ONE = 1.0001


def mart_loss(clean: Array, adversarial: Array, targets: Array, beta: float, margin: Margin = no_margin) -> Array:
  """Returns the objective per example, from the logits of both images."""
  true = jax.nn.one_hot(jnp.argmax(targets, -1), targets.shape[-1], dtype=bool)
  other = largest_value(jnp.where(true, 0.0, jax.nn.softmax(adversarial)))
  boosted = soft_cross_entropy(margin(adversarial, targets), targets) - jnp.log(_ABOVE_ONE - other)
  unsure = 1 - jnp.sum(targets * jax.nn.softmax(clean), axis=-1)
  return boosted + beta * kl_divergence(clean, adversarial) * unsure


@TECHNIQUES.register("mart")
@dataclasses.dataclass(frozen=True)
class Mart(InnerMaximization):
  """The MART objective; the attack's settings are those of `pgd-at`."""

  beta: float = 6.0

  def craft(self, batch: Batch, context: Context) -> Array:
    return self.search(batch, context)

  def loss(self, network: Network, batch: Batch, context: Context) -> Losses:
    return paired(network, batch, context, mart_loss, self.beta)
