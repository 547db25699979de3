"""Checkpoints of a training run: written in the background, complete or not at all, restored on any layout.

Orbax writes into a temporary folder and renames it when everything is on disk, so an interrupted write leaves nothing
that looks like a checkpoint. The two newest are kept: should the newest be damaged on disk later, the run goes on
from the one before it and says so.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import orbax.checkpoint as ocp

from jaxrobust.core.errors import CorruptFileError, StorageError, first_line

_STATE, _WINDOW = "default", "window"  # Orbax's name of a lone item: earlier checkpoints hold nothing else.


class Checkpoints:
  """The `checkpoints` folder of a run."""

  def __init__(self, folder: str | os.PathLike):
    self.folder = Path(folder).absolute()
    logging.getLogger("absl").addFilter(_is_said_once)
    _leave_out_late_answers()
    options = ocp.CheckpointManagerOptions(max_to_keep=2, create=True, enable_async_checkpointing=True)
    try:
      self._manager = ocp.CheckpointManager(self.folder, options=options, item_names=(_STATE, _WINDOW))
    except OSError as error:
      raise StorageError(f"cannot write checkpoints to {self.folder}: {error.strerror or error}") from None

  def save(self, step: int, state: Any, window: list[float]) -> None:
    """Starts writing the state after `step` steps, and the sums of the log line that is not full yet."""
    with self._writing():
      if step not in self._manager.all_steps():
        if not self._manager.should_save(step):
          raise StorageError(f"{self.folder} holds checkpoints of later steps than {step}")
        items = {_STATE: ocp.args.StandardSave(state), _WINDOW: ocp.args.JsonSave({"sums": window})}
        self._manager.save(step, args=ocp.args.Composite(**items))

  def wait(self) -> None:
    """Returns when all that was saved is on disk."""
    with self._writing():
      self._manager.wait_until_finished()

  @contextlib.contextmanager
  def _writing(self) -> Iterator[None]:
    try:
      yield
    except StorageError:
      raise
    except (OSError, ValueError) as error:
      raise StorageError(f"cannot write a checkpoint to {self.folder}: {first_line(error)}") from None

  def restore(self, template: Any, shardings: Any) -> tuple[int, Any, list[float]] | None:
    """Reads step, state laid out as `shardings`, and window of the newest checkpoint that can be read, or None."""
    target = jax.tree.map(
      lambda leaf, sharding: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding), template, shardings
    )
    reason = ""
    for step in sorted(self._manager.all_steps(), reverse=True):
      try:
        items: dict[str, Any] = {_STATE: ocp.args.StandardRestore(target)}
        if (self.folder / str(step) / _WINDOW).exists():
          items[_WINDOW] = ocp.args.JsonRestore()
        found = self._manager.restore(step, args=ocp.args.Composite(**items))
        return step, found[_STATE], found[_WINDOW]["sums"] if _WINDOW in items else []
      except Exception as error:  # Orbax and TensorStore raise many kinds for damaged files.
        reason = first_line(error)
        print(f"checkpoint {self.folder / str(step)} cannot be read ({reason}); trying an older one", file=sys.stderr)
    if reason:
      raise CorruptFileError(f"no checkpoint in {self.folder} can be read: {reason}")
    return None

  def drop_after(self, step: int, barrier: Callable[[], Any]) -> None:
    """Puts later checkpoints aside: Orbax would keep those that cannot be read, and refuse earlier steps.

    All processes call it; `barrier` holds each up until the others are there.
    """
    later = [each for each in self._manager.all_steps() if each > step]
    if not later:
      return
    with self._writing():
      if jax.process_index() == 0:
        for each in later:
          aside = self.folder.with_name(f"{self.folder.name}-unreadable") / f"{each}-{time.time_ns()}"
          aside.parent.mkdir(exist_ok=True)
          (self.folder / str(each)).rename(aside)
      barrier()
      self._manager.reload()

  def close(self) -> None:
    """Waits for what is being written."""
    with self._writing():
      self._manager.close()


def _is_said_once(record: logging.LogRecord) -> bool:
  """Leaves out tracebacks that Orbax's threads log of their failures, which are raised where they are waited for."""
  return not (record.exc_info and "orbax" in record.pathname)


@functools.cache
def _leave_out_late_answers() -> None:
  """Leaves out what TensorStore's threads print when a write ends after the loop that awaited it.

  That loop ends with the first write that fails, which is raised; nobody waits for the others any more.
  """
  report = sys.unraisablehook

  def hook(unraisable: Any) -> None:
    if not (isinstance(unraisable.exc_value, RuntimeError) and str(unraisable.exc_value) == "Event loop is closed"):
      report(unraisable)

  sys.unraisablehook = hook
