"""Carlini-Wagner: the closest image that a penalty method finds, in l2 and linf.

  l2    minimize |x' - x|_2² + c · hinge(x')  over w with x' = (tanh w + 1)/2, by Adam, for a sequence of c
  linf  minimize Σ_i max(|x'_i - x_i| - tau, 0) + c · hinge(x'),  tau shrinking after each success
  hinge(x') = max(confidence - margin(x'), 0)

Untargeted and targeted; minimal attacks. `num_steps` = binary_search_steps · steps is an upper bound: an image is
done when its search is. With a confidence, only successes with that margin count.
Source: Carlini and Wagner 2017 (arXiv:1608.04644), sections V and VI.

l2: 9 values of c from 1e-3, Adam 0.01, `abort_early` with 10 checks of 0.9999, as in foolbox 3. Deviations:
  * 1,000 steps per c (foolbox and the authors: 10,000), as in cleverhans; see `const_search` for how rounds end.
  * `warm_start` (on): a new c goes on from the last w and Adam state, as in cleverhans; the authors and foolbox
    start over. In tanh space a pixel at 0 or 1 needs hundreds of steps before it moves at all.
  * `abort_early` goes by each image alone. A round that starts over and has had a success takes all its steps: what it
    has not gained by then is lost, and images ended up to 3.5 times farther away (CNN-A on CIFAR-10, 3 × 100 steps;
    now no farther than without `abort_early`). With a warm start the next round goes on from there.
  * Adam's eps is 1e-12, not 1e-8: black and white pixels have gradients of 1e-9 there and should move, too.
linf: tau starts at 1 and shrinks by 0.9, c doubles where tau is not reached, as in the authors' code. Deviations:
  * c is relative to the largest entry of the hinge's gradient, from 0.1 until it is above 1 (authors: absolute,
    1e-5 to 20), so that no scale of logits is fixed: below 1 no pixel gains by leaving the tau-ball.
  * Adam moves the image itself, clipped into the box (the paper's projected form), by 0.01 · tau a step; the
    authors use tanh space and 0.005.
  * 100 steps for each c and tau (authors: 1,000), ended early by the rule of `const_search`; 3,000 in all.
  * Where tau cannot be reached, it is bisected between there and the best distance, down to 0.5 %; the authors
    stop, up to 10 % too far away.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax.numpy as jnp
import optax

from jaxrobust.attacks import const_search, losses, norms
from jaxrobust.attacks.const_search import ConstSearch, Progress, Rounds, clip_gradient, select
from jaxrobust.attacks.registry import ATTACKS
from jaxrobust.core.budget import check_norm
from jaxrobust.core.gradients import LossAndGrad, loss_and_grad
from jaxrobust.core.registry import unknown_name
from jaxrobust.core.threat import by_norm
from jaxrobust.core.types import Array, Cost, LogitsFn, Probe, Problem

# Shrinks [-1, 1] a little, so that black and white have a finite place in tanh space; as in the authors' code.
_SHRINK = 0.999999
_ADAM = optax.scale_by_adam(eps=1e-12)


def to_tanh_space(image: Array) -> Array:
  """Returns w with (tanh w + 1)/2 = image."""
  return jnp.arctanh(_SHRINK * (2.0 * image - 1.0))


def from_tanh_space(w: Array) -> Array:
  """Returns the image in [0, 1] that w stands for."""
  return 0.5 * jnp.tanh(w) + 0.5


def _evaluate(model: LogitsFn, problem: Problem, confidence: float, image: Array) -> tuple[LossAndGrad, Array]:
  """Returns the hinge at `image`, and whether it is a success with enough confidence."""
  point = loss_and_grad(model, lambda logits: const_search.hinge(problem, confidence, logits), image)
  logits = const_search.require_confidence(problem, confidence, point.probe.logits)
  success = losses.margin(logits, problem.label, problem.target) > 0.0
  return point._replace(probe=point.probe._replace(logits=logits)), success


class CWL2State(NamedTuple):
  """The point to evaluate next, in tanh space; the optimizer; the search for c."""

  w: Array
  adam: Any
  search: ConstSearch


@dataclasses.dataclass(frozen=True)
class CWL2:
  """The l2 attack.

  Example:
    >>> CWL2().num_steps, CWL2(binary_search_steps=5, steps=200).num_steps
    (9000, 1000)
  """

  norm: str = "l2"
  binary_search_steps: int = 9
  steps: int = 1000
  step_size: float = 0.01
  confidence: float = 0.0
  initial_const: float = 1e-3
  abort_early: bool = True
  warm_start: bool = True
  name: str = "cw"
  threat = by_norm
  minimal = True
  access = "gradient"
  cost = Cost()

  def __post_init__(self) -> None:
    check_norm(self.norm, ("l2",))
    Rounds(self.binary_search_steps, self.steps)  # Refuses what is not a search.

  @property
  def rounds(self) -> Rounds:
    return Rounds(self.binary_search_steps, self.steps, self.abort_early, patient=not self.warm_start)

  @property
  def num_steps(self) -> int:
    return self.rounds.total

  def init(self, problem: Problem) -> CWL2State:
    w = to_tanh_space(problem.image)
    return CWL2State(w, _ADAM.init(w), const_search.start(self.initial_const))

  def step(self, model: LogitsFn, problem: Problem, state: CWL2State) -> tuple[CWL2State, Probe]:
    origin, image, const = to_tanh_space(problem.image), from_tanh_space(state.w), state.search.const
    point, success = _evaluate(model, problem, self.confidence, image)
    delta = image - from_tanh_space(origin)
    loss = jnp.sum(jnp.square(delta)) + const * point.loss
    search, over = const_search.follow(state.search, success, loss, self.rounds)
    slope = 2.0 * image * (1.0 - image)  # Of the image over w.
    update, adam = _ADAM.update(clip_gradient((2.0 * delta + const * point.grad) * slope), state.adam)
    w = state.w - self.step_size * update
    if not self.warm_start:
      w, adam = select(over, (origin, _ADAM.init(origin)), (w, adam))
    return CWL2State(w, adam, search), point.probe._replace(done=const_search.finished(search, self.rounds))


class CWLinfState(NamedTuple):
  """State of the linf attack.

  Attributes:
    image: the point to evaluate next.
    adam: the optimizer, started afresh with every c and tau.
    const: c, which only grows.
    tau: the distance that is aimed at.
    failed: the largest tau that the largest c did not reach.
    best: the closest success, infinity without one.
    progress: with this c and tau.
  """

  image: Array
  adam: Any
  const: Array
  tau: Array
  failed: Array
  best: Array
  progress: Progress


@dataclasses.dataclass(frozen=True)
class CWLinf:
  """The linf attack; `steps` are those with one c and tau.

  Example:
    >>> CWLinf().num_steps
    3000
  """

  norm: str = "linf"
  binary_search_steps: int = 30
  steps: int = 100
  step_size: float = 0.01
  confidence: float = 0.0
  initial_const: float = 0.1
  largest_const: float = 1.0
  shrink: float = 0.9
  tolerance: float = 0.005
  name: str = "cw"
  threat = by_norm
  minimal = True
  access = "gradient"
  cost = Cost()

  def __post_init__(self) -> None:
    check_norm(self.norm, ("linf",))
    Rounds(self.binary_search_steps, self.steps)

  @property
  def num_steps(self) -> int:
    return self.binary_search_steps * self.steps

  def init(self, problem: Problem) -> CWLinfState:
    const, tau = jnp.full((), self.initial_const, jnp.float32), jnp.ones(())
    best = jnp.full((), jnp.inf, jnp.float32)
    image = problem.image
    return CWLinfState(image, _ADAM.init(image), const, tau, jnp.zeros(()), best, const_search.no_progress())

  def step(self, model: LogitsFn, problem: Problem, state: CWLinfState) -> tuple[CWLinfState, Probe]:
    point, success = _evaluate(model, problem, self.confidence, state.image)
    delta = state.image - problem.image
    excess = jnp.maximum(jnp.abs(delta) - state.tau, 0.0)
    distance = jnp.where(success, norms.distance("linf", delta), jnp.inf)
    state = state._replace(best=jnp.minimum(state.best, distance))
    steep = norms.distance("linf", point.grad)
    hinge = point.loss / jnp.where(steep > 0.0, steep, 1.0)
    progress, stalled = const_search.watch(state.progress, state.const * hinge + jnp.sum(excess), self.steps)
    grad = state.const * norms.normalize("linf", point.grad) + jnp.sign(delta) * (excess > 0.0)
    update, adam = _ADAM.update(grad, state.adam)
    image = jnp.clip(state.image - self.step_size * state.tau * update, 0.0, 1.0)
    state = state._replace(image=image, adam=adam, progress=progress)
    state = self._aim(state, stalled | (progress.step >= self.steps))
    done = jnp.isfinite(state.best) & (state.best - state.failed <= self.tolerance * state.best)
    return state, point.probe._replace(done=done)

  def _aim(self, state: CWLinfState, stalled: Array) -> CWLinfState:
    """Returns the next c and tau: closer after a success, a larger c where tau was not reached, else farther."""
    solved = state.best <= state.tau
    stalled &= ~solved
    state = state._replace(failed=jnp.where(state.best <= state.failed, 0.0, state.failed))  # It was no limit.
    more = stalled & (state.const < self.largest_const)
    failed = jnp.where(stalled & ~more, state.tau, state.failed)
    reach = jnp.minimum(state.best, 1.0)
    closer = jnp.maximum(self.shrink * reach, 0.5 * (failed + reach))
    fresh = (_ADAM.init(state.image), const_search.no_progress())
    adam, progress = select(solved | stalled, fresh, (state.adam, state.progress))
    return state._replace(
      adam=adam,
      const=jnp.where(more, 2.0 * state.const, state.const),
      tau=jnp.where(solved | (stalled & ~more), closer, state.tau),
      failed=failed,
      progress=progress,
    )


@ATTACKS.register("cw")
def CW(  # noqa: N802 - constructors read like classes
  norm: str = "l2",
  binary_search_steps: int | None = None,
  num_steps: int | None = None,
  step_size: float | None = None,
  confidence: float = 0.0,
  initial_const: float | None = None,
  abort_early: bool | None = None,
  warm_start: bool | None = None,
) -> CWL2 | CWLinf:
  """Carlini and Wagner's attack for `norm`: a penalty for not being adversarial, its weight searched for.

  `num_steps` are those for one weight; what is not given has the norm's default.

  >>> CW(num_steps=500).num_steps, CW("linf").num_steps
  (4500, 3000)
  """
  check_norm(norm, ("l2", "linf"))
  build = CWL2 if norm == "l2" else CWLinf
  given = {
    "binary_search_steps": binary_search_steps,
    "steps": num_steps,
    "step_size": step_size,
    "initial_const": initial_const,
    "abort_early": abort_early,
    "warm_start": warm_start,
  }
  given = {name: value for name, value in given.items() if value is not None}
  known = [field.name for field in dataclasses.fields(build)]
  for name in given:
    if name not in known:
      raise unknown_name(f"parameter of attack 'cw' in {norm}", name, known)
  return build(confidence=confidence, **given)  # type: ignore[arg-type]
