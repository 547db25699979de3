"""Batch statistics of weights that were never trained with any: those of an average (arXiv:1803.05407, section 3.2).

A layer makes `keep · old + (1 - keep) · measured` of the statistics it is given, with a `keep` of its own. Asked
twice about one batch, with statistics of all zeros and of all ones, it gives both away; the means over many batches
are then exact, whatever the architecture.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from jaxrobust.core.classifier import Classifier
from jaxrobust.training.state import TrainState, as_variables
from jaxrobust.training.step import Recipe, statistics_after


@functools.partial(jax.jit, static_argnums=0)
def _of_a_batch(recipe: Recipe, state: TrainState, rows: Any, others: Mapping[str, Classifier]) -> Any:
  starts = [jax.tree.map(fill, state.batch_stats) for fill in (jnp.zeros_like, jnp.ones_like)]
  zeros, ones = statistics_after(recipe, state, starts, others, *rows)
  return jax.tree.map(lambda zero, one: zero / (1 - (one - zero)), zeros, ones)


def measured(
  recipe: Recipe, state: TrainState, others: Mapping[str, Classifier], batches: Iterable[Any]
) -> dict[str, Any]:
  """The averaged weights with the mean statistics of the batches, augmented and attacked as in training."""
  params, stats = state.average
  averaged = state._replace(params=params, batch_stats=stats, opt_state=(), average=())
  total, count = jax.tree.map(jnp.zeros_like, stats), 0
  for rows in batches:
    total = jax.tree.map(jnp.add, total, _of_a_batch(recipe, averaged, tuple(rows), others))
    count += 1
  return as_variables(params, jax.tree.map(lambda leaf: leaf / count, total))
