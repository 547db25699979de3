"""What crosses between host and devices at an exchange of slots: two arrays in, two arrays out.

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

# The numbers of an item on its way in; `row` is the slot, counted on its own device.
ENTRY = np.dtype(
  [
    ("row", np.int32),
    ("label", np.int32),
    ("target", np.int32),
    ("eps", np.float32),
    ("key_data", np.uint32, (2,)),
    ("filled", np.int32),
  ]
)


class Arrival(NamedTuple):
  """An item on its way into a slot; one row each.

  Attributes:
    image, label, target, eps: of the problem.
    key_data: the words of its key.
    filled: whether there is an item at all.
  """

  image: Array
  label: Array
  target: Array
  eps: Array
  key_data: Array
  filled: Array


class Books(NamedTuple):
  """What the engine knows of an item: small numbers that the host reads.

  Attributes:
    active: the slot still works on its item.
    found: a success is stored in `best`.
    step: steps taken.
    found_step: steps taken when the stored success was found.
    distance: the norm of the stored success, infinity without one.
    nan: points at which logits or gradient were not finite.
    flat: points at which the gradient was exactly zero.
    margin: of the stored success, where `verified`.
    verified: the stored success was judged by the classifier itself, outside the attack.
    logits: of the stored success, where `verified`.
  """

  active: Array
  found: Array
  step: Array
  found_step: Array
  distance: Array
  nan: Array
  flat: Array
  margin: Array
  verified: Array
  logits: Array


def pack_entries(entries: np.ndarray) -> np.ndarray:
  """Rows of `ENTRY` as rows of words."""
  return np.ascontiguousarray(entries).view(np.int32).reshape(len(entries), -1)


def unpack_entries(images: Array, words: Array) -> tuple[Array, Arrival]:
  """On the device: the slots' rows and the items for them.

  >>> entry = np.array([(3, 7, -1, 0.5, (1, 2), 1)], ENTRY)
  >>> rows, arrival = unpack_entries(jnp.zeros((1, 4)), jnp.asarray(pack_entries(entry)))
  >>> rows.tolist(), arrival.label.tolist(), arrival.target.tolist(), arrival.eps.tolist(), arrival.key_data.tolist()
  ([3], [7], [-1], [0.5], [[1, 2]])
  """
  row, label, target, eps, *_ = words.T
  key_data = jax.lax.bitcast_convert_type(words[:, 4:6], jnp.uint32)
  eps = jax.lax.bitcast_convert_type(eps, jnp.float32)
  return row, Arrival(images, label, target, eps, key_data, words[:, 6] != 0)


def pack_books(books: Books) -> Array:
  """All books in one array of float32, which holds counts of steps exactly up to 16 million."""
  numbers = jnp.stack([jnp.asarray(part, jnp.float32) for part in books[:-1]], axis=-1)
  return jnp.concatenate([numbers, books.logits], axis=-1)


def unpack_books(packed: np.ndarray) -> Books:
  """The same on the host."""
  count = len(Books._fields) - 1
  parts: Any = [*packed[:, :count].T, packed[:, count:]]
  return Books(*parts)


def plain_keys(tree: Any) -> Any:
  """Typed keys as their words."""
  return jax.tree.map(lambda leaf: jax.random.key_data(leaf) if _is_key(leaf) else leaf, tree)


def typed_keys(types: Any, tree: Any) -> Any:
  """Words as keys again, wherever `types`, a tree of the same form, has one."""
  return jax.tree.map(lambda kind, leaf: jax.random.wrap_key_data(leaf) if _is_key(kind) else leaf, types, tree)


def _is_key(leaf: Any) -> bool:
  return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
