"""A profile of a few steps: `jaxrobust train --profile` writes one that TensorBoard and Perfetto read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax

# Steps after a start that are left out, compilation among them, and steps that are recorded.
LEFT_OUT, RECORDED = 3, 5


class Profile:
  """Records some steps of a run into `folder`; nothing where that is None.

  >>> profile = Profile(None)
  >>> profile.before(0), profile.after(0, None)
  (None, None)
  """

  def __init__(self, folder: Path | None):
    self.folder, self._first, self._on = folder, -1, False

  def before(self, step: int) -> None:
    """Begins to record where it is time to; called before each step."""
    if self.folder is None:
      return
    self._first = step + LEFT_OUT if self._first < 0 else self._first
    if step == self._first:
      jax.profiler.start_trace(str(self.folder))
      self._on = True

  def after(self, step: int, result: Any) -> None:
    """Ends the record after its last step, once `result` is there."""
    if self._on and step >= self._first + RECORDED - 1:
      jax.block_until_ready(result)
      self.close()

  def close(self) -> None:
    """Ends a record that a short run or an error has left open."""
    if self._on:
      jax.profiler.stop_trace()
      self._on = False
