"""Random keys that belong to an example, not to a batch, a device or a clock.

The key of a work item is a function of (seed, example id, stage, restart) alone, so the
noise example i gets is the same for any batch size, shard count, order or resume point.

Example:
  >>> a, b = item_keys(0, [7, 8], [0, 0], [0, 0]), item_keys(0, [8], [0], [0])
  >>> bool((jax.random.key_data(a[1]) == jax.random.key_data(b[0])).all())
  True
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

# Stages below this number belong to attacks; these mark the model's own randomness.
CLEAN_STAGE = 1 << 20
VERIFY_STAGE = CLEAN_STAGE + 1


def item_key(seed: jax.Array, example: jax.Array, stage: jax.Array, restart: jax.Array) -> jax.Array:
  """The key of one work item."""
  key = jax.random.key(seed)
  for part in (example, stage, restart):
    key = jax.random.fold_in(key, part)
  return key


@partial(jax.jit, static_argnames=())
def _item_keys(seed: jax.Array, parts: jax.Array) -> jax.Array:
  return jax.vmap(lambda part: item_key(seed, part[0], part[1], part[2]))(parts)


def item_keys(
  seed: int, examples: Sequence[int] | np.ndarray, stages: Sequence[int], restarts: Sequence[int]
) -> jax.Array:
  """The keys of several work items, one row each."""
  parts = jnp.asarray(np.stack([examples, stages, restarts], axis=-1).astype(np.int32))
  return _item_keys(jnp.asarray(seed, jnp.uint32), parts)
