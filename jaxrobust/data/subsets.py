"""Pinned subsets: the same examples for everybody, by a rule that needs no list on disk and no random generator.

Sources in no particular order: ids by the SHA-256 of "name/id". Those that say an `order` of theirs, because they lie
class by class: that one (`order.balanced_order`). A subset of n is the first n of it. Asking for more than there are
is an error, never a shorter set.
"""

from __future__ import annotations

import functools
import hashlib
from dataclasses import dataclass, is_dataclass, replace
from typing import Any

import numpy as np

from jaxrobust.core.errors import InputError
from jaxrobust.data.crops import Crop
from jaxrobust.data.judging import Judging, judging_of
from jaxrobust.data.source import (
  ArraySource,
  DataSource,
  Ids,
  SequenceSource,
  SourceView,
  check_count,
  check_ids,
  holds_bytes,
  raw,
)


def pinned_ids(name: str, size: int, n: int) -> np.ndarray:
  """Returns the first n ids of a set of that name and size, in their pinned order.

  >>> pinned_ids("example", 10, 4)
  array([7, 9, 2, 8])
  """
  if not 1 <= n <= size:
    raise InputError(f"{name} has {size} examples; cannot take {n} of them")
  order = sorted(range(size), key=lambda i: hashlib.sha256(f"{name}/{i}".encode()).digest())
  return np.array(order[:n])


@dataclass(frozen=True, eq=False)
class PinnedSource(SourceView):
  """Chooses examples of a source, counted from 0."""

  source: DataSource
  ids: np.ndarray

  @property
  def name(self) -> str:
    return f"{self.source.name}@{len(self.ids)}"

  def __len__(self) -> int:
    return len(self.ids)

  def take(self, ids: Ids) -> tuple[np.ndarray, np.ndarray]:
    """Returns the examples with these ids of the subset."""
    return self.source.take(self.ids[check_ids(self, ids)])

  @property
  def in_bytes(self) -> bool:
    return holds_bytes(self.source)

  @functools.cached_property
  def judging(self) -> Judging:
    return judging_of(self.source).select(self.ids)

  def raw(self, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the same as they are stored."""
    return raw(self.source, self.ids[check_ids(self, ids)])

  def crops(self, ids: np.ndarray, crop: Crop, seed: int, step: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns random crops of whole pictures, where the source has some (`whole_pictures`)."""
    return self.source.crops(self.ids[check_ids(self, ids)], crop, seed, step)  # type: ignore[attr-defined]

  def fingerprint(self) -> str:
    """Identifies the whole set and the ids chosen."""
    text = self.source.fingerprint().encode() + self.ids.astype("<i8").tobytes()
    return hashlib.sha256(text).hexdigest()[:16]

  @property
  def whole(self) -> PinnedSource:
    return pinned(self.source, len(self.source))

  def subset(self, n: int) -> PinnedSource:
    """Returns the first n of the subset."""
    return replace(self, ids=self.ids[: check_count(self, n)])


class PinnedSequences(PinnedSource):
  """Chooses sequences of a source that holds some."""

  source: SequenceSource

  @property
  def perturbation(self) -> str:
    return self.source.perturbation

  @property
  def num_frames(self) -> int:
    return self.source.num_frames

  def frames(self, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the sequences with these ids of the subset, and labels."""
    return self.source.frames(self.ids[check_ids(self, ids)])


def pinned(source: DataSource, n: int) -> PinnedSource:
  """Returns a pinned subset of n examples. Variants of one set (`cifar10-c:fog-3`) share the ids: they pair up."""
  kind = PinnedSequences if isinstance(source, SequenceSource) else PinnedSource
  order = getattr(source, "order", None)
  if order is None:
    return kind(source, pinned_ids(source.name.split(":")[0], len(source), n))
  if not 1 <= n <= len(source):
    raise InputError(f"{source.name} has {len(source)} examples; cannot take {n} of them")
  return kind(source, order[:n])


@dataclass(frozen=True, eq=False)
class PartSource(SourceView):
  """Remembers the whole of a subset that does not say itself what it is one of."""

  source: DataSource
  whole: DataSource

  @property
  def in_bytes(self) -> bool:
    return holds_bytes(self.source)

  def raw(self, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the same as they are stored."""
    return raw(self.source, ids)

  def fingerprint(self) -> str:
    """Returns the subset's own."""
    return self.source.fingerprint()


def first_of(source: DataSource, n: int) -> DataSource:
  """Returns `source.subset(n)`, of which `whole_of` knows the whole, whoever has written the source."""
  inner: Any = source
  if isinstance(source, SequenceSource):
    return source.subset(n)
  if _is_view(source):
    return replace(inner, source=first_of(inner.source, n))
  part = source.subset(n)
  return PartSource(part, source) if getattr(part, "whole", None) is None else part


def _is_view(source: DataSource) -> bool:
  """Tells whether a source changes the examples of another, one by one, and chooses none of them."""
  return isinstance(source, SourceView) and not isinstance(source, PinnedSource | PartSource) and is_dataclass(source)


def whole_of(source: DataSource, n: int | None = None) -> DataSource:
  """Returns the data set that a source is a subset of, in the order that its subsets are taken in.

  What is chosen from the first examples of it is the same for every subset. Sources that do not say what they are a
  subset of are taken for whole.

  Args:
    source: a data set, or a subset of one.
    n: this many examples of the whole, where it has more.

  >>> from jaxrobust.data.source import ArraySource
  >>> data = ArraySource("ten", np.zeros((10, 1, 1, 1), np.uint8), np.arange(10) % 2, 2)
  >>> len(whole_of(data.subset(4))), len(whole_of(data.subset(4).subset(2)))
  (10, 10)
  >>> len(whole_of(data.subset(2), 4)), len(whole_of(data, 20))
  (4, 10)
  """
  inner: Any = source
  if _is_view(source):
    return replace(inner, source=whole_of(inner.source, n))
  whole = getattr(source, "whole", None) or source
  if n is not None:
    return whole.subset(min(n, len(whole)))
  order = getattr(whole, "order", None)
  if order is None:
    return whole
  # Arrays are not copied; a view of files (another decoder) wants these and not a view of them.
  return PinnedSource(whole, order) if isinstance(whole, ArraySource) else whole.subset(len(whole))
