"""Searches over directions: minimizes g(θ), the distance of the boundary along θ, from decisions alone.

Cheng et al. 2019 (arXiv:1807.04457) write the smallest perturbation as min g(θ), g(θ) = min {r: goal met at x + r
θ/|θ|}. What OPT and Sign-OPT share is here, as a machine of one question per step:
  seek   100 directions to starting points; the closest boundary is kept. One is searched only if it meets the goal at
         the distance of the best so far
  probe  an estimate of ∇g at θ (the attack's own)
  line   θ' = θ - α ∇g with α doubled while g falls, up to 15 times; if it never fell α is quartered until it does, up
         to 15 times. Where α < 1e-4 it becomes 1, and β a tenth
g along a direction is found near a first guess: there, then 1 %, 2 %, 4 %, … away until the boundary is between (the
authors: always 1 %), then bisected to `tolerance` of the distance, 2e-6 (the authors: β / 500, which with β falls below
what float32 tells apart). In `seek` and `line` a direction that does not meet the goal at the guess is farther away and
given up at once, where the authors find out how much farther. Points are clipped into [0, 1], which the authors' code
leaves out; distances are those of the clipped points.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxrobust.attacks import decision
from jaxrobust.core.threefry import gaussian
from jaxrobust.core.types import Array, LogitsFn, Probe, Problem

# Phases, and what is known of the boundary along a direction.
SEEK, PROBE, LINE = 0, 1, 2
FIRST, NEARER, FARTHER, BETWEEN = 0, 1, 2, 3
TRIALS = 15
DOUBLED, QUARTERED = 2.0, 0.25
NEAR = 0.01
_FAR = 10.0


class Search(NamedTuple):
  """The search for the boundary along one direction.

  Attributes:
    mode: FIRST look, NEARER and nearer, FARTHER and farther, BETWEEN two bounds.
    low, high: distances at which the goal is not met and is met.
    stride: the next relative move.
  """

  mode: Array
  low: Array
  high: Array
  stride: Array


class DirectionState(NamedTuple):
  """The search over directions.

  Attributes:
    phase: SEEK, PROBE or LINE.
    number: directions tried so far, in any phase; numbers the draws.
    trials: directions tried in this phase.
    theta, g: the direction and its distance.
    best, best_g: the closest in this iteration.
    total: the sum that the estimate of the gradient is the mean of.
    alpha, beta: the step size and the size of probes.
    down, moved: whether α is on its way down, and whether the line has come closer.
    search: along the present direction.
  """

  phase: Array
  number: Array
  trials: Array
  theta: Array
  g: Array
  best: Array
  best_g: Array
  total: Array
  alpha: Array
  beta: Array
  down: Array
  moved: Array
  search: Search


def looks_at(search: Search, guess: Array) -> Array:
  """Returns the distance that a search asks about."""
  middle = 0.5 * (search.low + search.high)
  bounds = jnp.where(search.mode == NEARER, search.low, jnp.where(search.mode == FARTHER, search.high, middle))
  return jnp.where(search.mode == FIRST, guess, bounds)


def answered(search: Search, at: Array, met: Array, tolerance: float) -> tuple[Search, Array]:
  """Returns the search after an answer, and whether the boundary is known to the tolerance: at `high`."""
  first, nearer, farther = (search.mode == mode for mode in (FIRST, NEARER, FARTHER))
  low, high = jnp.where(met, search.low, at), jnp.where(met, at, search.high)
  outward = (first | farther) & ~met
  inward = (first | nearer) & met
  stride = jnp.where(first, search.stride, jnp.minimum(2.0 * search.stride, 0.5))
  between = Search(jnp.full_like(search.mode, BETWEEN), low, high, stride)
  mode = jnp.where(inward, NEARER, jnp.where(outward, FARTHER, BETWEEN)).astype(search.mode.dtype)
  # A search that goes on inward asks about a lower bound that is not known to be one yet; outward likewise.
  going = Search(
    mode, jnp.where(inward, at * (1.0 - stride), low), jnp.where(outward, at * (1.0 + stride), high), stride
  )
  known = ~inward & ~outward & (high - low <= tolerance * high)
  return decision.choose(inward | outward, going, between), known


def fresh(stride: Array | float) -> Search:
  zero = jnp.zeros(())
  return Search(jnp.zeros((), jnp.int32), zero, zero, jnp.asarray(stride, jnp.float32))


class DirectionSearch(decision.DecisionAttack):
  """The machine; a subclass is a dataclass with the fields below and says what probes are."""

  norm: str
  queries: int
  directions: int
  probes: int
  alpha: float
  beta: float
  tolerance: float
  # Whether a probe finds its distance; otherwise it asks once, at that of θ.
  _measures: ClassVar[bool]

  def init(self, problem: Problem) -> DirectionState:
    zero, no, none = jnp.zeros((), jnp.int32), jnp.zeros((), bool), jnp.zeros(problem.image.size)
    far = jnp.full((), jnp.inf)
    sizes = jnp.float32(self.alpha), jnp.float32(self.beta)
    return DirectionState(zero, zero, zero, none, far, none, far, none, *sizes, no, no, fresh(0.5))

  def step(self, model: LogitsFn, problem: Problem, state: DirectionState) -> tuple[DirectionState, Probe]:
    assert problem.start is not None
    image = problem.image.ravel()
    values = decision.draw(problem.key, state.number, image.size)
    # Of length one on average: to scale each would cost one more sum over the image.
    noise = gaussian(values) / np.float32(image.size**0.5)
    seeking, probing = state.phase == SEEK, state.phase == PROBE
    given = (problem.target >= 0) | ((state.number >= decision.TRIES) & jnp.isinf(state.best_g))
    start = decision.start_point(problem, given, values) - image
    change = jnp.where(probing, state.beta * noise, -state.alpha / self.probes * state.total)
    ahead = jnp.where(seeking, start, state.theta + change)
    size = decision.length(ahead)
    direction = ahead / jnp.where(size > 0, size, 1.0)
    guess = jnp.where(seeking, jnp.minimum(size, state.best_g), state.best_g)
    at = looks_at(state.search, jnp.where(probing, state.g, guess))
    point = jnp.clip(image + at * direction, 0.0, 1.0)
    met = model(point.reshape(problem.image.shape))
    search, known = answered(state.search, at, met, self.tolerance)
    expands = probing if self._measures else jnp.zeros_like(probing)
    lost = ~met & (((state.search.mode == FIRST) & ~expands) | (search.high > _FAR * state.g))
    once = probing if not self._measures else jnp.zeros_like(probing)
    found = jnp.where(known & ~lost, search.high, jnp.inf)
    over = known | lost | once
    after = self._tried(state, direction, found, noise, met, given)
    after = decision.choose(over, after, state._replace(search=search))
    stuck = over & seeking & given & jnp.isinf(found)
    exhausted = after.beta < 1e-8
    return after, Probe(point.reshape(problem.image.shape), met, queries=1, done=stuck | exhausted)

  def _tried(
    self, state: DirectionState, direction: Array, found: Array, noise: Array, met: Array, given: Array
  ) -> DirectionState:
    """Returns the state after a direction whose boundary is at `found`, infinity for farther than asked."""
    seeking, probing, lining = (state.phase == phase for phase in (SEEK, PROBE, LINE))
    closer = (found < state.best_g) & (seeking | lining | self._measures)
    trials = state.trials + 1
    total = state.total + jnp.where(probing, self._weight(state, found, met), 0.0) * noise
    best, best_g = jnp.where(closer, direction, state.best), jnp.where(closer, found, state.best_g)
    # The line: α doubles with every trial on the way up, and is quartered before every trial on the way down.
    moved = state.moved | (lining & closer)
    falls = lining & ~state.down & ~closer & ~state.moved
    rises = lining & ~state.down & ~falls
    alpha = state.alpha * jnp.where(rises | falls, DOUBLED, 1.0)
    ends = lining & jnp.where(state.down, closer | (trials >= TRIALS), jnp.where(closer, trials >= TRIALS, state.moved))
    descends = falls | (lining & state.down & ~ends)
    alpha = alpha * jnp.where(descends, QUARTERED, 1.0)
    still = ends & (alpha < 1e-4)
    begins = seeking & jnp.isfinite(best_g) & (given | (trials >= self.directions))
    probed = probing & (trials >= self.probes)
    anew = begins | ends
    phase = jnp.where(anew, PROBE, jnp.where(probed, LINE, state.phase)).astype(jnp.int32)
    return DirectionState(
      phase=phase,
      number=state.number + 1,
      trials=jnp.where(anew | probed | falls, 0, trials),
      theta=jnp.where(anew, best, state.theta),
      g=jnp.where(anew, best_g, state.g),
      best=best,
      best_g=best_g,
      total=jnp.where(anew, 0.0, total),
      alpha=jnp.where(still, 1.0, alpha),
      beta=jnp.where(still, 0.1 * state.beta, state.beta),
      down=(state.down | falls) & ~ends,
      moved=moved & ~anew,
      search=fresh(jnp.where(phase == SEEK, 0.5, NEAR)),
    )

  def _weight(self, state: DirectionState, found: Array, met: Array) -> Any:
    """Returns what a probe's direction is multiplied by in the sum."""
    raise NotImplementedError
