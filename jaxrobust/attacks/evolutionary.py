"""Evolutionary attack: a (1+1) evolution strategy with a diagonal covariance, towards the image.

Dong et al. 2019 (arXiv:1904.04433). From a point a that meets the goal, at distance d of the image x:
  z         = sqrt(C)·N(0, 1) on K = N / 20 coordinates, drawn in proportion to C, 0 elsewhere
  biased    = a + μ (x - a);   candidate = biased + σ d z / |z|, brought back to the distance of `biased` from x,
              clipped
  accepted  path ← (1 - c_c) path + sqrt(c_c (2 - c_c)) z;   C ← (1 - c) C + c path²
  μ         times exp(p - 0.2) after every 30 candidates, p of which met the goal
With `side` z is drawn on a grid of side × side and enlarged bilinearly, as for large images.

Norm l2; untargeted and targeted; one query per step. Defaults are those of ARES, the authors' own code: μ 0.01, σ
0.03, decay 1 - c_c of 0.99 with sqrt(1 - decay²) for the new part, c 0.001, no coarse grid (the paper draws faces on
45 × 45). Deviations: each coordinate is drawn on its own, so that there are K on average, since a draw of exactly K
is a sort, which costs several times a small network; the starting point is brought to the boundary by 10 bisections,
where ARES walks from the noise itself; a candidate that clipping left farther away than a is not taken.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxrobust.attacks import decision
from jaxrobust.attacks.registry import ATTACKS
from jaxrobust.core.threefry import gaussian
from jaxrobust.core.types import Array, LogitsFn, Probe, Problem

BISECTIONS = 10
WINDOW = 30
_SHARE = 20
_WANTED = 0.2
_SELECTION = 0x5E1EC7


class EvolutionaryState(NamedTuple):
  """The point, the strategy's path and covariance, μ, and the last answers."""

  approach: decision.Approach
  number: Array
  path: Array
  covariance: Array
  mu: Array
  window: decision.Answers


@ATTACKS.register("evolutionary")
@dataclass(frozen=True)
class Evolutionary(decision.DecisionAttack):
  """Evolution strategy with a diagonal covariance.

  Example:
    >>> Evolutionary(queries=500, side=16).num_steps
    500
  """

  norm: str = "l2"
  queries: int = 20_000
  mu: float = 0.01
  sigma: float = 0.03
  decay: float = 0.99
  covariance_rate: float = 0.001
  side: int | None = None
  name: str = "evolutionary"

  def _grid(self, shape: tuple[int, ...]) -> tuple[int, ...]:
    return shape if self.side is None else (min(self.side, shape[0]), min(self.side, shape[1]), shape[2])

  def init(self, problem: Problem) -> EvolutionaryState:
    grid = self._grid(problem.image.shape)
    path = jnp.zeros(grid).ravel()
    zero, mu = jnp.zeros((), jnp.int32), jnp.float32(self.mu)
    return EvolutionaryState(decision.begin(problem), zero, path, path + 1.0, mu, decision.no_answers(WINDOW))

  def step(self, model: LogitsFn, problem: Problem, state: EvolutionaryState) -> tuple[EvolutionaryState, Probe]:
    approach, shape = state.approach, problem.image.shape
    image = problem.image.ravel()
    walking = approach.phase == decision.ARRIVED
    values = decision.draw(problem.key, state.number, image.size)
    grid = self._grid(shape)
    size = state.path.size
    selection = decision.draw(jax.random.fold_in(problem.key, _SELECTION), state.number, size)
    chosen = drawn_by_weight(selection, state.covariance, max(size / _SHARE, 1.0))
    z = jnp.where(chosen, jnp.sqrt(state.covariance) * gaussian(values[:size]), 0.0)
    large = z if grid == shape else jax.image.resize(z.reshape(grid), shape, "bilinear").ravel()
    candidate = proposal(image, approach, large, state.mu, self.sigma)
    way = decision.approach_point(self.norm, problem, approach, state.number, values)
    point = jnp.where(walking, candidate, way)
    met = model(point.reshape(shape))
    after, stuck = decision.approached(self.norm, problem, approach, state.number, point, met, BISECTIONS)
    distance = decision.length(point - image)
    kept = walking & met & (distance < approach.distance)
    path = self.decay * state.path + (1.0 - self.decay**2) ** 0.5 * z
    covariance = (1.0 - self.covariance_rate) * state.covariance + self.covariance_rate * path**2
    window = state.window.push(met, walking)
    mu = jnp.where(window.full, state.mu * jnp.exp(window.rate - _WANTED), state.mu)
    state = EvolutionaryState(
      after._replace(point=jnp.where(kept, point, after.point), distance=jnp.where(kept, distance, after.distance)),
      state.number + 1,
      jnp.where(kept, path, state.path),
      jnp.where(kept, covariance, state.covariance),
      mu,
      window.emptied(window.full),
    )
    return state, Probe(point.reshape(shape), met, queries=1, done=stuck)


def drawn_by_weight(values: Array, weights: Array, count: float) -> Array:
  """Returns a mask of `count` places on average, each drawn on its own, in proportion to its weight.

  Args:
    values: uniform in (-1, 1), one for each place.
    weights: positive.
    count: how many.
  """
  return 0.5 + 0.5 * values < count / jnp.sum(weights) * weights


def proposal(image: Array, approach: decision.Approach, z: Array, mu: Array, sigma: float) -> Array:
  """Returns the candidate of the module's docstring, for flat vectors."""
  away, distance = approach.point - image, approach.distance
  moved = (1.0 - mu) * away + sigma * distance * decision.unit(z)
  return jnp.clip(image + jnp.abs(1.0 - mu) * distance * decision.unit(moved), 0.0, 1.0)
