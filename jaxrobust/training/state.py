"""The training state, and how it lies on the devices."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from flax import linen as nn
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from jaxrobust.core.mesh import AXIS, row_sharding
from jaxrobust.core.types import Array

# Smaller leaves are copied to every device: splitting them costs more than it saves.
SMALLEST_SPLIT = 2**12
# What checkpoints call the objective's state.
_STORED = "memory"


class TrainState(NamedTuple):
  """Weights, statistics, optimizer; `average` and `objective_state` are () unless a technique keeps one."""

  params: Any
  batch_stats: Any
  opt_state: Any
  average: Any
  step: Array
  objective_state: Any = ()


def init_state(
  module: nn.Module,
  optimizer: optax.GradientTransformation,
  key: Array,
  image_shape: tuple[int, ...],
  averaged: bool,
  variables: Any | None = None,
  objective_state: Any = (),
) -> TrainState:
  """Returns fresh weights, or those given, and a fresh optimizer."""
  if variables is None:
    variables = module.init({"params": key, "noise": key}, jnp.zeros((1, *image_shape)))
  params, stats = variables["params"], variables.get("batch_stats", {})
  # A copy: the average and the weights are donated separately.
  average = jax.tree.map(jnp.copy, (params, stats)) if averaged else ()
  return TrainState(params, stats, optimizer.init(params), average, jnp.zeros((), jnp.int32), objective_state)


def stored(state: TrainState) -> dict[str, Any]:
  """Returns the state as checkpoints hold it; an objective's state is there only where one is kept."""
  parts = state._asdict()
  kept = parts.pop("objective_state")
  return {**parts, _STORED: kept} if jax.tree.leaves(kept) else parts


def restored(parts: dict[str, Any]) -> TrainState:
  """Returns the state of which these are the stored parts."""
  return TrainState(**{"objective_state" if name == _STORED else name: part for name, part in parts.items()})


def variables_of(state: TrainState) -> dict[str, Any]:
  """Returns the flax variables to evaluate: the average where there is one."""
  params, stats = state.average if state.average else (state.params, state.batch_stats)
  return as_variables(params, stats)


def as_variables(params: Any, batch_stats: Any) -> dict[str, Any]:
  """Returns flax variables; the collection of statistics is left out where there are none."""
  return {"params": params} | ({"batch_stats": batch_stats} if batch_stats else {})


def state_shardings(state: Any, mesh: Mesh, kind: str) -> Any:
  """Returns a sharding for each leaf: copied everywhere ("data"), or large leaves split over the devices ("fsdp").

  What an objective remembers of a batch's rows is split as the batch is.
  """

  def place(leaf: Any) -> NamedSharding:
    shape = jnp.shape(leaf)
    size = 1
    for extent in shape:
      size *= extent
    if kind == "data" or size < SMALLEST_SPLIT:
      return NamedSharding(mesh, PartitionSpec())
    divisible = [axis for axis, extent in enumerate(shape) if extent % mesh.size == 0]
    if not divisible:
      return NamedSharding(mesh, PartitionSpec())
    axis = max(divisible, key=lambda axis: shape[axis])
    return NamedSharding(mesh, PartitionSpec(*[AXIS if i == axis else None for i in range(len(shape))]))

  def place_rows(leaf: Any) -> NamedSharding:
    rows = jnp.ndim(leaf) > 1 and jnp.shape(leaf)[0] % mesh.size == 0
    return row_sharding(mesh) if rows else NamedSharding(mesh, PartitionSpec())

  if not isinstance(state, TrainState):
    return jax.tree.map(place, state)
  placed = jax.tree.map(place, state._replace(objective_state=()))
  return placed._replace(objective_state=jax.tree.map(place_rows, state.objective_state))
