"""NES: signed steps along a gradient that is estimated from the scores of normal directions in pairs.

  g   = 1/q · Σ_i (L(x + σ u_i) - L(x - σ u_i)) / (2σ) · u_i,   u_i ~ N(0, I)
  m   = μ m + (1 - μ) g
  x  <- P(x + α ε s(m)),   s the sign (linf) or the direction of length one (l2), P the projection onto ball and box
  α  <- max(α/2, α_min) where the mean score has not risen within a window of steps; the window then begins anew

Norms linf and l2; untargeted and targeted. A step looks at x (1 query), then asks for q pairs: 2q + 1 queries;
`queries` counts all of them, the last look included.
Sources: Ilyas et al. 2018 (arXiv:1804.08598); ARES (Dong et al. 2020, arXiv:1912.11852), appendix B, and its code.
Defaults:
  nes          ARES: margin loss, σ = 0.001, q = 100 pairs (its equation 11; its code counts 100 samples, that is 50
               pairs), α 0.15 falling to 0.015, window of 20, no momentum, 20,000 queries.
  nes-authors  the authors' code: cross-entropy, σ = 0.001, 25 pairs, α 0.2 (0.01 at ε = 0.05) falling to 0.001, window
               of 5, momentum 0.9, 10,000 queries.
Deviations: the look at x is counted (the authors count pairs and, without need here, a query of their line search).
Points x ± σ u may lie outside [0, 1], as in both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from jaxrobust.attacks import norms
from jaxrobust.attacks.estimates import PARALLEL, estimate_gradient, score_of
from jaxrobust.attacks.query_attack import QueryAttack
from jaxrobust.attacks.registry import ATTACKS
from jaxrobust.core.threefry import normal
from jaxrobust.core.types import Array, Cost, LogitsFn, Probe, Problem


class NESState(NamedTuple):
  """The point to evaluate next, and how it was reached.

  Attributes:
    image: the next point.
    momentum: the running mean of gradients; None without one.
    step: steps taken.
    length: α.
    scores: mean scores of the window, the oldest first; NaN where there is none yet.
  """

  image: Array
  momentum: Array | None
  step: Array
  length: Array
  scores: Array


@ATTACKS.register("nes")
@dataclass(frozen=True)
class NES(QueryAttack):
  """Estimated gradients from antithetic normal directions.

  Example:
    >>> NES().cost.forward, NES().num_steps, NES(queries=2000, pairs=50).num_steps
    (201, 99, 19)
  """

  norm: str = "linf"
  queries: int = 20_000
  pairs: int = 100
  sigma: float = 0.001
  step_size: float = 0.15
  final_step_size: float = 0.015
  window: int = 20
  momentum: float = 0.0
  loss: str = "margin"
  name: str = "nes"
  _at_the_end: ClassVar[int] = 1

  @property
  def cost(self) -> Cost:
    return Cost(2 * self.pairs + 1, 0, min(2 * self.pairs, PARALLEL))

  def init(self, problem: Problem) -> NESState:
    momentum = jnp.zeros_like(problem.image) if self.momentum else None
    length = jnp.full((), self.step_size, jnp.float32)
    return NESState(problem.image, momentum, jnp.zeros((), jnp.int32), length, jnp.full(self.window, jnp.nan))

  def step(self, model: LogitsFn, problem: Problem, state: NESState) -> tuple[NESState, Probe]:
    logits = model(state.image)
    key = jax.random.fold_in(problem.key, state.step)

    def direction(number: Array) -> Array:
      return normal(jax.random.fold_in(key, number), state.image.shape)

    score = score_of(model, self.loss, problem)
    found = estimate_gradient(score, state.image, direction, self.pairs, self.sigma)
    grad, momentum = found.grad, None
    if state.momentum is not None:
      grad = momentum = self.momentum * state.momentum + (1.0 - self.momentum) * found.grad
    length, scores = self._anneal(state, found.loss)
    move = norms.steepest(self.norm, grad, state.length * problem.eps, state.image)
    image = norms.project(self.norm, state.image + move, problem.image, problem.eps)
    probe = Probe(state.image, logits, self.cost.forward, point_query=1, nan=found.nan, flat=found.flat)
    return NESState(image, momentum, state.step + 1, length, scores), probe

  def _anneal(self, state: NESState, score: Array) -> tuple[Array, Array]:
    """Returns the length of the next step and its window."""
    scores = jnp.append(state.scores[1:], score)
    fell = scores[-1] < scores[0]  # False while the window is not full.
    length = jnp.where(fell, jnp.maximum(0.5 * state.length, self.final_step_size), state.length)
    return length, jnp.where(fell, jnp.nan, scores)

  def candidate(self, problem: Problem, state: NESState) -> Array:
    del problem
    return state.image


@ATTACKS.register("nes-authors")
def nes_authors(norm: str = "linf", queries: int = 10_000, pairs: int = 25) -> NES:
  """NES with the settings of the authors' code, for cross-entropy and with momentum."""
  return NES(norm, queries, pairs, 0.001, 0.2, 0.001, 5, 0.9, "ce", "nes-authors")
