"""HAT: helper-based adversarial training; Rade and Moosavi-Dezfooli 2022 (openreview Azh9QBQ4tR7).

  CE(f(x), y) + beta KL(f(x) || f(x')) + gamma CE(f(x + h (x' - x)), argmax s(x'))

x' is TRADES' adversarial image; the helper example lies further along the same way and is labeled by a standardly
trained, frozen network s, so that the margin grows no further than it needs to. Defaults: h 2, beta 2.5, gamma 0.5,
10 steps of eps / 4 (the authors' command for CIFAR-10). As in the authors' code, helper examples may leave the box.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp

from jaxrobust.core.types import Array
from jaxrobust.training.technique import TECHNIQUES, Batch, Context, Losses, Network
from jaxrobust.training.techniques.objectives import soft_cross_entropy
from jaxrobust.training.techniques.trades import Trades, trades_loss


@TECHNIQUES.register("hat")
@dataclasses.dataclass(frozen=True)
class HelperTraining(Trades):
  """TRADES with helper examples; `helper` is the folder or zoo name of a standardly trained classifier."""

  beta: float = 2.5
  gamma: float = 0.5
  h: float = 2.0
  helper: str = ""

  @property
  def classifiers(self) -> tuple[str, ...]:
    return (self.helper,)

  def craft(self, batch: Batch, context: Context) -> tuple[Array, Array]:  # type: ignore[override]
    images = super().craft(batch, context)
    said = jnp.argmax(context.frozen_models[self.helper](images), axis=-1)
    return images, jax.nn.one_hot(said, batch.targets.shape[-1])

  def loss(self, network: Network, batch: Batch, context: Context) -> Losses:
    images, said = context.crafted
    clean, stats = network(batch.images, context.batch_stats)
    adversarial, stats = network(images, stats)
    further, stats = network(batch.images + self.h * (images - batch.images), stats)
    values = trades_loss(clean, adversarial, batch.targets, self.beta, context.margin)
    return Losses(values + self.gamma * soft_cross_entropy(further, said), adversarial, stats)
