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

from jaxrobust.core.mesh import row_sharding
from jaxrobust.engine import judge as judging
from jaxrobust.engine import slots as programs

Fetch = tuple[np.ndarray, Any, np.ndarray]
"""Numbers of the rows that were asked for, an array to come, and the places of these rows in it."""

# Up to this part of the rows of a device are gathered there before they travel.
_FEW = 4


class Device:
  """Dispatches programs without waiting; `read` waits.

  Attributes:
    waited: seconds spent waiting.
  """

  def __init__(self, mesh: Mesh):
    self.mesh, self._rows = mesh, row_sharding(mesh)
    self.waited = 0.0
    # The devices of a CPU share the host's memory: there is nothing to save.
    self.gathers = mesh.devices.flat[0].platform != "cpu"

  def place(self, rows: Any) -> Any:
    """Returns host rows on their way into a program; one device takes them as they are, at a tenth of the cost."""
    return rows if self.mesh.size == 1 else self.put(rows)

  def put(self, rows: Any) -> Any:
    """Returns host rows as arrays on the devices."""
    return jax.device_put(rows, self._rows)

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

  def fetch(self, array: Any, rows: np.ndarray) -> list[Fetch]:
    """Sends for some rows of an array, of which few are gathered before they travel; `read_fetched` waits for them."""
    if isinstance(array, np.ndarray):  # Of a run that was continued.
      return [(np.arange(len(rows)), array, rows)]
    local = array.shape[0] // self.mesh.size
    few = max(local // _FEW, 1)
    parts: list[Fetch] = []
    for shard in array.addressable_shards:
      first = shard.index[0].start or 0
      which = np.flatnonzero((rows >= first) & (rows < first + local))
      places = rows[which] - first
      if self.gathers and 0 < len(which) <= few:
        parts.append((which, self.gather(shard.data, np.resize(places, few)), np.arange(len(which))))
      elif len(which):
        parts.append((which, shard.data, places))
    return parts

  def gather(self, array: Any, rows: np.ndarray) -> Any:
    return _rows(array, rows)

  def read_fetched(self, parts: Sequence[Fetch]) -> list[np.ndarray]:
    """Waits for rows and returns each as an array of its own."""
    found: dict[int, np.ndarray] = {}
    for which, data, places in parts:
      rows = self.read(data)
      found |= zip(which.tolist(), (rows[place].copy() for place in places), strict=True)
    return [found[number] for number in range(len(found))]


@jax.jit
def _rows(array: jax.Array, rows: np.ndarray) -> jax.Array:
  return jnp.take(array, rows, axis=0)
