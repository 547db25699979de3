"""Reading ahead: the next batch is read, decoded and corrupted on a thread while the devices work on this one."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor

import jax
import numpy as np

from jaxrobust.core.validation import check_labels
from jaxrobust.engine.example import Examples, Source


class Reader:
  """Batches of a source in their order, one ahead of the one asked for.

  Attributes:
    position: the first example that has not been asked for.
  """

  def __init__(self, source: Source, rows: int, num_classes: int, position: int = 0):
    self.source, self.rows, self.num_classes, self.position = source, rows, num_classes, position
    # Settings of JAX belong to a thread: corruptions must be computed as they would be on this one.
    self._precision = jax.config.jax_default_matmul_precision  # type: ignore[attr-defined]
    self._threads = ThreadPoolExecutor(1, "reader")
    self._next: Future | None = None

  @property
  def exhausted(self) -> bool:
    return self.position >= len(self.source)

  def take(self) -> tuple[np.ndarray, Examples]:
    """Returns the next positions and their examples, and begins to read those after them."""
    positions = self._positions(self.position)
    self._next = self._next or self._threads.submit(self._read, positions)
    try:
      rows = self._next.result()
    except BaseException:  # The next call reads the same examples again.
      self._next = None
      raise
    self.position += len(positions)
    self._next = None if self.exhausted else self._threads.submit(self._read, self._positions(self.position))
    check_labels(rows.labels, len(positions), self.num_classes)
    return positions, rows

  def close(self) -> None:
    """Lets go of the thread."""
    self._threads.shutdown(wait=False, cancel_futures=True)

  def _positions(self, start: int) -> np.ndarray:
    return np.arange(start, min(start + self.rows, len(self.source)))

  def _read(self, positions: np.ndarray) -> Examples:
    with jax.default_matmul_precision(self._precision):
      return self.source.take(positions)
