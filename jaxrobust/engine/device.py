"""The engine's hands: everything that is sent to the devices, and the one place that waits for them.

Tests put a recording stand-in here, which sees every dispatch and every read.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from jaxrobust.core.mesh import place_rows, row_sharding
from jaxrobust.engine import judge as judging
from jaxrobust.engine import slots as programs

# Up to this part of the rows of a device are gathered there before they travel.
_FEW = 4


class Device:
  """Dispatches programs without waiting; `read` waits.

  Attributes:
    waited: seconds spent waiting.
  """

  def __init__(self, mesh: Mesh):
    self.mesh = mesh
    self.waited = 0.0

  def place(self, rows: Any) -> Any:
    """Returns host rows on their way into a program."""
    return place_rows(rows, self.mesh)

  def put(self, rows: Any) -> Any:
    """Returns host rows as arrays on the devices."""
    return jax.device_put(rows, row_sharding(self.mesh))

  def advance(self, *arguments: Any) -> Any:
    return programs.advance(*arguments)

  def peek(self, *arguments: Any) -> Any:
    return programs.peek(*arguments)

  def exchange(self, *arguments: Any) -> Any:
    return programs.exchange(*arguments)

  def compact(self, *arguments: Any) -> Any:
    return programs.compact(*arguments)

  def load(self, *rows: Any) -> Any:
    return judging.load(*rows)

  def judge(self, *arguments: Any, **options: Any) -> Any:
    return judging.judge(*arguments, **options, mesh=self.mesh)

  def read(self, array: Any) -> np.ndarray:
    """Waits for an array and returns it."""
    start = time.perf_counter()
    result = np.asarray(array)
    self.waited += time.perf_counter() - start
    return result

  def read_rows(self, array: Any, rows: Sequence[int]) -> list[np.ndarray]:
    """Waits for some rows of an array; only they travel."""
    if isinstance(array, np.ndarray):
      return [array[row] for row in rows]
    local = array.shape[0] // self.mesh.size
    few = max(local // _FEW, 1)
    found: dict[int, np.ndarray] = {}
    for shard in array.addressable_shards:
      first = shard.index[0].start or 0
      mine = [row for row in rows if first <= row < first + local]
      places = [row - first for row in mine]
      if 0 < len(mine) <= few and shard.device.platform != "cpu":  # A CPU's devices share the host's memory.
        found |= zip(mine, self.read(_rows(shard.data, np.resize(places, few))), strict=False)
      elif mine:
        found |= zip(mine, self.read(shard.data)[places], strict=True)
    return [found[row] for row in rows]


@jax.jit
def _rows(array: jax.Array, rows: np.ndarray) -> jax.Array:
  return jnp.take(array, rows, axis=0)
