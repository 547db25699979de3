"""Files that are there as a whole or not at all."""

from __future__ import annotations

import json
import os
import secrets
from pathlib import Path
from typing import Any

from jaxrobust.core.errors import StorageError


def temporary(folder: Path) -> Path:
  """Returns an unused name in a folder."""
  # The leading dot keeps what a killed writer left behind out of every query.
  return folder / f".tmp-{os.getpid()}-{secrets.token_hex(6)}"


def atomic_write(path: str | Path, data: bytes | str) -> None:
  """Writes a file so that readers see the old content or all of the new, never a part.

  The data reaches the disk (fsync) under another name in the same folder before it takes the
  final name, so a kill or a full disk at any moment leaves at most an unused file.
  """
  path = Path(path)
  raw = data.encode("utf-8") if isinstance(data, str) else data
  unfinished = temporary(path.parent)
  try:
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
      with open(unfinished, "xb") as file:
        file.write(raw)
        file.flush()
        os.fsync(file.fileno())
      os.replace(unfinished, path)
    except BaseException:
      unfinished.unlink(missing_ok=True)
      raise
  except OSError as error:
    raise StorageError(f"cannot write {path}: {error.strerror or error}") from None


def write_json(path: str | Path, value: Any) -> None:
  """A small file for people and programs: indented, keys in order, whole or not at all."""
  atomic_write(path, json.dumps(value, indent=2, sort_keys=True) + "\n")
