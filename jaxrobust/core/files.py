"""Files that are there as a whole or not at all."""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from jaxrobust.core.errors import StorageError

# The machine is part of the name: on a shared disk the process of another one may be alive.
_HOST = re.sub(r"[^A-Za-z0-9]+", "_", socket.gethostname())[:40] or "host"
_TEMPORARY = re.compile(r"\.tmp-(?:([A-Za-z0-9_]+)-)?([0-9]+)-[0-9a-f]{12}")
# Whatever process wrote a temporary file, it does not write it for a day.
_ABANDONED_SECONDS = 86_400.0
_unfinished: set[Path] = set()
_swept: set[Path] = set()


def temporary(folder: Path) -> Path:
  """Returns an unused name in a folder."""
  # The leading dot keeps what a killed writer left behind out of every query.
  return folder / f".tmp-{_HOST}-{os.getpid()}-{secrets.token_hex(6)}"


def sweep(folder: Path) -> int:
  """Removes temporary files of processes that are gone, and returns how many; those of others are left alone."""
  count = 0
  with contextlib.suppress(OSError):
    for entry in os.scandir(folder):
      if entry.name.startswith(".tmp-") and _is_abandoned(entry):
        with contextlib.suppress(OSError):
          os.unlink(entry.path)
          count += 1
  return count


def _is_abandoned(entry: os.DirEntry) -> bool:
  match = _TEMPORARY.fullmatch(entry.name)
  if match is None:
    return False
  if match[1] == _HOST:
    return not _is_alive(int(match[2]))
  # Another machine's, or of a version that did not say whose. The clock of the disk is asked, not ours.
  return _folder_time(entry.path) - entry.stat(follow_symlinks=False).st_mtime > _ABANDONED_SECONDS


def _folder_time(path: str) -> float:
  """Returns when its folder was last written to: by us, just now, where this matters."""
  return os.stat(os.path.dirname(path)).st_mtime


def _is_alive(pid: int) -> bool:
  try:
    os.kill(pid, 0)
  except (ProcessLookupError, OverflowError):
    return False
  except OSError:
    return True
  return True


def remove_unfinished() -> None:
  """Removes what this process is just writing, for a process that ends at once."""
  for path in list(_unfinished):
    with contextlib.suppress(OSError):
      path.unlink(missing_ok=True)


def atomic_write(path: str | Path, data: bytes | str | Callable[[BinaryIO], object]) -> None:
  """Writes a file so that readers see the old content or all of the new, never a part.

  Large content need not be in memory as a whole: a function is handed the open file.

  The data reaches the disk (fsync) under another name in the same folder before it takes the
  final name, so a kill or a full disk at any moment leaves at most an unused file.
  """
  path = Path(path)
  raw = data.encode("utf-8") if isinstance(data, str) else data
  write = raw if callable(raw) else lambda file: file.write(raw)
  unfinished = temporary(path.parent)
  try:
    path.parent.mkdir(parents=True, exist_ok=True)
    _unfinished.add(unfinished)
    try:
      with open(unfinished, "xb") as file:
        write(file)
        file.flush()
        os.fsync(file.fileno())
      os.replace(unfinished, path)
    except BaseException:
      unfinished.unlink(missing_ok=True)
      raise
    finally:
      _unfinished.discard(unfinished)
  except OSError as error:
    raise StorageError(f"cannot write {path}: {error.strerror or error}") from None
  # Whoever was killed while writing here has to write here again: once a folder is often enough.
  if path.parent not in _swept:
    _swept.add(path.parent)
    sweep(path.parent)


def write_json(path: str | Path, value: Any) -> None:
  """Writes a small file for people and programs: indented, keys in order, whole or not at all."""
  atomic_write(path, json.dumps(value, indent=2, sort_keys=True) + "\n")
