"""Adversarial training: images are crafted inside the step by the same attack values that evaluate models.

  pgd-at   min E max_{|d| <= eps} CE(f(x + d), y); Madry et al. 2018 (arXiv:1706.06083)
  half-at  half the loss on clean images, half on adversarial ones: RobustART's default, 1:1
  fast-at  one step of 1.25 eps from a random start; Wong et al. 2020 (arXiv:2001.03994)

The attack climbs the very loss that is trained on (soft targets included), against the network in evaluation mode, or
with the option `crafting="train"` against the network normalized by the batch's own statistics, which couples examples.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, cast

import jax
import jax.numpy as jnp

from jaxrobust.attacks.pgd import PGD
from jaxrobust.core.budget import Budget
from jaxrobust.core.classifier import Classifier
from jaxrobust.core.errors import InputError
from jaxrobust.core.gradients import ImageLogits
from jaxrobust.core.registry import unknown_name
from jaxrobust.core.types import Array, Attack, Probe, Problem
from jaxrobust.engine.program import candidate_of
from jaxrobust.training.technique import TECHNIQUES, Batch, Context, Losses, Margin, Network, Objective
from jaxrobust.training.techniques.objectives import soft_cross_entropy

# Options that weigh a part of an objective's loss.
_WEIGHTS = {"beta", "gamma", "weight"}

RowLoss = Callable[[Any, Array], Array]
"""(a row of targets, logits) -> the loss that an attack raises."""


def cross_entropy(targets: Array, logits: Array) -> Array:
  """Returns the loss of most attacks: away from the target probabilities `targets`."""
  return soft_cross_entropy(logits, targets)


def problems_of(images: Array, eps: Array, keys: Array) -> Problem:
  """Returns the problems of a training attack: its loss knows the classes, so that labels are unused."""
  unused = jnp.full((images.shape[0],), -1)
  return Problem(images, unused, unused, jnp.broadcast_to(eps, unused.shape), keys)


def steered(attack: Any) -> Any:
  """Returns an attack that training can steer by its own loss; refuses any other."""
  if getattr(attack, "access", "") != "gradient" or attack.minimal or not hasattr(attack, "loss"):
    name = getattr(attack, "name", type(attack).__name__)
    raise InputError(f"training needs attacks within a budget that climb a loss by gradients, which {name} is not")
  return attack


def advance(
  attack: Attack, classifier: Classifier, loss: RowLoss, problems: Problem, targets: Any, states: Any
) -> tuple[Any, Probe]:
  """Makes one step of the attack for every image of a batch; returns the states and the points evaluated."""

  def step(problem: Problem, row: Any, state: Any) -> tuple[Any, Probe]:
    climbing = dataclasses.replace(attack, loss=lambda logits: loss(row, logits))  # type: ignore[type-var]
    return climbing.step(ImageLogits(classifier, problem.key), problem, state)

  return jax.vmap(step)(problems, targets, states)


def craft(
  attack: Attack,
  classifier: Classifier,
  images: Array,
  targets: Any,
  eps: Array,
  keys: Array,
  loss: RowLoss = cross_entropy,
) -> Array:
  """Returns adversarial images after all steps, for a whole batch; gradients do not flow through.

  Args:
    targets: rows, one per image, that `loss(row, logits)` compares with; the attack raises it.
    eps: one budget, or one per image.
  """
  problems = problems_of(images, eps, keys)
  states = jax.vmap(attack.init)(problems)
  step = lambda _, states: advance(attack, classifier, loss, problems, targets, states)[0]
  states = jax.lax.fori_loop(0, attack.num_steps, step, states)
  found, _ = jax.vmap(functools.partial(candidate_of, attack))(problems, states)
  return jax.lax.stop_gradient(found)


@dataclasses.dataclass(frozen=True)
class InnerMaximization(Objective):
  """The inner maximization that robust objectives share: PGD within a budget.

  Attributes:
    eps, norm: the ball; num_steps, step_size (in eps), random_start: PGD's own.
    crafting: "eval" attacks the network in evaluation mode, "train" with the batch's own statistics (`coupled`).
  """

  eps: str = "8/255"
  norm: str = "linf"
  num_steps: int = 10
  step_size: float = 0.25
  random_start: bool = True
  crafting: str = "eval"

  def __post_init__(self) -> None:
    Budget.parse(self.eps, self.norm)
    if self.crafting not in ("eval", "train"):
      raise unknown_name("mode of crafting", self.crafting, ["eval", "train"])
    if not self.step_size > 0:
      raise InputError(f"a step goes uphill: step_size must be more than 0, got {self.step_size}")
    for name in _WEIGHTS & vars(self).keys():
      if not vars(self)[name] >= 0:
        raise InputError(f"{name} must not be negative, got {vars(self)[name]}: it weighs a part of the loss")
    self.attack  # noqa: B018 - raises InputError for bad settings now

  @property
  def attack(self) -> PGD:
    return PGD(self.norm, self.num_steps, self.step_size, self.random_start)

  @property
  def budget(self) -> float:
    return Budget.parse(self.eps).value

  def attacked(self, context: Context) -> Classifier:
    """Returns the network that is attacked."""
    return context.classifier if self.crafting == "eval" else cast(Classifier, context.coupled)

  def search(self, batch: Batch, context: Context, targets: Any = None, loss: RowLoss = cross_entropy) -> Array:
    """Returns adversarial images; `targets` are the batch's unless told otherwise."""
    eps = self.budget * context.eps_scale
    rows = batch.targets if targets is None else targets
    return craft(self.attack, self.attacked(context), batch.images, rows, eps, batch.keys, loss)


PairLoss = Callable[[Array, Array, Array, float, Margin], Array]
"""(logits of clean images, of adversarial ones, targets, weight, margin) -> a loss per example."""


def paired(network: Network, batch: Batch, context: Context, loss: PairLoss, weight: float) -> Losses:
  """Returns a loss that looks at clean images and at the crafted ones."""
  clean, stats = network(batch.images, context.batch_stats)
  adversarial, stats = network(context.crafted, stats)
  return Losses(loss(clean, adversarial, batch.targets, weight, context.margin), adversarial, stats)


@dataclasses.dataclass(frozen=True)
class AdversarialTraining(InnerMaximization):
  """Cross-entropy on crafted images, blended with `clean` parts of it on the images as they are.

  Batch norm sees the two one after the other or, with `together`, as one batch of twice the size.
  """

  clean: float = 0.0
  together: bool = False

  def __post_init__(self) -> None:
    super().__post_init__()
    if not 0 <= self.clean < 1:
      raise InputError(f"the clean part must be in [0, 1), got {self.clean}")

  def craft(self, batch: Batch, context: Context) -> Any:
    return self.search(batch, context)

  def loss(self, network: Network, batch: Batch, context: Context) -> Losses:
    if self.clean and self.together:
      both, stats = network(jnp.concatenate([context.crafted, batch.images]), context.batch_stats)
      logits, plain = jnp.split(both, 2)
    else:
      logits, stats = network(context.crafted, context.batch_stats)
      plain, stats = network(batch.images, stats) if self.clean else (logits, stats)
    values = soft_cross_entropy(context.margin(logits, batch.targets), batch.targets)
    if self.clean:
      clean = soft_cross_entropy(context.margin(plain, batch.targets), batch.targets)
      values = (1 - self.clean) * values + self.clean * clean
    return Losses(values, logits, stats)


TECHNIQUES.register("pgd-at")(AdversarialTraining)


@TECHNIQUES.register("half-at")
def half_at(**options: Any) -> AdversarialTraining:
  """Clean and adversarial images 1:1."""
  return AdversarialTraining(**{"clean": 0.5, **options})


@TECHNIQUES.register("fast-at")
def fast_at(**options: Any) -> AdversarialTraining:
  """Makes one random-start step; watch the log for catastrophic overfitting."""
  return AdversarialTraining(**{"num_steps": 1, "step_size": 1.25, **options})
