"""Being asked to stop: SIGTERM (and SIGUSR1, which schedulers send ahead of it) ends a run after the current step.

With several processes all must leave the loop at the same step. Each adds its own wish to a sum over the whole mesh;
everybody reads the sum of the previous step, so nobody waits for it.
"""

from __future__ import annotations

import signal
import threading
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from jaxrobust.core.mesh import replicated, row_sharding


class StopRequest:
  """Context in which SIGTERM and SIGUSR1 set a flag instead of ending the process."""

  def __init__(self) -> None:
    self.asked = False
    self._old: dict[int, Any] = {}

  def __enter__(self) -> StopRequest:
    if threading.current_thread() is threading.main_thread():
      for number in (signal.SIGTERM, signal.SIGUSR1):
        self._old[number] = signal.signal(number, self._ask)
    return self

  def __exit__(self, *_: object) -> None:
    for number, handler in self._old.items():
      signal.signal(number, handler)

  def _ask(self, *_: object) -> None:
    self.asked = True


class Vote:
  """Whether any process has been asked to stop, known to all of them one step later."""

  def __init__(self, mesh: Mesh):
    self._mesh = mesh
    self._pending: Any = None
    self._sum = jax.jit(jnp.sum, out_shardings=replicated(mesh))

  def __call__(self, asked: bool) -> bool:
    """Casts this process's vote and returns the result of the vote before."""
    if jax.process_count() == 1:
      return asked
    local = np.full(len(self._mesh.local_devices), asked, np.int32)
    ballots = jax.make_array_from_process_local_data(row_sharding(self._mesh), local, (self._mesh.size,))
    before, self._pending = self._pending, self._sum(ballots)
    return before is not None and bool(before)
