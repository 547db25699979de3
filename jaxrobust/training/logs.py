"""The log of a run: one JSON line per entry, and TensorBoard events where a writer is installed.

A continued run drops the lines of steps it repeats, so that the file reads as if it had never stopped. The sums of the
line that is under way are part of checkpoints: cut off by a stop, it is in the end the line it would have been.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
from clu import metrics as clu_metrics

from jaxrobust.core.errors import StorageError
from jaxrobust.core.files import atomic_write
from jaxrobust.core.reading import LARGEST_TEXT, read_if_there
from jaxrobust.training.step import StepMetrics

_WRITERS = ("tensorboardX", "torch.utils.tensorboard")


class Log:
  """`train.jsonl` in the run's folder; entries have a `step`."""

  def __init__(self, folder: Path, step: int, *, active: bool = True):
    self.path = folder / "train.jsonl"
    self.entries = [entry for entry in read_log(self.path) if entry["step"] <= step]
    self._file = None
    self._events = None
    if not active:
      return
    with self._writing():
      atomic_write(self.path, "".join(json.dumps(entry) + "\n" for entry in self.entries))
      self._file = self.path.open("a")
    self._events = _event_writer(folder, step)

  def write(self, step: int, **values: Any) -> None:
    """Adds an entry; numbers also go to TensorBoard."""
    entry = {"step": step, **values}
    self.entries.append(entry)
    if self._file is not None:
      with self._writing():
        self._file.write(json.dumps(entry) + "\n")
        self._file.flush()
    if self._events is not None:
      for name, value in values.items():
        if isinstance(value, int | float):
          self._events.add_scalar(name, value, step)

  def close(self) -> None:
    with self._writing():
      for writer in (self._file, self._events):
        if writer is not None:
          writer.close()

  @contextlib.contextmanager
  def _writing(self) -> Iterator[None]:
    try:
      yield
    except OSError as error:
      raise StorageError(f"cannot write {self.path}: {error.strerror or error}") from None


def read_log(path: str | os.PathLike) -> list[dict[str, Any]]:
  """Returns the entries of a log; a last line cut off by a crash is left out."""
  raw = read_if_there(path, LARGEST_TEXT)
  entries = []
  for line in (raw or b"").splitlines():
    try:
      entry = json.loads(line)
    except (ValueError, RecursionError):
      continue
    if isinstance(entry, dict) and isinstance(entry.get("step"), int):
      entries.append(entry)
  return entries


def _event_writer(folder: Path, step: int) -> Any | None:
  for name in _WRITERS:
    try:
      return importlib.import_module(name).SummaryWriter(str(folder / "tensorboard"), purge_step=step + 1)
    except (ImportError, AttributeError):
      continue
  return None


class LogWindow:
  """Sums and counts over some steps, and the time that they took here."""

  def __init__(self, sums: list[float]):
    self._metrics = metrics_of(sums)
    self._since, self._waited, self._steps = time.monotonic(), 0.0, 0

  @property
  def sums(self) -> list[float]:
    """Returns plain numbers, without loss of a bit, for `LogWindow(sums)`; reading them waits for the step."""
    return [float(leaf) for leaf in jax.tree.leaves(self._metrics)]

  def add(self, metrics: clu_metrics.Collection, waited: float) -> None:
    """Adds one more step, which waited so long for its data."""
    self._metrics = self._metrics.merge(metrics)
    self._waited, self._steps = self._waited + waited, self._steps + 1

  @contextlib.contextmanager
  def paused(self) -> Iterator[None]:
    """Leaves out time that no step takes."""
    start = time.monotonic()
    try:
      yield
    finally:
      self._since += time.monotonic() - start

  def line(self, batch_size: int) -> dict[str, float]:
    """Returns means over the window, and how fast its steps were made since this process began it."""
    seconds = max(time.monotonic() - self._since, 1e-9)
    values = {name: float(value) for name, value in self._metrics.compute().items()}
    speed = {
      "seconds": seconds,
      "step_seconds": seconds / self._steps,
      "images_per_second": self._steps * batch_size / seconds,
      "data_wait": self._waited / seconds,
    }
    return values | {name: round(value, 4) for name, value in speed.items()}


def metrics_of(sums: list[float]) -> clu_metrics.Collection:
  """Returns metrics that go on from `sums`; none at all is nothing seen yet."""
  leaves, tree = jax.tree.flatten(StepMetrics.empty())
  sums = sums or [0.0] * len(leaves)
  return jax.tree.unflatten(tree, [np.asarray(value, leaf.dtype) for value, leaf in zip(sums, leaves, strict=True)])
