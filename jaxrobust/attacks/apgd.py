"""Auto-PGD: gradient steps with momentum whose length halves, per image, where progress stalls.

  z_{k+1} = P(x_k + eta · steepest(∇ loss(x_k)))
  x_{k+1} = P(x_k + 0.75 · (z_{k+1} - x_k) + 0.25 · (x_k - x_{k-1}))        (the first move: x_1 = z_1)

eta starts at 2 eps. At the checkpoints of a fixed schedule it halves, and the attack goes back to the best
point seen, if (a) at most rho of the moves since the last checkpoint raised the loss, or (b) eta was not
halved at the last checkpoint and the best loss has not risen since.

Norms linf and l2 here, l1 in `apgd_l1` (other rules); `apgd(norm=…)` picks. Losses: ce (untargeted or targeted),
dlr (untargeted), dlr-t and mm (toward `problem.target`).

Source: Croce and Hein 2020 (arXiv:2003.01690): 100 steps, rho 0.75, momentum 0.75, checkpoints p_1 = 0.22,
p_{j+1} = p_j + max(p_j - p_{j-1} - 0.03, 0.06). As in the authors' code (fra31/auto-attack a392200):
  the start is random with |x_0 - x| exactly eps (before the box), not uniform in the ball;
  the first comparison of losses is against 0 instead of the loss at x_0;
  going back to the best point keeps x_{k-1} as it was, so the momentum then points from there to the best point.
Known deviation: none in the moves. Success at any point evaluated counts, and the last of the N + 1 points is
evaluated without a gradient, so that N steps are N gradients and one forward pass (the authors': N + 1 gradients).
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxrobust.attacks import losses, norms
from jaxrobust.attacks.apgd_l1 import APGDL1
from jaxrobust.attacks.registry import ATTACKS, check_steps
from jaxrobust.core.budget import check_norm
from jaxrobust.core.gradients import LossAndGrad, loss_and_grad
from jaxrobust.core.threat import by_norm
from jaxrobust.core.types import Array, Cost, LogitsFn, Probe, Problem

MOMENTUM = 0.75


class APGDState(NamedTuple):
  """The point to evaluate next, the best it has seen, and the record of the step-size rule.

  Attributes:
    image, previous: x_k and x_{k-1}.
    best, best_grad, best_loss: the point of highest loss so far, its gradient and its loss.
    checked_loss: `best_loss` at the last checkpoint.
    last_loss: the loss at x_{k-1}.
    increases: moves since the last checkpoint that raised the loss.
    step_size: eta / eps.
    reduced: whether the last checkpoint halved it.
    step: k.
  """

  image: Array
  previous: Array
  best: Array
  best_grad: Array
  best_loss: Array
  checked_loss: Array
  last_loss: Array
  increases: Array
  step_size: Array
  reduced: Array
  step: Array


@functools.cache
def checkpoints(num_steps: int) -> np.ndarray:
  """Returns, for each number of moves made, 0 or, at a checkpoint, the moves since the one before.

  >>> np.flatnonzero(checkpoints(100)).tolist(), np.flatnonzero(checkpoints(20)).tolist()[:5]
  ([22, 41, 57, 70, 80, 87, 93, 99], [4, 7, 9, 10, 11])
  """
  window, fewest, fewer = (max(int(share * num_steps), 1) for share in (0.22, 0.06, 0.03))
  table = np.zeros(num_steps + 1, np.int32)
  moves = window
  while moves <= num_steps:
    table[moves] = window
    window = max(window - fewer, fewest)
    moves += window
  return table


@dataclass(frozen=True)
class APGD:
  """Auto-PGD in an linf or l2 ball.

  Example:
    >>> apgd_t().loss, apgd_ce(norm="l2", num_steps=20).norm, type(apgd_ce(norm="l1")).__name__
    ('dlr-t', 'l2', 'APGDL1')
  """

  norm: str = "linf"
  num_steps: int = 100
  loss: str = "ce"
  rho: float = 0.75
  name: str = "apgd"
  threat = by_norm
  minimal = False
  access = "gradient"
  cost = Cost()

  def __post_init__(self) -> None:
    check_norm(self.norm, ("linf", "l2"))
    check_steps(self.num_steps)

  def init(self, problem: Problem) -> APGDState:
    shape = problem.image.shape
    noise = norms.random_direction(self.norm, problem.key, shape)
    start = self._project(problem, problem.image + problem.eps * noise)
    zero, lowest = jnp.zeros(()), jnp.full((), -jnp.inf)
    none, two, yes = jnp.zeros((), jnp.int32), jnp.full((), 2.0), jnp.ones((), bool)
    return APGDState(start, start, start, jnp.zeros(shape), lowest, lowest, zero, none, two, yes, none)

  def step(self, model: LogitsFn, problem: Problem, state: APGDState) -> tuple[APGDState, Probe]:
    point = loss_and_grad(model, losses.bind(self.loss, problem), state.image)
    state = _record(state, point)
    state, restart = self._check(state)
    image = jnp.where(restart, state.best, state.image)
    grad = jnp.where(restart, state.best_grad, point.grad)
    return self._move(problem, state, image, grad), point.probe

  def candidate(self, problem: Problem, state: APGDState) -> Array:
    del problem
    return state.image

  def _check(self, state: APGDState) -> tuple[APGDState, Array]:
    """Halves the step size where a checkpoint finds too little progress, and says whether it did."""
    window = jnp.asarray(checkpoints(self.num_steps))[state.step]
    due = window > 0
    oscillates = state.increases <= self.rho * window
    stalls = ~state.reduced & (state.checked_loss >= state.best_loss)
    reduce = due & (oscillates | stalls)
    checked = state._replace(
      checked_loss=jnp.where(due, state.best_loss, state.checked_loss),
      increases=jnp.where(due, 0, state.increases),
      step_size=jnp.where(reduce, 0.5 * state.step_size, state.step_size),
      reduced=jnp.where(due, reduce, state.reduced),
    )
    return checked, reduce

  def _move(self, problem: Problem, state: APGDState, image: Array, grad: Array) -> APGDState:
    length = state.step_size * problem.eps
    ahead = self._project(problem, image + norms.steepest(self.norm, grad, length, image))
    share = jnp.where(state.step == 0, 1.0, MOMENTUM)
    mixed = image + share * (ahead - image) + (1.0 - share) * (image - state.previous)
    return state._replace(image=self._project(problem, mixed), previous=image, step=state.step + 1)

  def _project(self, problem: Problem, image: Array) -> Array:
    # An l2 ball of no size would divide 0 by 0; every move has length 0 then, so that any size will do.
    return norms.project(self.norm, image, problem.image, jnp.maximum(problem.eps, 1e-12))


def _record(state: APGDState, point: LossAndGrad) -> APGDState:
  """Enters the loss at the current point; the first point sets the best, but is compared with nothing."""
  first = state.step == 0
  better = point.loss > state.best_loss
  best_loss = jnp.where(better, point.loss, state.best_loss)
  return state._replace(
    best=jnp.where(better, state.image, state.best),
    best_grad=jnp.where(better, point.grad, state.best_grad),
    best_loss=best_loss,
    checked_loss=jnp.where(first, best_loss, state.checked_loss),
    last_loss=jnp.where(first, 0.0, point.loss),
    increases=state.increases + (~first & (point.loss > state.last_loss)),
  )


def apgd(
  norm: str = "linf",
  num_steps: int = 100,
  loss: str = "ce",
  rho: float = 0.75,
  name: str = "apgd",
  large_eps: bool = True,
) -> APGD | APGDL1:
  """Makes Auto-PGD for any norm; `rho` is of use for linf and l2 only, `large_eps` for l1 only."""
  if norm == "l1":
    return APGDL1(num_steps=num_steps, loss=loss, name=name, large_eps=large_eps)
  return APGD(norm, num_steps, loss, rho, name)


@ATTACKS.register("apgd-ce")
def apgd_ce(norm: str = "linf", num_steps: int = 100, rho: float = 0.75) -> APGD | APGDL1:
  """Auto-PGD on the cross-entropy."""
  return apgd(norm, num_steps, "ce", rho, "apgd-ce")


@ATTACKS.register("apgd-dlr")
def apgd_dlr(norm: str = "linf", num_steps: int = 100, rho: float = 0.75) -> APGD | APGDL1:
  """Auto-PGD on the difference of logits ratio."""
  return apgd(norm, num_steps, "dlr", rho, "apgd-dlr")


@ATTACKS.register("apgd-t")
def apgd_t(norm: str = "linf", num_steps: int = 100, rho: float = 0.75) -> APGD | APGDL1:
  """Auto-PGD on the targeted difference of logits ratio, toward one target class."""
  return apgd(norm, num_steps, "dlr-t", rho, "apgd-t")
