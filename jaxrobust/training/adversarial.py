"""Adversarial training: images are crafted inside the step by the same attack values that evaluate models.

  pgd-at   min E max_{|d| <= eps} CE(f(x + d), y); Madry et al. 2018 (arXiv:1706.06083)
  half-at  half the loss on clean images, half on adversarial ones: RobustART's default, 1:1
  fast-at  one step of 1.25 eps from a random start; Wong et al. 2020 (arXiv:2001.03994)

The attack climbs the very loss that is trained on (soft targets included), against the network in evaluation mode:
an attack sees one image, so it cannot use the statistics of a batch.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from jaxrobust.attacks.pgd import PGD
from jaxrobust.core.classifier import Classifier
from jaxrobust.core.errors import InputError
from jaxrobust.core.gradients import ImageLogits
from jaxrobust.core.threat import Budget
from jaxrobust.core.types import Array, Attack, Problem
from jaxrobust.training.objectives import soft_cross_entropy
from jaxrobust.training.technique import TECHNIQUES, Batch, Context, Losses, Network

RowLoss = Callable[[Array, Array], Array]


def craft(
  attack: Attack,
  classifier: Classifier,
  images: Array,
  wanted: Array,
  eps: Array,
  keys: Array,
  loss: RowLoss = lambda wanted, logits: soft_cross_entropy(logits, wanted),
) -> Array:
  """Adversarial images after all steps, for a whole batch; gradients do not flow through.

  Args:
    wanted: (N, …), a row per image that `loss(row, logits)` compares with; the attack raises it.
  """
  count = images.shape[0]
  nobody = jnp.full((count,), -1)
  problems = Problem(images, nobody, nobody, jnp.broadcast_to(eps, (count,)), keys)

  def step(problem: Problem, row: Array, state: Any) -> Any:
    climbing = dataclasses.replace(attack, loss=lambda logits: loss(row, logits))  # type: ignore[type-var]
    return climbing.step(ImageLogits(classifier, problem.key), problem, state)[0]

  states = jax.vmap(attack.init)(problems)
  states = jax.lax.fori_loop(0, attack.num_steps, lambda _, now: jax.vmap(step)(problems, wanted, now), states)
  return jax.lax.stop_gradient(jax.vmap(attack.last)(problems, states))  # type: ignore[attr-defined]


@dataclasses.dataclass(frozen=True)
class AdversarialTraining:
  """Cross-entropy on crafted images, blended with `clean` parts of it on the images as they are."""

  eps: str = "8/255"
  norm: str = "linf"
  num_steps: int = 10
  step_size: float = 0.25
  random_start: bool = True
  clean: float = 0.0

  def __post_init__(self) -> None:
    Budget.parse(self.eps)
    if not 0 <= self.clean < 1:
      raise InputError(f"the clean part must be in [0, 1), got {self.clean}")
    self.attack  # noqa: B018 - refuses bad settings now

  @property
  def attack(self) -> PGD:
    return PGD(self.norm, self.num_steps, self.step_size, self.random_start)

  @property
  def budget(self) -> float:
    return Budget.parse(self.eps).value

  def loss(self, network: Network, batch: Batch, context: Context) -> Losses:
    eps = self.budget * context.progress
    images = craft(self.attack, context.classifier, batch.images, batch.targets, eps, batch.keys)
    logits, stats = network(images, context.batch_stats)
    values = soft_cross_entropy(logits, batch.targets)
    if self.clean:
      plain, stats = network(batch.images, stats)
      values = (1 - self.clean) * values + self.clean * soft_cross_entropy(plain, batch.targets)
    return Losses(values, logits, stats)


TECHNIQUES.register("pgd-at")(AdversarialTraining)


@TECHNIQUES.register("half-at")
def half_at(**options: Any) -> AdversarialTraining:
  """Clean and adversarial images 1:1."""
  return AdversarialTraining(**{"clean": 0.5, **options})


@TECHNIQUES.register("fast-at")
def fast_at(**options: Any) -> AdversarialTraining:
  """One random-start step; watch the log for catastrophic overfitting."""
  return AdversarialTraining(**{"num_steps": 1, "step_size": 1.25, **options})
