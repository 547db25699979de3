"""What decision-based attacks share: starting points, the way to the boundary, draws, rates of success.

Each attack is a machine that asks one question per step: under `vmap` every branch of a step is computed for every
slot, so a step with many questions would ask the most that any slot might need. All begin alike:
  start     untargeted: images of uniform noise until one meets the goal (ARES, Dong et al. 2020, arXiv:1912.11852), and
            after `TRIES` of them `problem.start`, since a network may call all noise by one name; targeted:
            `problem.start` at once, an image of the target class
  approach  bisects the way from there to the image, by the projection of the norm: a segment in l2, a shrinking box
            in linf
Points are flat vectors here: XLA:CPU sums over a last axis of three channels ten times slower.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrobust.attacks import norms
from jaxrobust.attacks.query_attack import QueryAttack
from jaxrobust.core.summation import ordered_sum
from jaxrobust.core.threefry import symmetric
from jaxrobust.core.types import Array, Problem

# Images of noise that are tried before an image of the data set is taken.
TRIES = 50
# Phases of an approach.
START, BISECT, ARRIVED = 0, 1, 2


class Approach(NamedTuple):
  """The way from a starting point to the boundary.

  Attributes:
    phase: START, BISECT or ARRIVED.
    point: what is bisected from, or where it arrived; meets the goal once there is one.
    distance: of the point to the image, kept since sums over an image are what a step costs beside the model.
    low, high: distances to the image of a point on the way that does not meet the goal, and of one that does.
    left: bisections to go.
  """

  phase: Array
  point: Array
  distance: Array
  low: Array
  high: Array
  left: Array


def draw(key: Array, number: Array, size: int) -> Array:
  """Returns the number-th vector of a key, uniform in (-1, 1); all randomness of these attacks is read from it."""
  return symmetric(jax.random.fold_in(key, number), size)


def begin(problem: Problem) -> Approach:
  """Returns an approach without a starting point."""
  zero, count = jnp.zeros(()), jnp.zeros((), jnp.int32)
  return Approach(count, problem.image.ravel(), zero, zero, zero, count)


def approach_from(norm: str, problem: Problem, point: Array, bisections: int) -> Approach:
  """Returns an approach that is to bisect from a point which meets the goal."""
  phase, left = jnp.full((), BISECT, jnp.int32), jnp.full((), bisections, jnp.int32)
  away = point - problem.image.ravel()
  distance = length(away) if norm == "l2" else norms.distance(norm, away)
  return Approach(phase, point, distance, jnp.zeros(()), distance, left)


def _shrunk(norm: str, problem: Problem, approach: Approach, radius: Array) -> Array:
  """Returns the point of an approach, projected to a smaller distance from the image."""
  image = problem.image.ravel()
  if norm == "linf":
    return norms.project(norm, approach.point, image, radius)
  share = radius / jnp.where(approach.distance > 0, approach.distance, 1.0)
  return jnp.clip(image + share * (approach.point - image), 0.0, 1.0)


def approach_point(norm: str, problem: Problem, approach: Approach, number: Array, values: Array) -> Array:
  """Returns where an approach looks next.

  Args:
    norm: l2 or linf.
    problem: the problem.
    approach: how far it is.
    number: questions so far.
    values: the vector of this step, uniform in (-1, 1).
  """
  first = start_point(problem, _is_given(problem, number), values)
  middle = 0.5 * (approach.low + approach.high)
  return jnp.where(approach.phase == START, first, _shrunk(norm, problem, approach, middle))


def start_point(problem: Problem, given: Array, values: Array) -> Array:
  """Returns `problem.start` where it is to be taken, or an image of noise."""
  assert problem.start is not None
  return jnp.where(given, problem.start.ravel(), jnp.clip(0.5 + 0.5 * values, 0.0, 1.0))


def approached(
  norm: str, problem: Problem, approach: Approach, number: Array, point: Array, met: Array, bisections: int
) -> tuple[Approach, Array]:
  """Returns the approach after the answer at its point, and whether it has nowhere to begin; unchanged on arrival."""
  starting, bisecting = approach.phase == START, approach.phase == BISECT
  begun = approach_from(norm, problem, point, bisections)
  middle = 0.5 * (approach.low + approach.high)
  low = jnp.where(bisecting & ~met, middle, approach.low)
  high = jnp.where(bisecting & met, middle, approach.high)
  left = approach.left - bisecting
  arrives = bisecting & (left <= 0)
  # The closest point that was seen to meet the goal; with the very numbers that were asked about.
  there = jnp.where(arrives, _shrunk(norm, problem, approach, high), approach.point)
  distance = jnp.where(arrives, high, approach.distance)
  going = Approach(jnp.where(arrives, ARRIVED, approach.phase), there, distance, low, high, left)
  after = choose(starting & met, begun, going)
  return after, starting & ~met & _is_given(problem, number)


def _is_given(problem: Problem, number: Array) -> Array:
  return (problem.target >= 0) | (number >= TRIES)


def choose(condition: Array, yes: Any, no: Any) -> Any:
  """Returns `yes` or `no`, leaf by leaf."""
  return jax.tree.map(lambda one, other: jnp.where(condition, one, other), yes, no)


def bisections_to(tolerance: float) -> int:
  """Returns how many bisections narrow an interval to this fraction of it.

  >>> bisections_to(1e-3), bisections_to(0.5)
  (10, 1)
  """
  return max(int(np.ceil(np.log2(1.0 / tolerance))), 1)


def inner(one: Array, other: Array) -> Array:
  """Returns the inner product of two flat vectors, the same in any batch."""
  return ordered_sum(one * other)


def length(vector: Array) -> Array:
  """Returns the l2 norm of a flat vector."""
  return jnp.sqrt(inner(vector, vector))


def unit(vector: Array) -> Array:
  """Returns a vector of length one; zero stays zero."""
  size = length(vector)
  return vector / jnp.where(size > 0, size, 1.0)


class Answers(NamedTuple):
  """The last answers of a kind: bits in a ring, and how many have come since it was emptied."""

  bits: Array
  seen: Array

  @property
  def full(self) -> Array:
    return self.seen >= self.bits.shape[0]

  @property
  def rate(self) -> Array:
    return jnp.mean(self.bits.astype(jnp.float32))

  def push(self, bit: Array, when: Array) -> Answers:
    """Returns it with one more answer, if there is one."""
    place = jnp.arange(self.bits.shape[0]) == self.seen % self.bits.shape[0]
    return Answers(jnp.where(place & when, bit, self.bits), self.seen + when)

  def emptied(self, when: Array) -> Answers:
    return self._replace(seen=jnp.where(when, 0, self.seen))


def no_answers(size: int) -> Answers:
  return Answers(jnp.zeros(size, bool), jnp.zeros((), jnp.int32))


class DecisionAttack(QueryAttack):
  """The declarations that all of these attacks share; a subclass is a dataclass with `norm`, `queries` and `name`."""

  minimal = True
  access = "decision"
  needs_start = True
  _norms: ClassVar[tuple[str, ...]] = ("l2",)
