"""Auto-PGD for the l1 ball: sparse steps whose sparsity follows that of the best perturbation.

  x_{k+1} = P(x_k + eta · sign(g_k) / |sign(g_k)|_1),   g_k = the `kept` entries of ∇ loss(x_k) largest in magnitude

P is the exact projection onto ball ∩ box. Every few moves (a twenty-fifth of the phase), `kept` becomes two
thirds of the pixels the best perturbation changes. Where these fell below 0.95 of what they were, eta goes
back to eps and the attack to the best point seen; elsewhere eta shrinks by 1.5, to no less than eps / 10.

`large_eps` runs in three phases, in balls of 3, 2 and 1 times eps, for 30 %, 30 % and 40 % of the steps; each
starts from the best point of the one before, projected into its ball. Points outside eps are not successes.

Source: Croce and Hein 2021 (arXiv:2103.01208) and the authors' code (fra31/auto-attack a392200).
Known deviations: the first evaluation of a phase is one of its steps (the authors count moves, and so spend three
gradients more in all); a success inside eps counts in any phase, not the last alone; pixels that
the projection returns to the original are equal to it, where the authors' sum can leave a rounding error that
they then count as changed; two thirds are rounded up in integers, where they round products of floats (one
pixel apart for a few per cent of the counts).
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrobust.attacks import losses, norms
from jaxrobust.attacks.registry import check_steps
from jaxrobust.core.errors import InputError
from jaxrobust.core.gradients import loss_and_grad
from jaxrobust.core.threat import by_norm
from jaxrobust.core.types import Array, Cost, LogitsFn, Probe, Problem

SHRINK = 1.5
SMALLEST = 0.1


class APGDL1State(NamedTuple):
  """The point to evaluate next, the best of this phase, and the record of the sparsity rule.

  Attributes:
    image: x_k.
    best, best_grad, best_loss: the point of highest loss in this phase, its gradient and its loss.
    step_size: eta over the radius of the phase's ball.
    kept: pixels that a move changes.
    changed: pixels changed by the best perturbation at the last check.
    step: k.
  """

  image: Array
  best: Array
  best_grad: Array
  best_loss: Array
  step_size: Array
  kept: Array
  changed: Array
  step: Array


class Timetable(NamedTuple):
  """The plan of a run, one row per evaluation; the last row is the one after the last step.

  Attributes:
    radius: of the ball the point lies in, over eps.
    check: whether the sparsity is checked.
    leave: whether the next point is the first of a smaller ball.
  """

  radius: np.ndarray
  check: np.ndarray
  leave: np.ndarray


@functools.cache
def timetable(num_steps: int, large_eps: bool) -> Timetable:
  """Returns the phases and checks of a run.

  >>> table = timetable(100, True)
  >>> table.radius[[0, 29, 30, 59, 60, 100]].tolist(), np.flatnonzero(table.leave).tolist()
  ([3.0, 3.0, 2.0, 2.0, 1.0, 1.0], [29, 59])
  """
  early = min(math.ceil(0.3 * num_steps), (num_steps - 1) // 2) if large_eps else 0
  lengths = (early, early, num_steps - 2 * early)
  radius = np.repeat(np.array([3, 2, 1, 1], np.float32), (*lengths, 1))
  moves = np.concatenate([np.arange(length) for length in (*lengths[:2], lengths[2] + 1)])
  every = np.repeat([max(int(0.04 * length), 1) for length in lengths], (*lengths[:2], lengths[2] + 1))
  leave = np.append(radius[1:] != radius[:-1], False)
  return Timetable(radius, (moves > 0) & (moves % every == 0), leave)


def largest(grad: Array, count: Array) -> Array:
  """Returns `grad` with only its `count` entries of largest magnitude, and those equal to the smallest kept.

  Non-negative floats are ordered as their bits are, so the threshold is found bit by bit: exact for any scale,
  and 31 sweeps cost less than a sort.

  >>> largest(jnp.array([1.0, -3.0, 2.0, 0.5]), 2).tolist()
  [0.0, -3.0, 2.0, 0.0]
  """
  bits = jax.lax.bitcast_convert_type(jnp.abs(grad), jnp.int32)

  def refine(place: Array, threshold: Array) -> Array:
    higher = threshold | jnp.left_shift(1, 30 - place)
    return jnp.where(jnp.sum(bits >= higher) >= count, higher, threshold)

  threshold = jax.lax.fori_loop(0, 31, refine, jnp.zeros((), jnp.int32))
  return jnp.where(bits >= threshold, grad, 0.0)


def _changed(image: Array, original: Array) -> Array:
  return jnp.sum(image != original, dtype=jnp.int32)


def _two_thirds(changed: Array) -> Array:
  """Rounds two thirds up, to at least one."""
  return jnp.maximum((2 * changed + 2) // 3, 1)


@dataclass(frozen=True)
class APGDL1:
  """Auto-PGD in an l1 ball.

  Example:
    >>> APGDL1().may_leave_ball, APGDL1(large_eps=False).may_leave_ball
    (True, False)
  """

  norm: str = "l1"
  num_steps: int = 100
  loss: str = "ce"
  large_eps: bool = True
  name: str = "apgd"
  threat = by_norm
  minimal = False
  access = "gradient"
  cost = Cost()

  def __post_init__(self) -> None:
    if self.norm != "l1":
      raise InputError(f"APGDL1 works in the l1 ball; use APGD for {self.norm!r}")
    check_steps(self.num_steps)

  @property
  def may_leave_ball(self) -> bool:
    """Tells whether it evaluates points outside the ball on purpose."""
    return self.large_eps

  def init(self, problem: Problem) -> APGDL1State:
    original = problem.image
    radius = problem.eps * float(timetable(self.num_steps, self.large_eps).radius[0])
    start = norms.project("l1", original + jax.random.normal(problem.key, original.shape), original, radius)
    if self.large_eps:
      changed = _changed(start, original)
      kept = _two_thirds(changed)
    else:  # Without phases the first sparsity is fixed: a fifth of the pixels, whatever the start.
      changed = jnp.full((), original.size, jnp.int32)
      kept = jnp.full((), original.size - 4 * original.size // 5, jnp.int32)
    lowest, one = jnp.full((), -jnp.inf), jnp.ones(())
    return APGDL1State(start, start, jnp.zeros_like(start), lowest, one, kept, changed, jnp.zeros((), jnp.int32))

  def step(self, model: LogitsFn, problem: Problem, state: APGDL1State) -> tuple[APGDL1State, Probe]:
    point = loss_and_grad(model, losses.bind(self.loss, problem), state.image)
    better = point.loss > state.best_loss
    state = state._replace(
      best=jnp.where(better, state.image, state.best),
      best_grad=jnp.where(better, point.grad, state.best_grad),
      best_loss=jnp.where(better, point.loss, state.best_loss),
    )
    state, restart = self._check(problem, state)
    image = jnp.where(restart, state.best, state.image)
    grad = jnp.where(restart, state.best_grad, point.grad)
    return self._move(problem, state, image, grad), point.probe

  def candidate(self, problem: Problem, state: APGDL1State) -> Array:
    del problem
    return state.image

  def _check(self, problem: Problem, state: APGDL1State) -> tuple[APGDL1State, Array]:
    """Follows the sparsity of the best perturbation, and says whether to go back to it."""
    due = jnp.asarray(timetable(self.num_steps, self.large_eps).check)[state.step]
    changed = _changed(state.best, problem.image)
    sparser = 20 * changed < 19 * state.changed
    step_size = jnp.where(sparser, 1.0, jnp.maximum(state.step_size / SHRINK, SMALLEST))
    checked = state._replace(
      step_size=jnp.where(due, step_size, state.step_size),
      kept=jnp.where(due, _two_thirds(changed), state.kept),
      changed=jnp.where(due, changed, state.changed),
    )
    return checked, due & sparser

  def _move(self, problem: Problem, state: APGDL1State, image: Array, grad: Array) -> APGDL1State:
    """Returns a sparse step inside the ball or, at the end of a phase, the best point into the next ball."""
    table = timetable(self.num_steps, self.large_eps)
    radius = problem.eps * jnp.asarray(table.radius)[jnp.array([state.step, state.step + 1])]
    leave = jnp.asarray(table.leave)[state.step]
    sign = jnp.sign(largest(grad, state.kept))
    move = state.step_size * radius[0] * sign / (jnp.sum(jnp.abs(sign)) + 1e-10)
    following = norms.project("l1", jnp.where(leave, state.best, image + move), problem.image, radius[1])
    changed = _changed(following, problem.image)
    return state._replace(
      image=following,
      best_loss=jnp.where(leave, -jnp.inf, state.best_loss),
      step_size=jnp.where(leave, 1.0, state.step_size),
      kept=jnp.where(leave, _two_thirds(changed), state.kept),
      changed=jnp.where(leave, changed, state.changed),
      step=state.step + 1,
    )
