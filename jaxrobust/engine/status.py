"""What crosses between host and devices at an exchange of slots, each in one array.

Handing an array to several devices, or reading one back, costs a fixed time whatever its size: a dozen small ones take
as long as a step of a small network. So all numbers of an item travel in one row. Keys cross as plain words for the
same reason: JAX calls a compiled program that returns typed keys through its slow path.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrobust.core.types import Array

# What becomes of a slot at an exchange: given a new item, sent on with the one it has or, without either, emptied.
NEW, RESUME = 1, 2

# Where an item that has nothing left to try would stop: it is not sent on after a pause.
NEVER = int(np.iinfo(np.int32).max)
# Slots count queries in 32 bits.
MOST_QUERIES = int(np.iinfo(np.int32).max)

# The numbers of a row of an exchange. `row` is the slot and `outbox` the place for the candidate that leaves it, both
# counted on their own device; beyond the end means none.
ENTRY = np.dtype(
  [
    ("row", np.int32),
    ("outbox", np.int32),
    ("mode", np.int32),
    ("stop", np.int32),
    ("label", np.int32),
    ("target", np.int32),
    ("eps", np.float32),
    ("key", np.uint32, (2,)),
    ("verify_key", np.uint32, (2,)),
  ]
)


class Entry(NamedTuple):
  """`ENTRY` on the device; one row each."""

  row: Array
  outbox: Array
  mode: Array
  stop: Array
  label: Array
  target: Array
  eps: Array
  key: Array
  verify_key: Array


class SlotStatus(NamedTuple):
  """The item in a slot as the engine knows it: small numbers that the host reads.

  Attributes:
    active: the slot still works on its item.
    found: a success has been seen.
    step: steps taken. stop: the number of steps at which the slot falls idle.
    queries: model evaluations made.
    distance: of the closest success, infinity without one.
    nan: points without success at which logits or gradient were not finite.
    flat: points without success at which the gradient was exactly zero.
    reached_step, reached_query: for each budget of a list, steps and queries when a success within it was first seen;
      -1 for never.
  """

  active: Array
  found: Array
  step: Array
  stop: Array
  queries: Array
  distance: Array
  nan: Array
  flat: Array
  reached_step: Array
  reached_query: Array


def new_status(active: Array, stop: Array, budgets: int) -> SlotStatus:
  """Returns the status of an item that has just been put into a slot."""
  zero, no = jnp.zeros((), jnp.int32), jnp.zeros((), bool)
  never = jnp.full(budgets, -1, jnp.int32)
  return SlotStatus(active, no, zero, stop, zero, jnp.full((), jnp.inf, jnp.float32), zero, zero, never, never)


def pack_entries(entries: np.ndarray) -> np.ndarray:
  """Returns rows of `ENTRY` as rows of words."""
  return np.ascontiguousarray(entries).view(np.int32).reshape(len(entries), -1)


def unpack_entries(words: Array) -> Entry:
  """Undoes `pack_entries`, on the device.

  >>> entry = unpack_entries(jnp.asarray(pack_entries(np.array([(3, 0, 1, 9, 7, -1, 0.5, (1, 2), (3, 4))], ENTRY))))
  >>> entry.row.tolist(), entry.label.tolist(), entry.eps.tolist(), entry.verify_key.tolist()
  ([3], [7], [0.5], [[3, 4]])
  """
  row, outbox, mode, stop, label, target, eps = words[:, :7].T
  eps = jax.lax.bitcast_convert_type(eps, jnp.float32)
  key, verify_key = (jax.lax.bitcast_convert_type(words[:, at : at + 2], jnp.uint32) for at in (7, 9))
  return Entry(row, outbox, mode, stop, label, target, eps, key, verify_key)


def pack_status(status: SlotStatus) -> Array:
  """Returns all numbers of some slots as one array of words."""
  words = [
    jax.lax.bitcast_convert_type(part, jnp.int32) if part.dtype == jnp.float32 else part.astype(jnp.int32)
    for part in status
  ]
  return jnp.concatenate([part if part.ndim == 2 else part[:, None] for part in words], axis=1)


def unpack_status(words: np.ndarray) -> SlotStatus:
  """Undoes `pack_status`, on the host."""
  singles = len(SlotStatus._fields) - 2
  budgets = (words.shape[1] - singles) // 2
  parts: list[Any] = list(words[:, :singles].T)
  at = SlotStatus._fields.index("distance")
  parts[at] = np.ascontiguousarray(parts[at]).view(np.float32)
  return SlotStatus._make([*parts, words[:, singles : singles + budgets], words[:, singles + budgets :]])


def plain_keys(tree: Any) -> Any:
  """Returns typed keys as their words."""
  return jax.tree.map(lambda leaf: jax.random.key_data(leaf) if _is_key(leaf) else leaf, tree)


def typed_keys(types: Any, tree: Any) -> Any:
  """Returns words as keys again, wherever `types`, a tree of the same form, has one."""
  return jax.tree.map(lambda kind, leaf: jax.random.wrap_key_data(leaf) if _is_key(kind) else leaf, types, tree)


def _is_key(leaf: Any) -> bool:
  return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
