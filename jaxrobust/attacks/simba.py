"""SimBA: one vector of an orthonormal basis after another, kept in whichever direction the score rises.

  x'  = P(x_t - s q_i);  where the loss has not risen there, P(x_t + s q_i);  where neither has, x_t stays
  q_i   basis vectors in a random order, each once before any comes again; P the projection onto ball and box

Norms l2 and linf; untargeted and targeted. A step is one query: 1 or 2 for each basis vector, and one at the clean
image, which the search needs as its first score.
Source: Guo et al. 2019 (arXiv:1905.07121) and their code. Loss: the log-probability of the true class or the target,
which orders points as the probability does. s = 0.2 whatever ε is; 20,000 queries as the other query attacks (authors:
every basis vector once). Without a bound, |x_t - x|₂ <= s √t.
  simba      the standard basis: one channel of one pixel.
  simba-dct  cosines over the whole image, of which only those of at most `frequencies` half waves down and across; all
             by default, as in the authors' code for CIFAR-10; 28 of 224 for ImageNet, whose authors then add more in
             strides.
Deviations: points are projected onto the ball around the image, so that the attack has a budget; the authors stop at
any distance, which a large budget gives. The authors' form for batches shares one order between its images; here each
has its own. ART asks for both directions every time and takes the better one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxrobust.attacks import losses, norms
from jaxrobust.attacks.coordinates import shuffled
from jaxrobust.attacks.query_attack import QueryAttack
from jaxrobust.attacks.registry import ATTACKS
from jaxrobust.core.registry import unknown_name
from jaxrobust.core.types import Array, LogitsFn, Probe, Problem

BASES = ("pixel", "dct")


class SimBAState(NamedTuple):
  """State of the search.

  Attributes:
    best: the point that has been reached. loss: its score.
    number: basis vectors that are done with.
    forward: the next point lies in the second direction, +q.
    begun: the clean image has been looked at.
  """

  best: Array
  loss: Array
  number: Array
  forward: Array
  begun: Array


@ATTACKS.register("simba")
@dataclass(frozen=True)
class SimBA(QueryAttack):
  """Random search along the vectors of a basis.

  Example:
    >>> SimBA().cost, SimBA().num_steps
    (Cost(forward=1, backward=0, parallel=1), 20000)
  """

  norm: str = "l2"
  queries: int = 20_000
  length: float = 0.2
  basis: str = "pixel"
  frequencies: int | None = None
  loss: str = "ce"
  name: str = "simba"

  def __post_init__(self) -> None:
    super().__post_init__()
    if self.basis not in BASES:
      raise unknown_name("basis", self.basis, list(BASES))

  def init(self, problem: Problem) -> SimBAState:
    no = jnp.zeros((), bool)
    return SimBAState(problem.image, jnp.full((), -jnp.inf, jnp.float32), jnp.zeros((), jnp.int32), no, no)

  def step(self, model: LogitsFn, problem: Problem, state: SimBAState) -> tuple[SimBAState, Probe]:
    image = self._point(problem, state)
    logits = model(image)
    loss = losses.bind(self.loss, problem)(logits)
    rose = loss > state.loss
    over = state.begun & (rose | state.forward)
    after = SimBAState(
      best=jnp.where(rose, image, state.best),
      loss=jnp.where(rose, loss, state.loss),
      number=state.number + over,
      forward=state.begun & ~over,
      begun=jnp.ones((), bool),
    )
    return after, Probe(image, logits, queries=1)

  def _point(self, problem: Problem, state: SimBAState) -> Array:
    """Returns the point to look at: the clean image first."""
    side = jnp.where(state.forward, self.length, -self.length) * state.begun
    moved = state.best + side * self._vector(problem, state.number)
    return norms.project(self.norm, moved, problem.image, problem.eps)

  def _vector(self, problem: Problem, number: Array) -> Array:
    """Returns the basis vector of a number; once all have been, they come again in another order."""
    height, width, channels = problem.image.shape
    most = max(height, width) if self.basis == "pixel" else self.frequencies or max(height, width)
    rows, columns = min(height, most), min(width, most)
    size = rows * columns * channels
    place = shuffled(jax.random.fold_in(problem.key, number // size), number % size, size)
    row, column, channel = place // (columns * channels), place // channels % columns, place % channels
    if self.basis == "pixel":
      down, across = jnp.arange(height) == row, jnp.arange(width) == column
    else:
      down, across = cosine(row, height), cosine(column, width)
    here = jnp.arange(channels) == channel
    return down[:, None, None] * across[None, :, None] * here * jnp.ones((), jnp.float32)


def cosine(frequency: Array, size: int) -> Array:
  """Returns a vector of the orthonormal cosine basis (DCT-II) of `size` points.

  >>> basis = jax.vmap(lambda k: cosine(k, 4))(jnp.arange(4))
  >>> bool(jnp.allclose(basis @ basis.T, jnp.eye(4), atol=1e-6))
  True
  """
  wave = jnp.cos(jnp.pi / size * (jnp.arange(size) + 0.5) * frequency)
  return wave * jnp.where(frequency == 0, jnp.sqrt(1.0 / size), jnp.sqrt(2.0 / size))


@ATTACKS.register("simba-dct")
def simba_dct(norm: str = "l2", queries: int = 20_000, length: float = 0.2, frequencies: int | None = None) -> SimBA:
  """SimBA along cosines, low ones alone if `frequencies` says so."""
  return SimBA(norm, queries, length, "dct", frequencies, "ce", "simba-dct")
