"""Progress inside a long cell, so that a killed run resumes where it was.

A partial file is a convenience: without it the cell is computed from its beginning.
That is why reading one never fails; whatever is wrong with it, the answer is "start over".
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from jaxrobust.core.errors import InputError
from jaxrobust.core.reading import loads, read_npz
from jaxrobust.results.plain import differences, dumps, plain
from jaxrobust.results.store import atomic_write, sibling

PARTIAL = ".partial.npz"

# The prefix keeps the caller's names apart from ours and from the parameters of numpy's savez.
_HEADER, _ARRAY = "header", "array/"


def partial_path(path: str | Path) -> Path:
  """Returns the partial file beside a cell (or shard) file.

  Example:
    >>> partial_path("out/none.n10.seed0.json").name
    'none.n10.seed0.partial.npz'
  """
  return sibling(path, PARTIAL)


def save_partial(
  path: str | Path, config: Mapping[str, Any], arrays: Mapping[str, np.ndarray], meta: Mapping[str, Any]
) -> None:
  """Writes the progress of the cell at `path`, replacing any earlier progress as a whole.

  Args:
    path: the cell's own file; the partial file lies beside it.
    config: what decides the verdict; progress made under another one is not reused.
    arrays: verdicts so far, of any shape and any type but object.
    meta: plain values, such as how many examples are decided.
  """
  for name, array in arrays.items():
    if array.dtype.hasobject:
      raise InputError(f"array {name!r} holds Python objects, which are never stored")
  header = {
    "config": plain(config, "config", null_for_nan=False),
    "meta": plain(meta, "meta", null_for_nan=True),
    # A zip checks the content of its entries but not that all of them are still listed.
    "arrays": sorted(arrays),
  }
  entries = {_ARRAY + name: array for name, array in arrays.items()}
  entries[_HEADER] = np.frombuffer(dumps(header).encode("ascii"), np.uint8)
  # Array by array into the file: in memory a snapshot of many slots would be there twice.
  atomic_write(partial_path(path), lambda file: np.savez(file, **entries))  # type: ignore[arg-type]


def load_partial(path: str | Path, config: Mapping[str, Any]) -> tuple[dict[str, np.ndarray], dict[str, Any]] | None:
  """Returns the arrays and meta saved for the cell at `path`, or None.

  None where there is no progress, where it was made under another configuration, and where the
  file is damaged: that only costs time, while a guess would cost the verdict.
  """
  asked = plain(config, "config", null_for_nan=False)
  try:
    file = read_npz(partial_path(path), "a damaged partial file")
    header = loads(file[_HEADER].tobytes())
    if next(differences(header["config"], asked), None) is not None:
      return None
    return {name: file[_ARRAY + name] for name in header["arrays"]}, header["meta"]
  except Exception:  # Missing, damaged, or a header with anything in it.
    return None


def remove_partial(path: str | Path) -> None:
  """Removes the progress of the cell at `path`, if there is any."""
  partial_path(path).unlink(missing_ok=True)
