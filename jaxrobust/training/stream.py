"""The input pipeline: an endless, repeatable order of examples, read ahead of the step.

Position p of the stream is example `permutation(epoch)[p mod N]` with epoch = p div N, so the order is a function of
(seed, position) alone: a run continues mid-epoch by knowing its step, a batch may straddle two epochs, and every
example is seen exactly once per epoch whatever the batch size and the number of processes.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh

from jaxrobust.core.errors import InputError
from jaxrobust.core.mesh import row_sharding
from jaxrobust.data.source import ArraySource, DataSource

# Batches held ready.
AHEAD = 2


class Rows(NamedTuple):
  """One batch on the devices."""

  images: Any
  labels: Any
  ids: Any


def stream_ids(size: int, seed: int, start: int, count: int) -> np.ndarray:
  """The examples at positions start … start + count of the stream.

  >>> both = stream_ids(10, 0, 0, 20)
  >>> sorted(both[:10].tolist()) == sorted(both[10:].tolist()) == list(range(10))
  True
  >>> stream_ids(10, 0, 7, 5).tolist() == both[7:12].tolist()
  True
  """
  parts = []
  while count > 0:
    epoch, offset = divmod(start, size)
    order = np.random.default_rng((seed, epoch)).permutation(size)[offset : offset + count]
    parts.append(order)
    start, count = start + len(order), count - len(order)
  return np.concatenate(parts)


class Stream:
  """Batches from `start_step` on, as global arrays; each process reads only its own rows."""

  def __init__(self, data: DataSource, size: int, batch_size: int, seed: int, mesh: Mesh, start_step: int = 0):
    if batch_size % mesh.size:
      raise InputError(f"batch_size {batch_size} does not divide over {mesh.size} devices")
    self.data, self.size, self.batch_size, self.seed, self.mesh = data, size, batch_size, seed, mesh
    self.waited = 0.0
    self._queue: queue.Queue = queue.Queue(AHEAD)
    self._stop = threading.Event()
    self._thread = threading.Thread(target=self._read, args=(start_step,), daemon=True)
    self._thread.start()

  def _read(self, step: int) -> None:
    try:
      while not self._stop.is_set():
        self._put(self._batch(step))
        step += 1
    except BaseException as error:  # Delivered to the reader: a thread has nobody to raise it to.
      self._put(error)

  def _put(self, item: Any) -> None:
    while not self._stop.is_set():
      try:
        return self._queue.put(item, timeout=0.1)
      except queue.Full:
        continue

  def _batch(self, step: int) -> Rows:
    ids = stream_ids(self.size, self.seed, step * self.batch_size, self.batch_size)
    sharding = row_sharding(self.mesh)
    mine = sharding.addressable_devices_indices_map((self.batch_size,))
    rows = np.unique(np.concatenate([np.arange(self.batch_size)[index] for index in mine.values()]))
    images, labels = raw(self.data, ids[rows])
    place = lambda part: jax.make_array_from_process_local_data(sharding, part, (self.batch_size, *part.shape[1:]))
    return Rows(place(images), place(labels), place(ids[rows].astype(np.int32)))

  def __iter__(self) -> Iterator[Rows]:
    while True:
      item = self._queue.get()
      if isinstance(item, BaseException):
        raise item
      yield item

  def close(self) -> None:
    """Stops reading."""
    self._stop.set()
    self._thread.join()


def raw(data: DataSource, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
  """Images as they are stored: bytes are sent to the devices as bytes, a quarter of their floats."""
  if isinstance(data, ArraySource) and data.images.dtype == np.uint8:
    return np.asarray(data.images[ids]), data.labels[ids]
  return data.take(ids)
