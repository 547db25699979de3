"""Pinned subsets: the same examples for everybody, by a rule that needs no list on disk and no random generator.

The order of a set's ids is that of the SHA-256 of "name/id"; a subset of n is its first n. Asking for more than there
are is an error, never a shorter set.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

from jaxrobust.core.errors import InputError
from jaxrobust.data.source import DataSource, holds_bytes, raw


def pinned_ids(name: str, size: int, n: int) -> np.ndarray:
  """The first n ids of a set of that name and size, in their pinned order.

  >>> pinned_ids("example", 10, 4)
  array([7, 9, 2, 8])
  """
  if not 1 <= n <= size:
    raise InputError(f"{name} has {size} examples; cannot take {n} of them")
  order = sorted(range(size), key=lambda i: hashlib.sha256(f"{name}/{i}".encode()).digest())
  return np.array(order[:n])


@dataclass(frozen=True, eq=False)
class PinnedSource:
  """Chosen examples of a source, counted from 0."""

  source: DataSource
  ids: np.ndarray

  @property
  def name(self) -> str:
    return f"{self.source.name}@{len(self.ids)}"

  @property
  def num_classes(self) -> int:
    return self.source.num_classes

  def __len__(self) -> int:
    return len(self.ids)

  def take(self, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The examples with these ids of the subset."""
    return self.source.take(self._chosen(ids))

  @property
  def in_bytes(self) -> bool:
    return holds_bytes(self.source)

  def raw(self, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same as they are stored."""
    return raw(self.source, self._chosen(ids))

  def _chosen(self, ids: np.ndarray) -> np.ndarray:
    ids = np.asarray(ids).astype(np.intp)
    if ids.size and (ids.min() < 0 or ids.max() >= len(self)):
      raise InputError(f"example ids {ids.min()} … {ids.max()} are outside 0 … {len(self) - 1} of {self.name}")
    return self.ids[ids]

  def fingerprint(self) -> str:
    """Of the whole set and of the ids chosen."""
    text = self.source.fingerprint().encode() + self.ids.astype("<i8").tobytes()
    return hashlib.sha256(text).hexdigest()[:16]

  def subset(self, n: int) -> PinnedSource:
    """The first n of the subset."""
    if not 1 <= n <= len(self):
      raise InputError(f"{self.name} has {len(self)} examples; cannot take the first {n}")
    return PinnedSource(self.source, self.ids[:n])


def pinned(source: DataSource, n: int) -> PinnedSource:
  """A pinned subset of n examples. Variants of one set (`cifar10-c:fog-3`) share the ids, so that they pair up."""
  return PinnedSource(source, pinned_ids(source.name.split(":")[0], len(source), n))
