"""SignHunter: a vector of signs, flipped block by block, from the whole image down to single entries.

  x'  = P(x + ε s),   s in {-1, +1}^d (linf), s/√d (l2); P the projection onto ball and box
  level h = 0, 1, …, ⌈log₂ d⌉:  flip the signs of each block of ⌈d/2^h⌉ entries in turn; keep a flip unless the loss
  falls

Norms linf and l2; untargeted and targeted. A step is one query; the first is at s = +1.
Source: Al-Dujaili and O'Reilly 2020 (arXiv:1902.06894) and their code, which runs through the channels one after the
other. There are no other parameters. Loss: the margin (authors: cross-entropy; with it the order of points is the same
only for two classes), 20,000 queries as the other query attacks (authors: 10,000).
Deviations: after the last level the signs are gone through again from the first on; the authors move the center to the
point that was reached and start over from s = +1, which forgets it. The score of the clean image, which only scales the
authors' differences, is not asked for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp

from jaxrobust.attacks import losses, norms
from jaxrobust.attacks.query_attack import QueryAttack
from jaxrobust.attacks.registry import ATTACKS
from jaxrobust.core.types import Array, LogitsFn, Probe, Problem


class SignHunterState(NamedTuple):
  """State of the search.

  Attributes:
    positive: the signs that have been reached, true for +1.
    loss: the score there.
    level, block: which block is flipped next; level -1 for none, at first.
  """

  positive: Array
  loss: Array
  level: Array
  block: Array


@ATTACKS.register("signhunter")
@dataclass(frozen=True)
class SignHunter(QueryAttack):
  """Divide and conquer over the signs of the gradient.

  Example:
    >>> SignHunter(queries=500).num_steps
    500
  """

  norm: str = "linf"
  queries: int = 20_000
  loss: str = "margin"
  name: str = "signhunter"

  def init(self, problem: Problem) -> SignHunterState:
    level = jnp.full((), -1, jnp.int32)
    positive = jnp.ones(problem.image.shape, bool)
    return SignHunterState(positive, jnp.full((), -jnp.inf, jnp.float32), level, jnp.zeros((), jnp.int32))

  def step(self, model: LogitsFn, problem: Problem, state: SignHunterState) -> tuple[SignHunterState, Probe]:
    positive = state.positive ^ in_block(problem.image.shape, state.level, state.block)
    image = self._image(problem, positive)
    logits = model(image)
    loss = losses.bind(self.loss, problem)(logits)
    keep = loss >= state.loss
    level, block = following(problem.image.size, state.level, state.block)
    after = SignHunterState(jnp.where(keep, positive, state.positive), jnp.where(keep, loss, state.loss), level, block)
    return after, Probe(image, logits, queries=1)

  def _image(self, problem: Problem, positive: Array) -> Array:
    size = problem.eps if self.norm == "linf" else problem.eps / math.sqrt(positive.size)
    moved = problem.image + jnp.where(positive, size, -size)
    return norms.project(self.norm, moved, problem.image, problem.eps)


def _block_size(size: int, level: Array) -> Array:
  """Returns ⌈size / 2^level⌉, from a table: floats would round."""
  sizes = jnp.array([-(-size // 2**number) for number in range(_levels(size))], jnp.int32)
  return sizes[jnp.maximum(level, 0)]


def _levels(size: int) -> int:
  return (size - 1).bit_length() + 1


def in_block(shape: tuple[int, ...], level: Array, block: Array) -> Array:
  """Returns which entries of an image are in a block; none at level -1. Channels come one after the other."""
  height, width, channels = shape
  place = jnp.arange(channels) * height * width + jnp.arange(height * width).reshape(height, width, 1)
  length = _block_size(math.prod(shape), level)
  return (place // length == block) & (level >= 0)


def following(size: int, level: Array, block: Array) -> tuple[Array, Array]:
  """Returns the level and block that come next; after the last the first again.

  >>> level, block, found = jnp.int32(-1), jnp.int32(0), []
  >>> for _ in range(9):
  ...   level, block = following(3, level, block)
  ...   found.append((int(level), int(block)))
  >>> found
  [(0, 0), (1, 0), (1, 1), (2, 0), (2, 1), (2, 2), (0, 0), (1, 0), (1, 1)]
  """
  over = (level < 0) | ((block + 1) * _block_size(size, level) >= size)
  return jnp.where(over, (level + 1) % _levels(size), level), jnp.where(over, 0, block + 1)
