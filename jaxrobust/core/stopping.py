"""Being asked to stop: Ctrl-C, SIGTERM, SIGHUP, and SIGUSR1, which schedulers send ahead of SIGTERM.

Work that can be continued looks at a `StopRequest` where it can be left; all other work is left at once. A signal
never becomes an exception in the middle of somebody else's code: Python would run its handler inside a callback of
JAX's, which swallows whatever is raised there. Commands (`watch_signals`) block the signals and wait for them in a
thread of their own, so that even a long compilation is left at the second one; elsewhere a handler sets a flag.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from typing import Any, NoReturn

from jaxrobust.core.errors import StoppedError
from jaxrobust.core.files import remove_unfinished

SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1") if hasattr(signal, name))
STOPPED, INTERRUPTED = 75, 130
TEXTS = {
  STOPPED: "asked to stop; what was finished is kept, run the same command to go on",
  INTERRUPTED: "interrupted; finished cells and saved partial verdicts are kept",
}


class Terminated(BaseException):
  """Asked to stop with nothing to save; no `Exception`, so that nobody takes it for a failure and goes on."""


def exit_code(number: int) -> int:
  """Returns the code that a process ends with after a signal.

  >>> exit_code(signal.SIGTERM), exit_code(signal.SIGINT)
  (75, 130)
  """
  return INTERRUPTED if number == signal.SIGINT else STOPPED


class StopRequest:
  """Context in which signals set a flag instead of ending the process; a second one ends it at once.

  Attributes:
    asked: whether there was one.
    number: which.
  """

  # The innermost one that is entered, and whether a thread waits for signals.
  _current: StopRequest | None = None
  _watched = False

  def __init__(self, at_once: bool = False) -> None:
    self.asked = False
    self.number = 0
    self.at_once = at_once
    self._old: dict[int, Any] = {}
    self._outer: StopRequest | None = None

  def __enter__(self) -> StopRequest:
    if threading.current_thread() is not threading.main_thread():
      return self
    self._outer, StopRequest._current = StopRequest._current, self
    if not StopRequest._watched:
      for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # As nohup and background jobs have it.
          self._old[number] = signal.signal(number, self._handle)
    return self

  def __exit__(self, *_: object) -> None:
    if StopRequest._current is self:
      StopRequest._current = self._outer
    for number, handler in self._old.items():
      signal.signal(number, handler)
    self._old = {}

  def error(self, where: str) -> StoppedError:
    """Returns what to raise once all is saved; its exit code says which signal it was."""
    stopped = StoppedError(f"asked to stop {where}; run the same command to go on")
    stopped.exit_code = exit_code(self.number)
    return stopped

  def ask(self, number: int) -> None:
    """Sets the flag."""
    self.number, self.asked = number, True

  def _handle(self, number: int, _: object) -> None:
    again = self.asked
    self.ask(number)
    if self.at_once or again:
      raise KeyboardInterrupt if number == signal.SIGINT else Terminated


def watch_signals() -> None:
  """Waits for signals in a thread from now on: for the process of a command, before it starts any other thread.

  They are blocked in all threads, which a process that is started anew in the same one (`execv`) inherits: nothing is
  lost on the way. Signals that are ignored stay ignored.
  """
  if not hasattr(signal, "sigwait") or StopRequest._watched:
    return
  wanted = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
  signal.pthread_sigmask(signal.SIG_BLOCK, wanted)
  StopRequest._watched = True
  threading.Thread(target=_watch, args=(wanted,), name="signals", daemon=True).start()


def unblock_signals() -> None:
  """Lets a process that a command starts (`preexec_fn`) have its signals again: it inherits that they are blocked."""
  if hasattr(signal, "pthread_sigmask"):
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)


def _watch(numbers: list[int]) -> None:
  while True:
    number = signal.sigwait(numbers)
    request = StopRequest._current
    if request is None or request.asked or request.at_once:
      end_process(number)
    request.ask(number)


def end_process(number: int) -> NoReturn:
  """Ends the process now, whatever its other threads do: says so, and leaves no unfinished file behind."""
  code = exit_code(number)
  flush = threading.Thread(target=_flush, daemon=True)
  flush.start()
  flush.join(1.0)  # The thread that was writing may hold the lock.
  with contextlib.suppress(OSError):
    # The progress display hides the cursor of a terminal.
    os.write(2, (("\x1b[?25h\n" if os.isatty(2) else "") + TEXTS[code] + "\n").encode())
  remove_unfinished()
  os._exit(code)


def _flush() -> None:
  with contextlib.suppress(Exception):
    sys.stdout.flush()
    sys.stderr.flush()
