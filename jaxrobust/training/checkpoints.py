"""Checkpoints of a training run: written in the background, complete or not at all, restored on any layout.

Orbax writes into a temporary folder and renames it when everything is on disk, so an interrupted write leaves nothing
that looks like a checkpoint. The two newest are kept: should the newest be damaged on disk later, the run goes on
from the one before it and says so.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import jax
import orbax.checkpoint as ocp

from jaxrobust.core.errors import CorruptFileError, StorageError, first_line


class Checkpoints:
  """The `checkpoints` folder of a run."""

  def __init__(self, folder: str | os.PathLike):
    self.folder = Path(folder).absolute()
    options = ocp.CheckpointManagerOptions(max_to_keep=2, create=True, enable_async_checkpointing=True)
    try:
      self._manager = ocp.CheckpointManager(self.folder, options=options)
    except OSError as error:
      raise StorageError(f"cannot write checkpoints to {self.folder}: {error.strerror or error}") from None

  def save(self, step: int, state: Any, *, wait: bool = False) -> None:
    """Starts writing the state after `step` steps; `wait` returns only when it is on disk."""
    try:
      if step not in self._manager.all_steps():
        self._manager.save(step, args=ocp.args.StandardSave(state))
      if wait:
        self._manager.wait_until_finished()
    except (OSError, ValueError) as error:
      raise StorageError(f"cannot write a checkpoint to {self.folder}: {first_line(error)}") from None

  def restore(self, template: Any, shardings: Any) -> tuple[Any, int] | None:
    """The newest checkpoint that can be read, laid out as `shardings`, and its step; None where there is none."""
    target = jax.tree.map(
      lambda leaf, sharding: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding), template, shardings
    )
    reason = ""
    for step in sorted(self._manager.all_steps(), reverse=True):
      try:
        return self._manager.restore(step, args=ocp.args.StandardRestore(target)), step
      except Exception as error:  # Orbax and TensorStore raise many kinds for damaged files.
        reason = first_line(error)
        print(f"checkpoint {self.folder / str(step)} cannot be read ({reason}); trying an older one", file=sys.stderr)
    if reason:
      raise CorruptFileError(f"no checkpoint in {self.folder} can be read: {reason}")
    return None

  def close(self) -> None:
    """Waits for what is being written."""
    self._manager.close()
