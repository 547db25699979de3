"""The one place that makes device meshes and shardings.

Axes are `Auto`: with JAX's newer default (`Explicit`) plain indexing inside a user's attack
would be a sharding error.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from jaxrobust.core.errors import InputError

AXIS = "data"


def make_mesh(devices: Sequence[jax.Device] | None = None) -> Mesh:
  """Makes a one-axis mesh over `devices`, by default this process's own."""
  devices = list(devices) if devices is not None else jax.local_devices()
  return jax.make_mesh((len(devices),), (AXIS,), axis_types=(AxisType.Auto,), devices=devices)


def fitting_mesh(rows: int, devices: Sequence[jax.Device] | None = None) -> Mesh:
  """Returns a mesh that `rows` split over evenly.

  The devices of a CPU are its cores: rather fewer of them than an error. An idle accelerator is a mistake that the
  caller hears of from `rows_per_device`.
  """
  devices = list(devices) if devices is not None else jax.local_devices()
  if devices[0].platform == "cpu" and jax.process_count() == 1:
    devices = devices[: max(math.gcd(rows, count) for count in range(1, len(devices) + 1))]
  return make_mesh(devices)


def row_sharding(mesh: Mesh) -> NamedSharding:
  """Splits the leading dimension over the mesh."""
  return NamedSharding(mesh, PartitionSpec(AXIS))


def place_rows(rows: Any, mesh: Mesh) -> Any:
  """Sends host rows on their way into a compiled program: split over the mesh, or as they are for a single device.

  Passing numpy arrays straight into a call costs a tenth of placing them first.
  """
  return rows if mesh.size == 1 else jax.device_put(rows, row_sharding(mesh))


def replicated(mesh: Mesh) -> NamedSharding:
  """Returns the sharding that copies to every device."""
  return NamedSharding(mesh, PartitionSpec())


def rows_per_device(rows: int, mesh: Mesh) -> int:
  """Returns how many rows each device holds; raises InputError for an uneven split."""
  if rows % mesh.size:
    raise InputError(f"{rows} slots do not divide over {mesh.size} devices; use a multiple of {mesh.size}")
  return rows // mesh.size


def map_rows(
  program: Callable[..., Any], rows: int, columns: tuple[np.ndarray, ...], *shared: Any, limit: int | None = None
) -> np.ndarray:
  """Applies a function of rows to all rows of some arrays, on all devices of this process.

  A device always gets `rows` rows at once, padded with others: programs of other sizes round differently in the last
  bit, and what becomes of a row must not depend on how many there are, nor on the number of devices.

  Args:
    program: (a batch of each column, *shared) -> a batch of results; pure, and the same object for the same program.
    shared: what all rows see: pytrees of arrays or numbers.
    limit: the number of devices to use at the most.

  Example:
    >>> map_rows(_doubled, 2, (np.arange(5.0),)).tolist()
    [0.0, 2.0, 4.0, 6.0, 8.0]
  """
  count = len(columns[0])
  devices = jax.local_devices()[: limit if count > rows else 1]
  mesh, step = make_mesh(devices), rows * len(devices)
  run = _mapped(program, len(columns), len(shared), mesh)
  if len(devices) > 1:  # Weights that were loaded onto one device are wanted on all.
    copied = lambda leaf: jax.device_put(leaf, replicated(mesh)) if isinstance(leaf, jax.Array) else leaf
    shared = jax.tree.map(copied, shared)
  parts = []
  for start in range(0, count, step):
    padded = np.resize(np.arange(start, min(start + step, count)), step)
    parts.append(run(*place_rows(tuple(column[padded] for column in columns), mesh), *shared))
  return np.concatenate([np.asarray(part) for part in parts])[:count]


@functools.cache
def _mapped(program: Callable[..., Any], columns: int, shared: int, mesh: Mesh) -> Callable[..., Any]:
  specs = (PartitionSpec(AXIS),) * columns + (PartitionSpec(),) * shared
  return jax.jit(jax.shard_map(program, mesh=mesh, in_specs=specs, out_specs=PartitionSpec(AXIS), check_vma=False))


def _doubled(x: jax.Array) -> jax.Array:
  return 2 * x
