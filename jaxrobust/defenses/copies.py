"""Several draws of a randomized defense, one after the other: memory does not grow with their number."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

from jaxrobust.core.types import Array

Draw = Callable[[Array, Array], Array]
"""(key of the defense, key of what it asks) -> an answer."""


def over_copies(answer: Draw, key: Array, copies: int) -> Array:
  """Returns the answers of `copies` draws, stacked; the gradient computes each draw again instead of keeping it."""
  keys = jax.random.split(key, (copies, 2))
  return jax.lax.map(jax.checkpoint(lambda pair: answer(pair[0], pair[1])), keys)


def mean_over_copies(answer: Draw, key: Array, copies: int) -> Array:
  """Returns the mean of the answers of `copies` draws."""
  return jnp.mean(over_copies(answer, key, copies), axis=0)
