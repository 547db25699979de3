"""Results on disk: written whole or not at all, found again, refused where they disagree."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jaxrobust.core.errors import CellMismatchError, CorruptFileError, StorageError
from jaxrobust.core.files import atomic_write, sweep, temporary
from jaxrobust.core.reading import LARGEST_TEXT, read_if_there
from jaxrobust.results.cell import Cell, Result, from_text, to_text
from jaxrobust.results.plain import describe, differences, dumps, plain

# Beside a cell: how long it took, and a few of its images.
TIMING, IMAGES = ".timing.json", ".images.npz"


def check_writable(root: str | Path) -> None:
  """Makes the results folder and proves that a file can be written there.

  Called before any work starts: hours of computing must not end in "permission denied".
  """
  root = Path(root)
  probe = temporary(root)
  try:
    root.mkdir(parents=True, exist_ok=True)
    try:
      probe.write_bytes(b"probe")
    finally:
      probe.unlink(missing_ok=True)
    sweep(root)
  except OSError as error:
    raise StorageError(f"cannot write results to {root}: {error.strerror or error}") from None


def save_result(root: str | Path, result: Result) -> Path:
  """Writes the result to its cell's place under `root` and returns the path."""
  path = result.cell.path(root)
  atomic_write(path, to_text(result))
  return path


def load_result(path: str | Path) -> Result:
  """Reads one result file; CorruptFileError, with path and reason, if it is not whole and valid."""
  raw = _read(Path(path))
  if raw is None:
    raise StorageError(f"cannot read {path}: no such file")
  return _parse(Path(path), raw)


def _read(path: Path) -> bytes | None:
  return read_if_there(path, LARGEST_TEXT)


def _parse(path: Path, raw: bytes) -> Result:
  try:
    return from_text(raw)
  except CorruptFileError as error:
    raise CorruptFileError(f"{path}: {error}; remove the file to compute the cell again") from None


def find_result(root: str | Path, cell: Cell, config: Mapping[str, Any]) -> Result | None:
  """Returns the stored result of a cell, or None where there is none.

  Raises:
    CellMismatchError: the stored result was made with another configuration. It is neither
      reused (it answers another question) nor overwritten (it may have cost days).
  """
  return find_at(cell.path(root), cell, config)


def find_at(path: Path, cell: Cell, config: Mapping[str, Any]) -> Result | None:
  """Does as `find_result`, for a file whose path is known."""
  raw = _read(path)
  if raw is None:
    return None
  result = _parse(path, raw)
  asked = plain(config, "config", null_for_nan=False)
  found = list(differences(result.config, asked))
  if result.cell != cell:
    found = [*differences(vars(result.cell), vars(cell), "cell"), *found]
  if found:
    raise CellMismatchError(
      f"{path} was made with another configuration: {describe(found)}; use another results folder or remove the file"
    )
  return result


def sibling(path: str | Path, suffix: str) -> Path:
  """Returns the file beside a cell's that shares its name up to `.json`.

  Example:
    >>> sibling("out/none.n10.seed0.json", TIMING).name
    'none.n10.seed0.timing.json'
  """
  path = Path(path)
  return path.with_name(path.name.removesuffix(".json") + suffix)


def save_timing(path: str | Path, timing: Mapping[str, Any]) -> Path:
  """Writes times and efficiency beside the cell file `path`.

  Apart from the verdicts, because two runs never take equally long but must agree to the byte.
  """
  target = sibling(path, TIMING)
  atomic_write(target, timing_text(timing))
  return target


def timing_text(timing: Mapping[str, Any]) -> str:
  """Returns the content of a timing file."""
  return dumps(plain(timing, "timing", null_for_nan=True))
