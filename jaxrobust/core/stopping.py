"""Being asked to stop: SIGTERM, and SIGUSR1, which schedulers send ahead of it.

Work that can be continued looks at a `StopRequest` where it can be left; all other work is left at once.
"""

from __future__ import annotations

import signal
import threading
from typing import Any


class Terminated(BaseException):
  """Asked to stop with nothing to save; no `Exception`, so that nobody takes it for a failure and goes on."""


class StopRequest:
  """Context in which SIGTERM and SIGUSR1 set a flag, or raise `Terminated`, instead of ending the process."""

  def __init__(self, at_once: bool = False) -> None:
    self.asked = False
    self.at_once = at_once
    self._old: dict[int, Any] = {}

  def __enter__(self) -> StopRequest:
    if threading.current_thread() is threading.main_thread():
      for number in (signal.SIGTERM, signal.SIGUSR1):
        self._old[number] = signal.signal(number, self._ask)
    return self

  def __exit__(self, *_: object) -> None:
    for number, handler in self._old.items():
      signal.signal(number, handler)

  def _ask(self, *_: object) -> None:
    self.asked = True
    if self.at_once:
      raise Terminated
