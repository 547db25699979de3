"""The one place that makes device meshes and shardings.

Axes are `Auto`: with JAX's newer default (`Explicit`) plain indexing inside a user's attack
would be a sharding error.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from jaxrobust.core.errors import InputError

AXIS = "data"


def make_mesh(devices: Sequence[jax.Device] | None = None) -> Mesh:
  """A one-axis mesh over `devices`, by default this process's own."""
  devices = list(devices) if devices is not None else jax.local_devices()
  return jax.make_mesh((len(devices),), (AXIS,), axis_types=(AxisType.Auto,), devices=devices)


def fitting_mesh(rows: int, devices: Sequence[jax.Device] | None = None) -> Mesh:
  """A mesh that `rows` split over evenly.

  The devices of a CPU are its cores: rather fewer of them than an error. An idle accelerator is a mistake that the
  caller hears of from `rows_per_device`.
  """
  devices = list(devices) if devices is not None else jax.local_devices()
  if devices[0].platform == "cpu" and jax.process_count() == 1:
    devices = devices[: max(math.gcd(rows, count) for count in range(1, len(devices) + 1))]
  return make_mesh(devices)


def row_sharding(mesh: Mesh) -> NamedSharding:
  """Leading dimension split over the mesh."""
  return NamedSharding(mesh, PartitionSpec(AXIS))


def place_rows(rows: Any, mesh: Mesh) -> Any:
  """Host rows on their way into a compiled program: split over the mesh, or as they are for a single device.

  Passing numpy arrays straight into a call costs a tenth of placing them first.
  """
  return rows if mesh.size == 1 else jax.device_put(rows, row_sharding(mesh))


def replicated(mesh: Mesh) -> NamedSharding:
  """A copy on every device."""
  return NamedSharding(mesh, PartitionSpec())


def rows_per_device(rows: int, mesh: Mesh) -> int:
  """How many rows each device holds; refuses an uneven split."""
  if rows % mesh.size:
    raise InputError(f"{rows} slots do not divide over {mesh.size} devices; use a multiple of {mesh.size}")
  return rows // mesh.size
