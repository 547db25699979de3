"""EAD, the elastic-net attack: sparse perturbations by iterated shrinkage.

  minimize  c · hinge(x') + |x' - x|_2² + beta · |x' - x|_1  over the box, for a sequence of c
  z       = delta - alpha_k · (c · ∇ hinge + 2 · delta)
  delta   <- sign(z) · max(|z| - beta, 0),  clipped into the box

Norm l1 (the closest success by l1 is kept, the paper's "L1 decision rule"); untargeted and targeted; a minimal
attack. `num_steps` is an upper bound: see `const_search` for how rounds end.
Source: Chen et al. 2018 (arXiv:1709.04114) and their code: 9 values of c from 1e-3, alpha from 0.01 as the square
root of what is left of the round, threshold beta (not alpha · beta). beta 0.01 as in foolbox 3; the authors' code
has 0.001. Deviations: 1,000 steps per round (authors and foolbox: 10,000). ISTA without the momentum of FISTA: the
point that is shrunk is the point that is evaluated, so a step costs one evaluation where FISTA with a decision
costs two, and it found closer images on the reference network. A round without a success ends early by the rule
of `const_search`; one with a success takes all its steps, since the smaller alpha of its end still gains much.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp

from jaxrobust.attacks import const_search, losses
from jaxrobust.attacks.const_search import ConstSearch, Rounds
from jaxrobust.attacks.registry import ATTACKS
from jaxrobust.core.budget import check_norm
from jaxrobust.core.gradients import loss_and_grad
from jaxrobust.core.threat import by_norm
from jaxrobust.core.types import Array, Cost, LogitsFn, Probe, Problem

# A round that got the steps other rounds left unused goes on with this part of the first step size.
_SMALLEST_DECAY = 0.1


class EADState(NamedTuple):
  """The point to evaluate next, and the search for c."""

  image: Array
  search: ConstSearch


def shrink(z: Array, threshold: float) -> Array:
  """Thresholds softly: every entry moves toward zero by `threshold` and stops there.

  >>> shrink(jnp.array([0.5, -0.25, 0.1]), 0.25).tolist()
  [0.25, -0.0, 0.0]
  """
  return jnp.sign(z) * jnp.maximum(jnp.abs(z) - threshold, 0.0)


@dataclass(frozen=True)
class EAD:
  """Elastic-net attack.

  Example:
    >>> EAD().num_steps, EAD(binary_search_steps=5, steps=200).num_steps
    (9000, 1000)
  """

  norm: str = "l1"
  binary_search_steps: int = 9
  steps: int = 1000
  step_size: float = 0.01
  beta: float = 0.01
  confidence: float = 0.0
  initial_const: float = 1e-3
  abort_early: bool = True
  name: str = "ead"
  threat = by_norm
  minimal = True
  access = "gradient"
  cost = Cost()

  def __post_init__(self) -> None:
    check_norm(self.norm, ("l1",))
    Rounds(self.binary_search_steps, self.steps)  # Refuses what is not a search.

  @property
  def rounds(self) -> Rounds:
    return Rounds(self.binary_search_steps, self.steps, self.abort_early, patient=True)

  @property
  def num_steps(self) -> int:
    return self.rounds.total

  def init(self, problem: Problem) -> EADState:
    return EADState(problem.image, const_search.start(self.initial_const))

  def step(self, model: LogitsFn, problem: Problem, state: EADState) -> tuple[EADState, Probe]:
    point = loss_and_grad(model, lambda z: const_search.hinge(problem, self.confidence, z), state.image)
    logits = const_search.require_confidence(problem, self.confidence, point.probe.logits)
    success = losses.margin(logits, problem.label, problem.target) > 0.0
    delta, const = state.image - problem.image, state.search.const
    loss = const * point.loss + jnp.sum(jnp.square(delta)) + self.beta * jnp.sum(jnp.abs(delta))
    search, over = const_search.follow(state.search, success, loss, self.rounds)
    left = 1.0 - state.search.progress.step / self.steps
    alpha = self.step_size * jnp.maximum(jnp.sqrt(jnp.maximum(left, 0.0)), _SMALLEST_DECAY)
    moved = shrink(delta - alpha * const_search.clip_gradient(const * point.grad + 2.0 * delta), self.beta)
    image = jnp.clip(problem.image + moved, 0.0, 1.0)
    state = EADState(jnp.where(over, problem.image, image), search)
    return state, point.probe._replace(logits=logits, done=const_search.finished(search, self.rounds))


@ATTACKS.register("ead")
def elastic_net(
  norm: str = "l1",
  binary_search_steps: int = 9,
  num_steps: int = 1000,
  step_size: float = 0.01,
  beta: float = 0.01,
  confidence: float = 0.0,
  initial_const: float = 1e-3,
  abort_early: bool = True,
) -> EAD:
  """Elastic-net attack: the closest in l1, by proximal gradient descent; `num_steps` for each weight of the penalty."""
  return EAD(norm, binary_search_steps, num_steps, step_size, beta, confidence, initial_const, abort_early)
