"""TRADES and its variants: a clean loss, and a bound on how far an image's answer moves within the ball.

  trades        CE(f(x), y) + beta max KL(f(x) || f(x')); Zhang et al. 2019 (arXiv:1901.08573): beta 6
  pgd-score     max |p(x') - y|^2, p the softmax; Pang et al. 2022 (arXiv:2202.10103)
  trades-score  |p(x) - y|^2 + beta max |p(x') - p(x)|^2; the same paper: beta 3 (its published networks; OODRobustBench
                trains with 0.1, 0.3 and 1)

x' is searched by the very distance that is trained on, in 10 steps of eps / 4. Known deviations: the search of TRADES
starts uniformly in the ball (as ours always do) instead of at x plus 0.001 Gaussian noise; both only leave the point
where the distance has no gradient. SCORE's authors craft with the batch's own statistics: that is `crafting="train"`.
"""

from __future__ import annotations

import dataclasses

import jax

from jaxrobust.core.types import Array
from jaxrobust.training.technique import TECHNIQUES, Batch, Context, Losses, Margin, Network, no_margin
from jaxrobust.training.techniques.adversarial import InnerMaximization, paired
from jaxrobust.training.techniques.objectives import kl_divergence, soft_cross_entropy, squared_error


def trades_loss(clean: Array, adversarial: Array, targets: Array, beta: float, margin: Margin = no_margin) -> Array:
  """Returns the objective per example, from the logits of both images."""
  return soft_cross_entropy(margin(clean, targets), targets) + beta * kl_divergence(clean, adversarial)


def trades_score_loss(
  clean: Array, adversarial: Array, targets: Array, beta: float, margin: Margin = no_margin
) -> Array:
  """Returns the objective per example, from the logits of both images."""
  moved = squared_error(jax.nn.softmax(clean), adversarial)
  return squared_error(targets, margin(clean, targets)) + beta * moved


@TECHNIQUES.register("trades")
@dataclasses.dataclass(frozen=True)
class Trades(InnerMaximization):
  """The TRADES objective; the attack's settings are those of `pgd-at`."""

  beta: float = 6.0

  def craft(self, batch: Batch, context: Context) -> Array:
    reference = jax.lax.stop_gradient(self.attacked(context)(batch.images))
    return self.search(batch, context, reference, kl_divergence)

  def loss(self, network: Network, batch: Batch, context: Context) -> Losses:
    return paired(network, batch, context, trades_loss, self.beta)


@TECHNIQUES.register("pgd-score")
@dataclasses.dataclass(frozen=True)
class PGDScore(InnerMaximization):
  """The squared error on crafted images."""

  def craft(self, batch: Batch, context: Context) -> Array:
    return self.search(batch, context, loss=squared_error)

  def loss(self, network: Network, batch: Batch, context: Context) -> Losses:
    logits, stats = network(context.crafted, context.batch_stats)
    return Losses(squared_error(batch.targets, context.margin(logits, batch.targets)), logits, stats)


@TECHNIQUES.register("trades-score")
@dataclasses.dataclass(frozen=True)
class TradesScore(InnerMaximization):
  """TRADES with squared distances of probabilities in place of cross-entropy and divergence."""

  beta: float = 3.0

  def craft(self, batch: Batch, context: Context) -> Array:
    reference = jax.nn.softmax(jax.lax.stop_gradient(self.attacked(context)(batch.images)))
    return self.search(batch, context, reference, squared_error)

  def loss(self, network: Network, batch: Batch, context: Context) -> Losses:
    return paired(network, batch, context, trades_score_loss, self.beta)
