"""Boundary attack: a random walk along the decision boundary, towards the image.

Brendel et al. 2018 (arXiv:1712.04248). From a point a that meets the goal, at distance d of the image x:
  around = x + (η - (x - a)) / sqrt(1 + s²)   η Gaussian, orthogonal to x - a, of length s·d: the sphere around x
  toward = around + (e·d, and what clipping took it off the sphere) in the direction of x
and `toward` is the next a if it meets the goal and is closer. Both points are clipped into [0, 1]. Every 10th step
`around` is asked about, too. Of the last 100 such answers more than half yes: s and e times 1.5; less than a fifth:
both divided by it. Of the last 30 answers for `toward` beside them more than 25 %: e times 1.5; less than 10 %:
divided.

Norm l2; untargeted and targeted; one query per step. Defaults (s = e = 0.01, 1.5, every 10th, windows of 100 and 30,
the end where e < 1e-7) and rates are foolbox 3's; the paper's own code takes 25 directions from each point and wants
50 % and 20 % of steps that follow a successful `around`. Deviations from foolbox: noise is drawn per image, not once
for a batch; the starting point is brought to the boundary by 10 bisections, where foolbox tries 50 blends in order;
of a pair `around` is asked about first, so that the walk needs no memory of it; a slot that has converged ends
instead of asking on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp

from jaxrobust.attacks import decision
from jaxrobust.attacks.registry import ATTACKS
from jaxrobust.core.threefry import gaussian
from jaxrobust.core.types import Array, LogitsFn, Probe, Problem

BISECTIONS = 10
AROUND_WINDOW, TOWARD_WINDOW = 100, 30


class BoundaryState(NamedTuple):
  """The walk.

  Attributes:
    approach: the way to the boundary, then the point of the walk.
    number: questions so far.
    turn: steps of the walk, from 1.
    sphere, source: s and e.
    asked, answer: whether `around` was asked about in this turn, and what came back.
    around, toward: the last answers.
  """

  approach: decision.Approach
  number: Array
  turn: Array
  sphere: Array
  source: Array
  asked: Array
  answer: Array
  around: decision.Answers
  toward: decision.Answers


@ATTACKS.register("boundary")
@dataclass(frozen=True)
class Boundary(decision.DecisionAttack):
  """Random walk along the decision boundary.

  Example:
    >>> Boundary(queries=2000).num_steps, Boundary().cost
    (2000, Cost(forward=1, backward=0, parallel=1))
  """

  norm: str = "l2"
  queries: int = 20_000
  spherical_step: float = 0.01
  source_step: float = 0.01
  adaptation: float = 1.5
  every: int = 10
  convergence: float = 1e-7
  name: str = "boundary"

  def init(self, problem: Problem) -> BoundaryState:
    zero, no = jnp.zeros((), jnp.int32), jnp.zeros((), bool)
    sphere, source = jnp.float32(self.spherical_step), jnp.float32(self.source_step)
    windows = decision.no_answers(AROUND_WINDOW), decision.no_answers(TOWARD_WINDOW)
    return BoundaryState(decision.begin(problem), zero, zero + 1, sphere, source, no, no, *windows)

  def step(self, model: LogitsFn, problem: Problem, state: BoundaryState) -> tuple[BoundaryState, Probe]:
    approach, image = state.approach, problem.image.ravel()
    walking = approach.phase == decision.ARRIVED
    # Both questions of a turn are about the same draw, which is numbered by the turn once the walk has begun.
    draw = jnp.where(walking, -state.turn, state.number)
    values = decision.draw(problem.key, draw, image.size)
    around, toward = proposals(image, approach, gaussian(values), state.sphere, state.source)
    paired = walking & (state.turn % self.every == 0)
    aside = paired & ~state.asked
    way = decision.approach_point(self.norm, problem, approach, state.number, values)
    point = jnp.where(walking, jnp.where(aside, around, toward), way)
    met = model(point.reshape(problem.image.shape))
    begun, stuck = decision.approached(self.norm, problem, approach, state.number, point, met, BISECTIONS)
    turned = walking & ~aside
    distance = decision.length(point - image)
    moves = turned & met & (distance < approach.distance)
    begun = begun._replace(
      point=jnp.where(moves, point, begun.point), distance=jnp.where(moves, distance, begun.distance)
    )
    after = state._replace(
      approach=begun,
      number=state.number + 1,
      turn=state.turn + turned,
      asked=aside,
      answer=met,
      around=state.around.push(state.answer, turned & paired),
      toward=state.toward.push(met, turned & paired),
    )
    after = self._adapted(after, turned & paired)
    probe = Probe(point.reshape(problem.image.shape), met, queries=1, done=stuck | (after.source < self.convergence))
    return after, probe

  def _adapted(self, state: BoundaryState, when: Array) -> BoundaryState:
    """Returns the state with step sizes that follow the rates of success."""
    steps, around = scaled(state.around, when, 0.5, 0.2, self.adaptation)
    source, toward = scaled(state.toward, when, 0.25, 0.1, self.adaptation)
    return state._replace(
      sphere=state.sphere * steps, source=state.source * steps * source, around=around, toward=toward
    )


def scaled(
  window: decision.Answers, when: Array, high: float, low: float, factor: float
) -> tuple[Array, decision.Answers]:
  """Returns what a step size is multiplied by, and the window, emptied where that is not 1."""
  up, down = window.full & (window.rate > high) & when, window.full & (window.rate < low) & when
  return jnp.where(up, factor, jnp.where(down, 1.0 / factor, 1.0)), window.emptied(up | down)


def proposals(
  image: Array, approach: decision.Approach, noise: Array, sphere: Array, source: Array
) -> tuple[Array, Array]:
  """Returns `around` and `toward` of the module's docstring, for flat vectors."""
  way, distance = image - approach.point, approach.distance
  straight = way / jnp.where(distance > 0, distance, 1.0)
  noise = noise - decision.inner(straight, noise) * straight
  noise = sphere * distance * decision.unit(noise)
  around = jnp.clip(image + (noise - way) / jnp.sqrt(1.0 + sphere**2), 0.0, 1.0)
  back = image - around
  reach = decision.length(back)
  share = jnp.maximum(source * distance + reach - distance, 0.0) / jnp.where(reach > 0, reach, 1.0)
  return around, jnp.clip(around + share * back, 0.0, 1.0)
