"""What a run says: one JSON line per entry, and TensorBoard events where a writer is installed.

A continued run drops the lines of steps it repeats, so that the file reads as if it had never stopped.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jaxrobust.core.errors import StorageError
from jaxrobust.core.files import atomic_write

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
  """The entries of a log; a last line cut off by a crash is left out."""
  try:
    lines = Path(path).read_text().splitlines()
  except FileNotFoundError:
    return []
  entries = []
  for line in lines:
    try:
      entry = json.loads(line)
    except ValueError:
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
