"""ZOO: the Carlini-Wagner objective, minimized coordinate by coordinate with slopes from pairs of queries.

  f(x')  = |x' - x|₂² + c · hinge(x'),   hinge(x') = max(confidence - margin(x'), 0)
  g_i    = 2 (x'_i - x_i) + c · (hinge(x' + σ e_i) - hinge(x' - σ e_i)) / (2σ)     for coordinates i drawn at random
  x'_i  <- clip(x'_i - α Adam_i(g_i)),   each coordinate with moments and a count of its own; Adam(0.9, 0.999)

Norm l2; untargeted and targeted; a minimal attack. A step looks at x' (1 query), then asks for two points for each of B
coordinates: 2B + 1 queries. The distance's slope is known and not asked for. c is searched for as in C&W
(`const_search`), over all the queries there are.
Sources: Chen et al. 2017 (arXiv:1708.03999) and the authors' code; ARES (Dong et al. 2020, arXiv:1912.11852), appendix
B.
Defaults:
  zoo          ARES: one coordinate a step, σ = 1e-4, margin of logits, 20,000 queries; α = 0.01 (the authors' for small
               images), 4 values of c from 0.5.
  zoo-authors  128 coordinates a step, one c = 0.5, 1,000 steps (257,000 queries), as the authors attack CIFAR-10. They
               use log-probabilities, of which margins are the same, and tanh space, where black and white pixels hardly
               move.
Deviations: the next c goes on from the last image (authors: from the clean one), since there are few queries. The
authors' hierarchy of small perturbations that are scaled up, and their importance sampling, are for images above 32
pixels and not here. ART's ZOO is not a reference: it adds its whole perturbation anew in every iteration, measures
distances from the last image in place of the clean one, and clips the perturbation, not the image, to [0, 1].
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from jaxrobust.attacks import const_search, losses
from jaxrobust.attacks.const_search import ConstSearch, Rounds
from jaxrobust.attacks.coordinates import shuffled
from jaxrobust.attacks.estimates import PARALLEL
from jaxrobust.attacks.query_attack import QueryAttack
from jaxrobust.attacks.registry import ATTACKS
from jaxrobust.core.types import Array, Cost, LogitsFn, Probe, Problem

_BETA1, _BETA2, _TINY = 0.9, 0.999, 1e-8


class ZOOState(NamedTuple):
  """The point to evaluate next, with the optimizer of each coordinate.

  Attributes:
    image: the next point, flat.
    first, second: running moments of slopes. times: how often a coordinate has been drawn.
    search: for c.
  """

  image: Array
  first: Array
  second: Array
  times: Array
  search: ConstSearch


@ATTACKS.register("zoo")
@dataclass(frozen=True)
class ZOO(QueryAttack):
  """Coordinate descent on the Carlini-Wagner objective.

  Example:
    >>> ZOO().cost.forward, ZOO().num_steps
    (3, 6666)
  """

  norm: str = "l2"
  queries: int = 20_000
  coordinates: int = 1
  sigma: float = 1e-4
  step_size: float = 0.01
  binary_search_steps: int = 4
  initial_const: float = 0.5
  confidence: float = 0.0
  abort_early: bool = True
  name: str = "zoo"
  _norms: ClassVar[tuple[str, ...]] = ("l2",)
  minimal = True

  @property
  def cost(self) -> Cost:
    return Cost(2 * self.coordinates + 1, 0, min(2 * self.coordinates, PARALLEL))

  @property
  def rounds(self) -> Rounds:
    count = min(self.binary_search_steps, self.num_steps)
    return Rounds(count, self.num_steps // count, self.abort_early)

  def init(self, problem: Problem) -> ZOOState:
    flat = problem.image.ravel()
    zeros = jnp.zeros_like(flat)
    return ZOOState(flat, zeros, zeros, jnp.zeros(flat.size, jnp.int32), const_search.start(self.initial_const))

  def step(self, model: LogitsFn, problem: Problem, state: ZOOState) -> tuple[ZOOState, Probe]:
    image = state.image.reshape(problem.image.shape)
    logits = const_search.require_confidence(problem, self.confidence, model(image))
    success = losses.margin(logits, problem.label, problem.target) > 0.0
    delta = state.image - problem.image.ravel()
    hinge = jnp.maximum(-losses.margin(logits, problem.label, problem.target), 0.0)
    loss = jnp.sum(jnp.square(delta)) + state.search.const * hinge
    search, _ = const_search.follow(state.search, success, loss, self.rounds)
    picks = shuffled(jax.random.fold_in(problem.key, search.total), jnp.arange(self.coordinates), delta.size)
    slopes = self._slopes(model, problem, state.image, picks)
    bad = ~jnp.isfinite(slopes)
    grad = 2.0 * delta[picks] + state.search.const * jnp.where(bad, 0.0, slopes)
    state = _descend(state, picks, grad, self.step_size)._replace(search=search)
    done = const_search.finished(search, self.rounds)
    return state, Probe(image, logits, self.cost.forward, point_query=1, done=done, nan=jnp.any(bad))

  def _slopes(self, model: Callable, problem: Problem, flat: Array, picks: Array) -> Array:
    """Returns the slope of the hinge along some coordinates; a few at a time, as memory allows."""

    def hinge(point: Array, number: Array) -> Array:
      return const_search.hinge(problem, self.confidence, model(point.reshape(problem.image.shape), number))

    def slope(number: Array) -> Array:
      unit = self.sigma * (jnp.arange(flat.size) == picks[number])
      points = jnp.stack([flat + unit, flat - unit])
      up, down = jax.vmap(hinge)(points, 2 * number + jnp.arange(2))
      return (up - down) / (2.0 * self.sigma)

    return jax.lax.map(slope, jnp.arange(self.coordinates), batch_size=min(self.coordinates, max(PARALLEL // 2, 1)))


def _descend(state: ZOOState, picks: Array, grad: Array, length: float) -> ZOOState:
  """Returns the state after a step of Adam along some coordinates."""
  times = state.times[picks] + 1
  first = _BETA1 * state.first[picks] + (1.0 - _BETA1) * grad
  second = _BETA2 * state.second[picks] + (1.0 - _BETA2) * jnp.square(grad)
  corrected = jnp.sqrt(1.0 - _BETA2**times) / (1.0 - _BETA1**times)
  moved = state.image[picks] - length * corrected * first / (jnp.sqrt(second) + _TINY)
  return state._replace(
    image=state.image.at[picks].set(jnp.clip(moved, 0.0, 1.0)),
    first=state.first.at[picks].set(first),
    second=state.second.at[picks].set(second),
    times=state.times.at[picks].set(times),
  )


@ATTACKS.register("zoo-authors")
def zoo_authors(queries: int = 257_000, coordinates: int = 128) -> ZOO:
  """ZOO with many coordinates a step and one trade-off constant, as in the authors' code for small images."""
  return ZOO(queries=queries, coordinates=coordinates, binary_search_steps=1, name="zoo-authors")
