"""Being asked to stop among several processes: all must leave the loop at the same step.

Each adds its own wish to a sum over the whole mesh;
everybody reads the sum of the previous step, so nobody waits for it.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from jaxrobust.core.mesh import replicated, row_sharding


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
