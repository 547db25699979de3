"""Agreement among the processes of one run: on what they train, how well it does, and when they stop.

Each is started by a command of its own. One with another seed, other data or an older checkpoint would not fail: all
would train on together, toward a network that nobody asked for. And all must leave the loop at the same step.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from jaxrobust.core.errors import InputError
from jaxrobust.core.mesh import replicated, row_sharding


def _spread(numbers: np.ndarray, mesh: Mesh) -> jax.Array:
  """Returns the numbers of all processes, one row for each device of the mesh."""
  rows = np.repeat(numbers[None], len(mesh.local_devices), 0)
  return jax.make_array_from_process_local_data(row_sharding(mesh), rows, (mesh.size, *numbers.shape))


def gather(numbers: np.ndarray, mesh: Mesh) -> np.ndarray:
  """Returns the numbers of all processes, one row for each device; nobody returns before everybody came."""
  whole = jax.jit(lambda array: array, out_shardings=replicated(mesh))(_spread(numbers, mesh))
  return np.asarray(whole.addressable_data(0))


def add_up(numbers: np.ndarray, mesh: Mesh) -> np.ndarray:
  """Returns the sum of the numbers of all processes; nobody returns before everybody came."""
  if jax.process_count() == 1:
    return numbers
  owners = [device.process_index for device in mesh.devices.flat]
  first = [owners.index(process) for process in sorted(set(owners))]
  return gather(numbers, mesh)[first].sum(axis=0)


def check_alike(parts: Mapping[str, Any], mesh: Mesh) -> None:
  """Raises InputError, in all processes at once, for parts (JSON by name) that are not equal everywhere."""
  if jax.process_count() == 1:
    return
  mine = np.array([_digest(name, value) for name, value in sorted(parts.items())], np.int32)
  differing = find_differences(sorted(parts), gather(mine, mesh))
  if differing:
    raise InputError(f"the processes of this run differ in {', '.join(differing)}: start all with the same command")


def find_differences(names: list[str], digests: np.ndarray) -> list[str]:
  """Returns the names whose digests, (process, name, …), are not the same in every process.

  >>> find_differences(["seed", "step"], np.array([[[1], [2]], [[1], [3]]]))
  ['step']
  """
  same = np.all(digests == digests[:1], axis=(0, *range(2, digests.ndim)))
  return [name for name, equal in zip(names, same, strict=True) if not equal]


def _digest(name: str, value: Any) -> list[int]:
  """Hashes in pieces of 16 bits: JAX cuts wider integers off."""
  text = json.dumps([name, value], sort_keys=True)
  return np.frombuffer(hashlib.sha256(text.encode()).digest()[:8], "<u2").astype(np.int32).tolist()


class Vote:
  """Tells whether any process has been asked to stop, known to all of them one step later: nobody waits for the sum."""

  def __init__(self, mesh: Mesh):
    self._mesh = mesh
    self._pending: Any = None
    self._sum = jax.jit(jnp.sum, out_shardings=replicated(mesh))

  def __call__(self, asked: bool) -> bool:
    """Casts this process's vote and returns the result of the vote before."""
    if jax.process_count() == 1:
      return asked
    before, self._pending = self._pending, self._sum(_spread(np.array(asked, np.int32), self._mesh))
    return before is not None and bool(before)
