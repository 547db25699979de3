"""One writer of a report at a time, and a word about what it replaces."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from jaxrobust.core.errors import InputError, JaxrobustError, StorageError
from jaxrobust.core.files import write_json
from jaxrobust.core.reading import read_json

_LOCK, _SOURCES = ".report.lock", ".report.json"


@contextlib.contextmanager
def only_writer(out: Path, roots: Sequence[str]) -> Iterator[list[str]]:
  """Opens the context of the one process that writes a report to a folder; gives problems that its readers should know.

  Two reports that are written at once would leave a page of both. The system takes the lock from a process that dies.

  Args:
    out: the folder of the report.
    roots: the results it is made from.

  Raises:
    InputError: another process is writing there.
  """
  try:
    out.mkdir(parents=True, exist_ok=True)
    handle = os.open(out / _LOCK, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o644)
  except OSError as error:
    raise StorageError(f"cannot write {out / _LOCK}: {error.strerror or error}") from None
  try:
    _lock(handle, out)
    full = sorted(root if "://" in root else os.path.realpath(root) for root in roots)
    before = _sources(out)
    known = before is None or before == full
    yield [] if known else [f"{out} showed {', '.join(before or ())} before; this report replaces it"]
    if before != full:
      write_json(out / _SOURCES, {"results": full})
  finally:
    os.close(handle)


def _lock(handle: int, out: Path) -> None:
  try:
    import fcntl
  except ImportError:  # Not on this system.
    return
  try:
    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
  except BlockingIOError:
    raise InputError(f"another process is writing a report to {out}; wait for it, or use another folder") from None
  except OSError:  # Some network disks have no locks.
    return


def _sources(out: Path) -> list[str] | None:
  """Returns what the report in a folder was made from; None where it does not say."""
  try:
    return [str(root) for root in read_json(out / _SOURCES)["results"]]
  except (JaxrobustError, KeyError, TypeError):
    return None
