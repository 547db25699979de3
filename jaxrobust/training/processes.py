"""What the processes of one run must agree on before the first step.

Each is started by a command of its own. One with another seed, other data or an older checkpoint would not fail: all
would train on together, towards a network that nobody asked for.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from jaxrobust.core.errors import InputError
from jaxrobust.core.mesh import replicated, row_sharding


def gather(numbers: np.ndarray, mesh: Mesh) -> np.ndarray:
  """The numbers of all processes, one row for each device of the mesh; nobody returns before everybody came."""
  rows = np.repeat(numbers[None], len(mesh.local_devices), 0)
  shape = (mesh.size, *numbers.shape)
  spread = jax.make_array_from_process_local_data(row_sharding(mesh), rows, shape)
  whole = jax.jit(lambda array: array, out_shardings=replicated(mesh))(spread)
  return np.asarray(whole.addressable_data(0))


def check_alike(parts: Mapping[str, Any], mesh: Mesh) -> None:
  """Refuses, in all processes at once, parts (plain JSON by name) that are not equal everywhere."""
  if jax.process_count() == 1:
    return
  mine = np.array([_digest(name, value) for name, value in sorted(parts.items())], np.int32)
  differing = find_differences(sorted(parts), gather(mine, mesh))
  if differing:
    raise InputError(f"the processes of this run differ in {', '.join(differing)}: start all with the same command")


def find_differences(names: list[str], digests: np.ndarray) -> list[str]:
  """The names whose digests, (process, name, …), are not the same in every process.

  >>> find_differences(["seed", "step"], np.array([[[1], [2]], [[1], [3]]]))
  ['step']
  """
  same = np.all(digests == digests[:1], axis=(0, *range(2, digests.ndim)))
  return [name for name, equal in zip(names, same, strict=True) if not equal]


def _digest(name: str, value: Any) -> list[int]:
  """In pieces of 16 bits: JAX cuts wider whole numbers off."""
  text = json.dumps([name, value], sort_keys=True)
  return np.frombuffer(hashlib.sha256(text.encode()).digest()[:8], "<u2").astype(np.int32).tolist()
