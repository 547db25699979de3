"""The input pipeline: an endless, repeatable order of examples, read ahead of the step.

Position p of the stream is example `permutation(epoch)[p mod N]` with epoch = p div N, so the order is a function of
(seed, position) alone: a run continues mid-epoch by knowing its step, a batch may straddle two epochs, and every
example is seen exactly once per epoch whatever the batch size and the number of processes. A `Mixture` fills the end of
every batch from a second source, in an order of its own that is just as repeatable.
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh

from jaxrobust.core.errors import InputError
from jaxrobust.core.mesh import row_sharding
from jaxrobust.data.crops import Crop
from jaxrobust.data.registry import load_data
from jaxrobust.data.source import DataSource, Ids, SourceView, holds_bytes, raw

# Batches read or held ready, and how many are read at once: while one is put together and sent, the next is decoded.
AHEAD = 3
READERS = 2


class Rows(NamedTuple):
  """One batch on the devices."""

  images: Any
  labels: Any
  ids: Any


def stream_ids(size: int, seed: int, start: int, count: int) -> np.ndarray:
  """Returns the examples at positions start … start + count of the stream.

  >>> both = stream_ids(10, 0, 0, 20)
  >>> sorted(both[:10].tolist()) == sorted(both[10:].tolist()) == list(range(10))
  True
  >>> stream_ids(10, 0, 7, 5).tolist() == both[7:12].tolist()
  True
  """
  parts = []
  while count > 0:
    epoch, offset = divmod(start, size)
    order = _order(size, seed, epoch)[offset : offset + count]
    parts.append(order)
    start, count = start + len(order), count - len(order)
  return np.concatenate(parts)


@functools.lru_cache(maxsize=4)
def split_ids(total: int, size: int) -> tuple[np.ndarray, np.ndarray]:
  """Returns the examples trained on and those held out: drawn from all over the set, since files come class by class.

  The same for every seed: a network that is tuned from another one holds out what that one did.

  >>> [part.tolist() for part in split_ids(5, 3)], split_ids(2, 2)[0].tolist()
  ([[2, 4, 3], [0, 1]], [0, 1])
  """
  order = np.random.default_rng(0).permutation(total) if size < total else np.arange(total)
  return order[:size], order[size:]


# Two sources, each with a batch that goes from one epoch into the next; 27 ms for every batch of ImageNet otherwise.
@functools.lru_cache(4)
def _order(size: int, seed: int, epoch: int) -> np.ndarray:
  """Returns the order of an epoch, not to be written to."""
  order = np.random.default_rng((seed, epoch)).permutation(size)
  order.flags.writeable = False
  return order


@dataclass(frozen=True)
class Mixture(SourceView):
  """A data set with a fixed number of rows of every batch from another: extra or synthetic images.

  Gowal et al. 2021 (arXiv:2110.09468) mix about 70 % generated images into CIFAR-10, Carmon et al. 2019
  (arXiv:1905.13736) half of pseudo-labeled ones. Lengths, held-out examples and epochs are those of `source`: a run
  makes as many updates as one without extra images. Ids of the extra examples go on where those of `source` end.
  """

  source: DataSource
  extra: DataSource
  rows: int

  def fingerprint(self) -> str:
    return f"{self.source.fingerprint()}+{self.rows}:{self.extra.fingerprint()}"

  def take(self, ids: Ids) -> tuple[np.ndarray, np.ndarray]:
    """Takes examples of either source, as floats."""
    return self._join(lambda data, part: data.take(part), np.asarray(ids))

  @property
  def in_bytes(self) -> bool:
    return holds_bytes(self.source) and holds_bytes(self.extra)

  def raw(self, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the same in bytes, where both are."""
    return self._join(raw if self.in_bytes else lambda data, part: data.take(part), ids)

  def _join(self, read: Callable[..., tuple[np.ndarray, np.ndarray]], ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    own = ids < len(self.source)
    parts = [(self.source, own, ids[own]), (self.extra, ~own, ids[~own] - len(self.source))]
    found = [(where, *read(data, part)) for data, where, part in parts if len(part)]
    images = np.empty((len(ids), *found[0][1].shape[1:]), found[0][1].dtype)
    labels = np.empty(len(ids), np.int32)
    for where, some, classes in found:
      images[where], labels[where] = some, classes
    return images, labels


def training_data(
  name: str, extra: str = "", part: float = 0.0, batch_size: int = 1, preprocess: str = ""
) -> DataSource:
  """Returns the data set of a run, with `part` of every batch from an extra one if there is one.

  Args:
    name, extra: of the data sets.
    part: of every batch that comes from the extra one.
    batch_size: of the run.
    preprocess: how pictures of any size become arrays.
  """
  data = load_data(name, preprocess=preprocess)
  if not extra:
    return data
  more, rows = load_data(extra, preprocess=preprocess), round(part * batch_size)
  if not 0 < rows < batch_size:
    raise InputError(f"extra_part {part} of a batch of {batch_size} is {rows} images: take some of both sources")
  shapes = [source.take(np.arange(1))[0].shape[1:] for source in (data, more)]
  if shapes[0] != shapes[1] or more.num_classes > data.num_classes:
    raise InputError(
      f"{extra} ({shapes[1]}, {more.num_classes} classes) does not go with {name} ({shapes[0]}, {data.num_classes})"
    )
  return Mixture(data, more, rows)


def count_ids(data: DataSource) -> int:
  """Returns how many examples a run may see: ids are below it."""
  return len(data) + (len(data.extra) if isinstance(data, Mixture) else 0)


def batch_ids(data: DataSource, size: int, seed: int, step: int, batch_size: int) -> np.ndarray:
  """Returns the examples of batch number `step`; those of an extra source come last."""
  extra = data.rows if isinstance(data, Mixture) else 0
  ids = split_ids(len(data), size)[0][stream_ids(size, seed, step * (batch_size - extra), batch_size - extra)]
  if not isinstance(data, Mixture):
    return ids
  # Another seed: two sources of one size must not go through their examples in the same order.
  return np.concatenate([ids, len(data) + stream_ids(len(data.extra), seed + 1, step * extra, extra)])


class Stream:
  """Batches from `start_step` on, as global arrays; each process reads only its own rows."""

  def __init__(
    self, data: DataSource, size: int, batch_size: int, seed: int, mesh: Mesh, start_step: int = 0,
    crop: Crop | None = None,
  ):  # fmt: skip
    if batch_size % mesh.size:
      raise InputError(f"batch_size {batch_size} does not divide over {mesh.size} devices")
    self.data, self.size, self.batch_size, self.seed, self.mesh, self.crop = data, size, batch_size, seed, mesh, crop
    self._readers = ThreadPoolExecutor(READERS, "read")
    self._ahead = deque(self._readers.submit(self._batch, start_step + i) for i in range(AHEAD))
    self._step = start_step + AHEAD

  def _batch(self, step: int) -> Rows:
    ids = batch_ids(self.data, self.size, self.seed, step, self.batch_size)
    sharding = row_sharding(self.mesh)
    mine = sharding.addressable_devices_indices_map((self.batch_size,))
    rows = np.unique(np.concatenate([np.arange(self.batch_size)[index] for index in mine.values()]))
    images, labels = raw(self.data, ids[rows]) if self.crop is None else self._cropped(ids[rows], step)
    place = lambda part: jax.make_array_from_process_local_data(sharding, part, (self.batch_size, *part.shape[1:]))
    return Rows(place(images), place(labels), place(ids[rows].astype(np.int32)))

  def _cropped(self, ids: np.ndarray, step: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns random crops, cut out of the whole pictures while they are decoded."""
    assert self.crop is not None
    return self.data.crops(ids, self.crop, self.seed, step)  # type: ignore[attr-defined]

  def __iter__(self) -> Iterator[Rows]:
    while True:
      rows = self._ahead.popleft().result()
      self._ahead.append(self._readers.submit(self._batch, self._step))
      self._step += 1
      yield rows

  def close(self) -> None:
    """Stops reading."""
    self._readers.shutdown(cancel_futures=True)
