"""NATTACK: learns the mean of a normal distribution whose samples are adversarial images.

  x(w)  = P((1 + tanh(artanh(2x - 1) + w)) / 2)                       P the projection onto ball and box
  L_i   = loss at x(μ + σ u_i),   u_i ~ N(0, I),   i = 1 … n
  μ    <- μ + α/(n σ) · Σ_i z_i u_i,   z_i = (L_i - mean L) / std L

Norms linf and l2; untargeted and targeted. A step looks at x(μ) (1 query), then asks for n samples: n + 1 queries;
`queries` counts all of them, the last look included. μ starts at N(0, 0.001²).
Sources: Li et al. 2019 (arXiv:1905.00441); ARES (Dong et al. 2020, arXiv:1912.11852), appendix B, and its code.
Defaults:
  nattack          ARES: margin loss, σ = 0.1, α = 0.02, n = 100, 20,000 queries.
  nattack-authors  the authors' code: a margin loss that is cut off at success, σ = 0.1, α = 0.02, n = 300 (its files
                   have 0.008 to 0.05 and 200 to 500, one pair for each defense), 600 steps.
Deviations: x(μ) is looked at in every step (authors: every tenth), and counted. For large images the authors learn μ at
32 by 32 and scale it up; here it has the size of the image. Samples themselves are never claimed, as in both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from jaxrobust.attacks import losses, norms
from jaxrobust.attacks.cw import from_tanh_space, to_tanh_space
from jaxrobust.attacks.estimates import PARALLEL, score_of, total
from jaxrobust.attacks.query_attack import QueryAttack
from jaxrobust.attacks.registry import ATTACKS
from jaxrobust.core.summation import ordered_sum, sum_of_many
from jaxrobust.core.threefry import normal
from jaxrobust.core.types import Array, Cost, LogitsFn, Probe, Problem

_START = 0.001
_TINY = 1e-7


class NAttackState(NamedTuple):
  """The mean, in tanh space, and the steps taken."""

  mean: Array
  step: Array


@ATTACKS.register("nattack")
@dataclass(frozen=True)
class NAttack(QueryAttack):
  """Evolution of a normal distribution in tanh space.

  Example:
    >>> NAttack().cost.forward, NAttack().num_steps
    (101, 198)
  """

  norm: str = "linf"
  queries: int = 20_000
  samples: int = 100
  sigma: float = 0.1
  learning_rate: float = 0.02
  loss: str = "margin"
  name: str = "nattack"
  _at_the_end: ClassVar[int] = 1

  @property
  def cost(self) -> Cost:
    return Cost(self.samples + 1, 0, min(self.samples, PARALLEL))

  def init(self, problem: Problem) -> NAttackState:
    # The numbers of steps begin at 0: the start has a stream of its own.
    mean = _START * normal(jax.random.fold_in(problem.key, self.num_steps), problem.image.shape)
    return NAttackState(mean, jnp.zeros((), jnp.int32))

  def step(self, model: LogitsFn, problem: Problem, state: NAttackState) -> tuple[NAttackState, Probe]:
    image = self.candidate(problem, state)
    logits = model(image)
    key, score = jax.random.fold_in(problem.key, state.step), score_of(model, self.loss, problem)
    here = losses.bind(self.loss, problem)(logits)

    def some(numbers: Array) -> tuple[Array, ...]:
      noise = jax.vmap(lambda number: normal(jax.random.fold_in(key, number), image.shape))(numbers)
      points = jax.vmap(lambda u: self._image(problem, state.mean + self.sigma * u))(noise)
      # From here on only differences count: a sum of squares of small numbers loses no digits.
      found = jax.vmap(score)(points, numbers) - here
      values = jnp.where(jnp.isfinite(found), found, 0.0)
      weighted = sum_of_many(values.reshape(-1, *[1] * image.ndim) * noise)
      bad = jnp.sum(~jnp.isfinite(found))
      return weighted, sum_of_many(noise), ordered_sum(values), ordered_sum(jnp.square(values)), bad

    weighted, noise, values, squares, bad = total(some, self.samples, PARALLEL)
    average = values / self.samples
    spread = jnp.sqrt(jnp.maximum(squares / self.samples - average**2, 0.0))
    slope = (weighted - average * noise) / ((spread + _TINY) * self.samples * self.sigma)
    probe = Probe(image, logits, self.cost.forward, point_query=1, nan=bad > 0)
    return NAttackState(state.mean + self.learning_rate * slope, state.step + 1), probe

  def candidate(self, problem: Problem, state: NAttackState) -> Array:
    return self._image(problem, state.mean)

  def _image(self, problem: Problem, w: Array) -> Array:
    moved = from_tanh_space(to_tanh_space(problem.image) + w)
    return norms.project(self.norm, moved, problem.image, problem.eps)


@ATTACKS.register("nattack-authors")
def nattack_authors(norm: str = "linf", queries: int = 180_601, samples: int = 300) -> NAttack:
  """NATTACK with a population of the authors' size and their loss, which is flat on success."""
  return NAttack(norm, queries, samples, 0.1, 0.02, "cw", "nattack-authors")
