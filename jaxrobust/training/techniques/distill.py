"""Knowledge distillation from a frozen classifier; Hinton et al. 2015 (arXiv:1503.02531).

  (1 - weight) CE(f(x), y) + weight T^2 KL(softmax(t(x) / T) || softmax(f(x) / T))

t is any saved classifier, in evaluation mode, asked about the images that are trained on (after augmentation and
mixing). RobustART teaches a ResNet-18 by its ResNet-50 and gives no constants; the defaults, T 4 and weight 0.9, are
those of Tian et al. 2020 (arXiv:1910.10699) for Hinton's loss.
"""

from __future__ import annotations

import dataclasses

from jaxrobust.core.errors import InputError
from jaxrobust.core.types import Array
from jaxrobust.training.technique import TECHNIQUES, Batch, Context, Losses, Network, Objective
from jaxrobust.training.techniques.objectives import kl_divergence, soft_cross_entropy


def distillation_loss(teacher: Array, logits: Array, temperature: float) -> Array:
  """Returns the divergence of the softened answers, per example, scaled so that its gradient does not depend on T."""
  return temperature**2 * kl_divergence(teacher / temperature, logits / temperature)


@TECHNIQUES.register("distill")
@dataclasses.dataclass(frozen=True)
class Distillation(Objective):
  """`teacher` is a classifier's folder or zoo name."""

  teacher: str = ""
  temperature: float = 4.0
  weight: float = 0.9

  def __post_init__(self) -> None:
    if not self.temperature > 0 or not 0 <= self.weight <= 1:
      given = f"{self.temperature} and {self.weight}"
      raise InputError(f"the temperature must be positive and the weight in [0, 1], got {given}")

  @property
  def classifiers(self) -> tuple[str, ...]:
    return (self.teacher,)

  def craft(self, batch: Batch, context: Context) -> Array:
    return context.frozen_models[self.teacher](batch.images)

  def loss(self, network: Network, batch: Batch, context: Context) -> Losses:
    logits, stats = network(batch.images, context.batch_stats)
    own = soft_cross_entropy(context.margin(logits, batch.targets), batch.targets)
    taught = distillation_loss(context.crafted, logits, self.temperature)
    return Losses((1 - self.weight) * own + self.weight * taught, logits, stats)
