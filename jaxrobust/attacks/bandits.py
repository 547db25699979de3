"""Bandits: a prior of the gradient that is carried from step to step and corrected by two queries in each.

  v    = u/√d,  u ~ N(0, I)                            in the space of the prior p, tiles that share one value
  q±   = up(p ± δ v);  Δ = (L(x + η q₊/|q₊|₂) - L(x + η q₋/|q₋|₂)) / (η δ)
  p   <- the step from p along Δ δ v of length h: exponentiated gradient in [-1, 1]^d (linf), plain (l2)
  x   <- P(x + α ε s(up(p))),   s the sign (linf) or the direction of length one (l2), P the projection onto ball and
      box

Norms linf and l2; untargeted and targeted. A step looks at x, then asks for the pair: 3 queries; `queries` counts all
of them, the last look included. up() repeats the values of tiles, nearest neighbor.
Source: Ilyas et al. 2019 (arXiv:1807.07978) and the authors' code. Its settings, for cross-entropy: linf η 0.1, δ 1, h
100, α 0.2 (0.01 at 0.05); l2 η 0.01, δ 0.01, h 0.1, α 0.1 (0.5 at 5); 50 tiles down and across at 224 to 299 pixels.
For 32 pixels Al-Dujaili and O'Reilly 2020 take 20; the default is 50, or 5/8 of the pixels where that is fewer.
Deviations: the look at x is counted (authors: the pair alone). The exponentiated step is taken in artanh p, where it is
a sum: p = ±1 is never reached by rounding, from where the authors' form cannot come back. 20,000 queries (authors:
10,000).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, cast

import jax
import jax.numpy as jnp

from jaxrobust.attacks import norms
from jaxrobust.attacks.estimates import score_of
from jaxrobust.attacks.query_attack import QueryAttack
from jaxrobust.attacks.registry import ATTACKS
from jaxrobust.core.threefry import normal
from jaxrobust.core.types import Array, Cost, LogitsFn, Probe, Problem

MOST_TILES = 50
TILES_PER_PIXEL = 5 / 8
_DEFAULTS = {
  "linf": {"eta": 0.1, "delta": 1.0, "prior_rate": 100.0, "step_size": 0.2},
  "l2": {"eta": 0.01, "delta": 0.01, "prior_rate": 0.1, "step_size": 0.1},
}


class BanditsState(NamedTuple):
  """The point to evaluate next, the prior (linf: artanh p), and the steps taken."""

  image: Array
  prior: Array
  step: Array


@ATTACKS.register("bandits")
@dataclass(frozen=True)
class Bandits(QueryAttack):
  """Gradient priors over time and space.

  Example:
    >>> Bandits().prior_rate, Bandits("l2").prior_rate, Bandits().num_steps
    (100.0, 0.1, 6666)
  """

  norm: str = "linf"
  queries: int = 20_000
  tiles: int | None = None
  eta: float | None = None
  delta: float | None = None
  prior_rate: float | None = None
  step_size: float | None = None
  loss: str = "ce"
  name: str = "bandits"
  _at_the_end: ClassVar[int] = 1
  _norms: ClassVar[tuple[str, ...]] = tuple(_DEFAULTS)

  def __post_init__(self) -> None:
    super().__post_init__()
    for key, value in _DEFAULTS[self.norm].items():
      if vars(self)[key] is None:
        object.__setattr__(self, key, value)

  @property
  def cost(self) -> Cost:
    return Cost(forward=3, backward=0, parallel=3)

  def init(self, problem: Problem) -> BanditsState:
    prior = jnp.zeros(self._prior_shape(problem.image.shape), jnp.float32)
    return BanditsState(problem.image, prior, jnp.zeros((), jnp.int32))

  def _prior_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
    height, width, channels = shape
    down, across = (self.tiles or min(MOST_TILES, math.ceil(TILES_PER_PIXEL * side)) for side in (height, width))
    return min(down, height), min(across, width), channels

  def step(self, model: LogitsFn, problem: Problem, state: BanditsState) -> tuple[BanditsState, Probe]:
    eta, delta, rate = (cast(float, part) for part in (self.eta, self.delta, self.prior_rate))
    prior, shape = self._values(state.prior), state.image.shape
    noise = normal(jax.random.fold_in(problem.key, state.step), prior.shape) / math.sqrt(prior.size)
    logits = model(state.image)
    pair = jnp.stack([enlarged(prior + delta * noise, shape), enlarged(prior - delta * noise, shape)])
    points = state.image + eta * jax.vmap(lambda q: norms.normalize("l2", q))(pair)
    up, down = jax.vmap(score_of(model, self.loss, problem))(points, jnp.arange(2))
    slope = (up - down) / (eta * delta)
    bad = ~jnp.isfinite(slope)
    after = state.prior + rate * jnp.where(bad, 0.0, slope) * delta * noise
    along = enlarged(self._values(after), shape)
    move = norms.steepest(self.norm, along, cast(float, self.step_size) * problem.eps, state.image)
    image = norms.project(self.norm, state.image + move, problem.image, problem.eps)
    return BanditsState(image, after, state.step + 1), Probe(state.image, logits, 3, point_query=1, nan=bad)

  def _values(self, prior: Array) -> Array:
    return jnp.tanh(prior) if self.norm == "linf" else prior

  def candidate(self, problem: Problem, state: BanditsState) -> Array:
    del problem
    return state.image


def enlarged(tiles: Array, shape: tuple[int, ...]) -> Array:
  """Returns tiles repeated to the size of an image, each pixel the tile that its upper left corner lies in.

  >>> enlarged(jnp.array([[[1.0], [2.0]]]), (1, 3, 1)).ravel().tolist()
  [1.0, 1.0, 2.0]
  """
  rows, columns = (jnp.arange(size) * count // size for size, count in zip(shape[:2], tiles.shape[:2], strict=True))
  return tiles[rows][:, columns]
