"""SurFree: circles through the image and the boundary, in random planes.

Maho et al. 2021 (arXiv:2011.12807). From a point on the boundary at distance d of the image x in direction u, and for
a random direction v orthogonal to u, the points of a circle are x + d cos θ (cos θ u + sin θ v), at distance d cos θ.
  signs   is the goal met at θ = θ_max, or else at -θ_max? Neither: another v, and θ_max times ρ
  angle   where it is, θ doubles until it is not, and is bisected, up to 7 times, while cos θ differs by more than 0.01;
          the best point is the next one; θ_max divided by ρ
v is made of cosines of the whole image with amplitudes tanh(those of the image), times -1, 0 or 1 at random
(`basis="dct"`), or Gaussian (`"random"`), which suits images without a spectrum of their own.

Norm l2; untargeted and targeted; one query per step. Defaults (θ_max 30°, ρ 0.95, one angle of each sign, 7
bisections, 5,000 queries) are those of the authors' last code; its first had ρ 0.98 and three angles. Deviations: v
is orthogonal to u alone, not to the last 100 directions as well: those would be 100 images of memory, or 100 draws a
query, and random directions are nearly orthogonal anyway; θ grows by doubling, not by θ_max at a time; the other sign
is not asked again during bisections.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp

from jaxrobust.attacks import decision
from jaxrobust.attacks.geoda import cosines
from jaxrobust.attacks.registry import ATTACKS
from jaxrobust.core.registry import unknown_name
from jaxrobust.core.threefry import gaussian
from jaxrobust.core.types import Array, LogitsFn, Probe, Problem

BISECTIONS = 10
# What is asked about: either sign, a larger angle, an angle between two.
PLUS, MINUS, LARGER, BETWEEN = 0, 1, 2, 3
_LARGEST = 80.0


class SurFreeState(NamedTuple):
  """The search on circles.

  Attributes:
    approach: the way to the boundary, then the point.
    number: questions of the approach, and then directions.
    amplitudes: of the cosines; 0 where there are none.
    mode: PLUS, MINUS, LARGER or BETWEEN.
    largest: θ_max in degrees.
    low, high: angles at which the goal is met and is not.
    left: bisections to go.
  """

  approach: decision.Approach
  number: Array
  amplitudes: Array
  mode: Array
  largest: Array
  low: Array
  high: Array
  left: Array


@ATTACKS.register("surfree")
@dataclass(frozen=True)
class SurFree(decision.DecisionAttack):
  """Search on circles through the image and the boundary.

  Example:
    >>> SurFree(queries=500).num_steps
    500
  """

  norm: str = "l2"
  queries: int = 5000
  theta_max: float = 30.0
  rho: float = 0.95
  bisections: int = 7
  precision: float = 0.01
  basis: str = "dct"
  name: str = "surfree"

  def __post_init__(self) -> None:
    super().__post_init__()
    if self.basis not in ("dct", "random"):
      raise unknown_name("basis", self.basis, ["dct", "random"])

  def init(self, problem: Problem) -> SurFreeState:
    zero, none = jnp.zeros((), jnp.int32), jnp.zeros(())
    amplitudes = jnp.tanh(transformed(problem.image)) if self.basis == "dct" else none
    return SurFreeState(decision.begin(problem), zero, amplitudes, zero, jnp.float32(self.theta_max), none, none, zero)

  def step(self, model: LogitsFn, problem: Problem, state: SurFreeState) -> tuple[SurFreeState, Probe]:
    approach, image = state.approach, problem.image.ravel()
    walking = approach.phase == decision.ARRIVED
    values = decision.draw(problem.key, state.number, image.size)
    across = self._direction(state, problem, values)
    angle = self._angle(state)
    circled = circle(image, approach, across, angle)
    way = decision.approach_point(self.norm, problem, approach, state.number, values)
    point = jnp.where(walking, circled, way)
    met = model(point.reshape(problem.image.shape))
    after, stuck = decision.approached(self.norm, problem, approach, state.number, point, met, BISECTIONS)
    turned, over = self._turned(state, angle, met)
    found = walking & over & (turned.low != 0.0)
    # The best angle may have been asked about before the last question; clipped, it may be no closer.
    best = circle(image, approach, across, turned.low)
    distance = decision.length(best - image)
    moves = found & (distance < approach.distance)
    after = after._replace(
      point=jnp.where(moves, best, after.point), distance=jnp.where(moves, distance, after.distance)
    )
    factor = jnp.where(found, 1.0 / self.rho, self.rho)
    nothing = jnp.zeros_like(turned.low)
    renewed = turned._replace(
      number=state.number + 1,
      mode=jnp.zeros_like(state.mode),
      largest=jnp.minimum(state.largest * factor, _LARGEST / 2),
      low=nothing,
      high=nothing,
    )
    going = decision.choose(over, renewed, turned)
    waiting = state._replace(number=state.number + 1)
    state = decision.choose(walking, going, waiting)._replace(approach=after)
    return state, Probe(point.reshape(problem.image.shape), met, queries=1, done=stuck)

  def _direction(self, state: SurFreeState, problem: Problem, values: Array) -> Array:
    """Returns the random direction of a step."""
    if self.basis == "random":
      return gaussian(values)
    trit = jnp.floor(1.5 * (values + 1.0)).clip(0.0, 2.0) - 1.0
    return back(state.amplitudes * trit.reshape(problem.image.shape)).ravel()

  def _angle(self, state: SurFreeState) -> Array:
    """Returns the angle to ask about."""
    middle = 0.5 * (state.low + state.high)
    signs = jnp.where(state.mode == MINUS, -state.largest, state.largest)
    return jnp.where(state.mode >= LARGER, jnp.where(state.mode == LARGER, state.high, middle), signs)

  def _turned(self, state: SurFreeState, angle: Array, met: Array) -> tuple[SurFreeState, Array]:
    """Returns the state after an answer at an angle, and whether the direction is done with."""
    low, high = jnp.where(met, angle, state.low), jnp.where(met, state.high, angle)
    outward = (state.mode < BETWEEN) & met & (jnp.abs(angle) < _LARGEST)
    further = jnp.clip(2.0 * angle, -_LARGEST, _LARGEST)
    failed = (state.mode == MINUS) & ~met
    turns = (state.mode == PLUS) & ~met
    left = jnp.where(state.mode == BETWEEN, state.left - 1, self.bisections)
    gap = jnp.abs(jnp.cos(jnp.deg2rad(high)) - jnp.cos(jnp.deg2rad(low)))
    fine = ~outward & ~turns & ((gap <= self.precision) | (left <= 0))
    mode = jnp.where(turns, MINUS, jnp.where(outward, LARGER, BETWEEN)).astype(jnp.int32)
    after = state._replace(mode=mode, low=low, high=jnp.where(outward, further, high), left=left)
    return after, failed | fine


def circle(image: Array, approach: decision.Approach, across: Array, angle: Array) -> Array:
  """Returns the point of the circle at an angle in degrees, clipped into the box, for flat vectors."""
  distance = approach.distance
  out = (approach.point - image) / jnp.where(distance > 0, distance, 1.0)
  side = decision.unit(across - decision.inner(out, across) * out)
  radians = jnp.deg2rad(angle)
  reach = distance * jnp.cos(radians)
  return jnp.clip(image + reach * (jnp.cos(radians) * out + jnp.sin(radians) * side), 0.0, 1.0)


def transformed(image: Array) -> Array:
  """Returns the amplitudes of the cosines of each channel."""
  rows, columns = (jnp.asarray(cosines(size)) for size in image.shape[:2])
  return jnp.einsum("ijc,ui,vj->uvc", image, rows, columns)


def back(amplitudes: Array) -> Array:
  """Undoes `transformed`."""
  rows, columns = (jnp.asarray(cosines(size)) for size in amplitudes.shape[:2])
  return jnp.einsum("uvc,ui,vj->ijc", amplitudes, rows, columns)
