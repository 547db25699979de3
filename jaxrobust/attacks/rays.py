"""RayS: a search over signs, by flipping ever smaller blocks of them.

Chen and Gu 2020 (arXiv:2006.12792). The direction is v, at first +1 everywhere, and r the smallest known distance at
which clip(x + r v) meets the goal. Level ℓ = 0, 1, … cuts the pixels, channel after channel, into 2^ℓ blocks, which
are flipped one after the other: if the flipped v meets the goal at r it is kept, and r bisected to a tolerance. At
the end of a level the next one begins; once blocks are single pixels, that level is repeated.

Norm linf; one query per step. Default (tolerance 1e-3 of the l2 length of v, as in the authors' code: 1e-3/sqrt(d) in
linf). The authors have 10,000 queries and untargeted attacks alone; they begin where the attack does, without a
starting point, as we do. Targeted, our own extension: v is (start - x) over its largest part, and each block is
raised to magnitude 1 before it is flipped, either if the goal is still met. Deviation: infinity, the authors' first
r, is 1 here, which is as far in the box.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxrobust.attacks import decision
from jaxrobust.attacks.registry import ATTACKS
from jaxrobust.core.types import Array, LogitsFn, Probe, Problem


class RaySState(NamedTuple):
  """The direction's signs, its distance, the block to flip next, and the bisection.

  Attributes:
    flipped, full: which signs differ from those of the first direction, and which magnitudes have become 1.
    radius: r; 1 until the goal was met.
    level, block: ℓ and the number of the block; level -1 is the first direction itself, of targeted attacks.
    raising: whether the block is to be raised to magnitude 1 before it is flipped, in targeted attacks.
    low, high: bounds of the bisection; high is negative outside of one.
  """

  flipped: Array
  full: Array
  radius: Array
  level: Array
  block: Array
  raising: Array
  low: Array
  high: Array


@ATTACKS.register("rays")
@dataclass(frozen=True)
class RayS(decision.DecisionAttack):
  """Search over signs, block by block.

  Example:
    >>> RayS(queries=500).num_steps
    500
  """

  norm: str = "linf"
  queries: int = 10_000
  tolerance: float = 1e-3
  name: str = "rays"

  _norms: ClassVar[tuple[str, ...]] = ("linf",)

  def init(self, problem: Problem) -> RaySState:
    assert problem.start is not None
    way = jnp.max(jnp.abs(problem.start - problem.image))
    radius = jnp.where(problem.target >= 0, way, 1.0)
    level = jnp.where(problem.target >= 0, -1, 0).astype(jnp.int32)
    zero, none = jnp.zeros(()), jnp.zeros(problem.image.size, bool)
    return RaySState(none, none, radius, level, jnp.zeros((), jnp.int32), problem.target >= 0, zero, zero - 1)

  def step(self, model: LogitsFn, problem: Problem, state: RaySState) -> tuple[RaySState, Probe]:
    assert problem.start is not None
    image, size = problem.image.ravel(), problem.image.size
    targeted = problem.target >= 0
    way = problem.start.ravel() - image
    first = jnp.where(targeted, way / jnp.maximum(jnp.max(jnp.abs(way)), 1e-12), 1.0)
    width = -(-size // 2 ** jnp.maximum(state.level, 0))
    place = jnp.asarray(channels_first(problem.image.shape))
    inside = (place // width == state.block) & (state.level >= 0)
    flipped, full = state.flipped ^ (inside & ~state.raising), state.full | inside
    size_one = jnp.where(first >= 0, 1.0, -1.0)
    direction = jnp.where(full, size_one, first) * jnp.where(flipped, -1.0, 1.0)
    bisecting = state.high >= 0
    middle = 0.5 * (state.low + state.high)
    at = jnp.where(bisecting, middle, state.radius)
    point = jnp.clip(image + at * direction, 0.0, 1.0)
    met = model(point.reshape(problem.image.shape))
    low = jnp.where(bisecting, jnp.where(met, state.low, middle), 0.0)
    high = jnp.where(met, at, jnp.where(bisecting, state.high, -1.0))
    narrow = high - low <= self.tolerance / size**0.5
    found = (high >= 0) & narrow
    moves = found | (high < 0)
    onward = moves & ~(state.raising & (state.level >= 0))
    end = ((state.block + 1) * width >= size) | (state.level < 0)
    deepest = int(np.ceil(np.log2(size)))
    state = RaySState(
      flipped=jnp.where(found, flipped, state.flipped),
      full=jnp.where(found, full, state.full),
      radius=jnp.where(found, high, state.radius),
      level=jnp.where(onward & end, jnp.minimum(state.level + 1, deepest), state.level),
      block=jnp.where(onward, jnp.where(end, 0, state.block + 1), state.block),
      raising=jnp.where(moves, targeted & onward, state.raising),
      low=jnp.where(moves, 0.0, low),
      high=jnp.where(moves, -1.0, high),
    )
    return state, Probe(point.reshape(problem.image.shape), met, queries=1)


def channels_first(shape: tuple[int, ...]) -> np.ndarray:
  """Returns the place of each of (H, W, C) flat pixels in the order (C, H, W).

  >>> channels_first((1, 2, 3)).tolist()
  [0, 2, 4, 1, 3, 5]
  """
  height, width, channels = shape
  order = np.arange(height * width * channels, dtype=np.int32).reshape(channels, height, width)
  return order.transpose(1, 2, 0).ravel()
