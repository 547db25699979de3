"""The interface of every data set to the rest of the library.

A source hands out float32 NHWC images in [0, 1] and int32 labels for the example ids asked for,
and can say in 16 characters which data it is.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from jaxrobust.core.errors import InputError
from jaxrobust.core.validation import check_labels, check_range, check_shape
from jaxrobust.data.judging import USUALLY, Judging, judging_of
from jaxrobust.data.order import balanced_order, is_sorted

_CHUNK_BYTES = 1 << 24

# Numbers of examples: an array, a list or a range.
Ids = np.ndarray | Sequence[int]


class DataSource(Protocol):
  """Examples by id: everything the evaluation asks of a data set."""

  @property
  def name(self) -> str: ...

  @property
  def num_classes(self) -> int: ...

  def __len__(self) -> int: ...

  def take(self, ids: Ids) -> tuple[np.ndarray, np.ndarray]: ...

  def fingerprint(self) -> str: ...

  def subset(self, n: int) -> DataSource: ...


class SourceView:
  """Takes from the source it is made of what it does not say itself."""

  source: DataSource

  @property
  def name(self) -> str:
    return self.source.name

  @property
  def num_classes(self) -> int:
    return self.source.num_classes

  @property
  def judging(self) -> Judging:
    return judging_of(self.source)

  @property
  def class_names(self) -> tuple[str, ...] | None:
    return class_names_of(self.source)

  @property
  def condition(self) -> str:
    return condition_of(self.source)

  def __len__(self) -> int:
    return len(self.source)

  def take(self, ids: Ids) -> tuple[np.ndarray, np.ndarray]:
    """Returns the source's own examples."""
    return self.source.take(ids)

  def subset(self, n: int) -> DataSource:
    """Returns the same view of the first n examples."""
    view: Any = self
    return dataclasses.replace(view, source=self.source.subset(n))


@runtime_checkable
class SequenceSource(DataSource, Protocol):
  """A source of sequences under a perturbation: `frames` gives (N, num_frames, H, W, C), `take` where they start."""

  @property
  def perturbation(self) -> str: ...

  @property
  def num_frames(self) -> int: ...

  def frames(self, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]: ...


def class_names_of(data: DataSource) -> tuple[str, ...] | None:
  """Returns the names that a source gives its classes; None for those that say nothing."""
  return getattr(data, "class_names", None)


def condition_of(data: DataSource) -> str:
  """Returns the condition that a source says it is under; `clean` for those that say nothing."""
  return getattr(data, "condition", "clean")


def check_ids(source: DataSource, ids: Ids) -> np.ndarray:
  """Returns example ids as an index; InputError for any that the source does not have."""
  ids = np.asarray(ids)
  if ids.ndim != 1 or (ids.size and ids.dtype.kind not in "iu"):
    raise InputError(f"example ids must be integers of rank 1, not {ids.dtype} of shape {ids.shape}")
  if ids.size and (ids.min() < 0 or ids.max() >= len(source)):
    raise InputError(f"example ids {ids.min()} … {ids.max()} are outside 0 … {len(source) - 1} of {source.name}")
  return ids.astype(np.intp)


def check_count(source: DataSource, n: int) -> int:
  """Returns n; InputError where the source has no first n examples."""
  if not 1 <= n <= len(source):
    raise InputError(f"{source.name} has {len(source)} examples; cannot take the first {n}")
  return n


def as_floats(levels: np.ndarray) -> np.ndarray:
  """Returns levels 0 … 255 as float32 in [0, 1]."""
  images = levels.astype(np.float32)
  images /= np.float32(255)
  return images


def holds_bytes(data: DataSource) -> bool:
  """Tells whether the source says that its `raw` hands out uint8."""
  return getattr(data, "in_bytes", False)


def whole_pictures(data: DataSource) -> bool:
  """Tells whether the source reads files of any size, so that random crops can be taken from whole pictures."""
  while hasattr(data, "source"):
    if not hasattr(data, "crops"):
      return False
    data = data.source
  return hasattr(data, "crops") and getattr(data, "preprocessing", "").startswith("resize")


def raw(data: DataSource, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
  """Returns images as they are stored: bytes are sent to the devices as bytes, a quarter of their floats."""
  return data.raw(ids) if holds_bytes(data) else data.take(ids)  # type: ignore[attr-defined]


def short_repr(source: DataSource) -> str:
  """Returns a data set as one line, whatever it holds.

  >>> ArraySource("two", np.zeros((2, 4, 4, 3), np.uint8), np.array([0, 1]), 10)
  ArraySource('two', 2 examples, 10 classes)
  """
  return f"{type(source).__name__}({source.name!r}, {len(source):,} examples, {source.num_classes} classes)"


@dataclasses.dataclass(frozen=True, eq=False)
class ArraySource:
  """A data set held in arrays; `images` may be a memory map larger than memory.

  Shape, type and labels are checked on construction; the values of float images only as
  they are taken, so that a memory map is never read as a whole.

  Attributes:
    images: (N, H, W, C), uint8 (0 … 255) or float32 (0 … 1).
    labels: (N,) integers below `num_classes`; kept as int32.
    judging: among which classes answers are judged, and which are right.
    whole: what it is a subset of; None if it is one of nothing.

  Example:
    >>> source = ArraySource("two", np.full((2, 4, 4, 3), 255, np.uint8), np.array([0, 1]), 2)
    >>> images, labels = source.take(np.array([1]))
    >>> images.shape, images.dtype.name, float(images.max()), labels
    ((1, 4, 4, 3), 'float32', 1.0, array([1], dtype=int32))
  """

  name: str
  images: np.ndarray
  labels: np.ndarray
  num_classes: int
  class_names: tuple[str, ...] | None = None
  judging: Judging = USUALLY
  whole: ArraySource | None = None
  __repr__ = short_repr

  def __post_init__(self) -> None:
    if self.images.dtype not in (np.uint8, np.float32):
      raise InputError(f"images of {self.name} are {self.images.dtype}; expected uint8 or float32")
    check_shape(self.images)
    check_labels(self.labels, len(self.images), self.num_classes)
    if self.class_names is not None and len(self.class_names) != self.num_classes:
      raise InputError(f"{self.name} has {self.num_classes} classes but {len(self.class_names)} class names")
    object.__setattr__(self, "labels", np.ascontiguousarray(self.labels, np.int32))

  def __len__(self) -> int:
    return len(self.images)

  def take(self, ids: Ids) -> tuple[np.ndarray, np.ndarray]:
    """Returns the examples with these ids, in this order: float32 images in [0, 1] and int32 labels."""
    images, labels = self.raw(check_ids(self, ids))
    if self.in_bytes:
      return as_floats(images), labels
    check_range(images)
    return images, labels

  @property
  def in_bytes(self) -> bool:
    return self.images.dtype == np.uint8

  def raw(self, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the same as they are stored, unchecked."""
    return np.asarray(self.images[ids]), self.labels[ids]

  def fingerprint(self) -> str:
    """Returns 16 hexadecimal digits that change with any image, label, type, shape or class count."""
    return self._fingerprint

  @functools.cached_property
  def _fingerprint(self) -> str:
    digest = hashlib.sha256(f"{self.images.shape} {self.images.dtype.str} {self.num_classes}".encode())
    rows = max(1, _CHUNK_BYTES // max(1, self.images[:1].nbytes))
    for start in range(0, len(self), rows):
      digest.update(np.ascontiguousarray(self.images[start : start + rows]).data)
    digest.update(self.labels.astype("<i4").tobytes())
    return digest.hexdigest()[:16]

  @functools.cached_property
  def order(self) -> np.ndarray | None:
    """Returns the order that subsets are taken in, where examples lie class by class; None where they are mixed."""
    return balanced_order(self.labels, [str(i) for i in range(len(self))]) if is_sorted(self.labels) else None

  def subset(self, n: int) -> ArraySource:
    """Returns the first n examples, without copying them; those of a set that is sorted by class in `order`."""
    if not 1 <= n <= len(self):
      raise InputError(f"{self.name} has {len(self)} examples; cannot take the first {n}")
    ids = slice(n) if self.order is None else self.order[:n]
    chosen = self.judging.select(np.arange(len(self))[ids])
    whole = self.whole or self
    return dataclasses.replace(self, images=self.images[ids], labels=self.labels[ids], judging=chosen, whole=whole)


@dataclasses.dataclass(frozen=True)
class Dataset:
  """A registry entry: how to load a data set, and what to know before doing so.

  Attributes:
    load: makes the source; takes the set's folder, and the variant where there are some, unless it is embedded.
    size, classes: what a complete copy has; `sizes` of variants that have another number of images.
    source, license: where it comes from, and under which terms.
    folder: below the folder of all data sets; empty if the set is embedded.
    get: what to put into that folder.
    md5: hashes of some of its files, as published.
    preprocessing: from file to array, a name that `preprocessing.make_preprocessing` reads.
    class_map: where class numbers come from.
    variants: whether a name goes on with `:variant`.
    judged: how answers are judged, where it is not by one right class among all; `:1000` then asks for that.
    id_list: a list of its files in a published order (`image_ids/NAME_image_ids.txt` of OODRobustBench), which subsets
      follow where it lies beside the data sets.
  """

  load: Callable[..., DataSource]
  description: str
  size: int
  classes: int
  source: str
  license: str
  folder: str = ""
  get: str = ""
  md5: Mapping[str, str] = dataclasses.field(default_factory=dict)
  preprocessing: str = "none"
  class_map: str = ""
  variants: bool = False
  judged: str = ""
  id_list: str = ""
  sizes: Mapping[str, int] = dataclasses.field(default_factory=dict)

  def size_of(self, name: str) -> int:
    """Returns how many images a complete copy has of the data set, or of the variant that a name ends with."""
    return self.sizes.get(name.partition(":")[2], self.size)
