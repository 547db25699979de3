"""One cell computed by several processes, without lockstep.

Each process writes the examples it decided as a shard beside the cell's file: a result of the same
cell whose arrays hold only those examples, and whose array `index` says which. Whoever finds all
shards present merges them. Nobody waits for anybody, so nobody can hang.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jaxrobust.core.errors import CellMismatchError, CorruptFileError, InputError, StorageError
from jaxrobust.results.cell import INDEX, Cell, Result, to_text
from jaxrobust.results.plain import describe, differences
from jaxrobust.results.store import atomic_write, find_at, load_result, save_result, sibling

# Arrays of a shard that only the summary of the whole is made from; they are not kept in it.
SUMMARY_ONLY = "_"

Findings = Sequence[Mapping[str, Any]]
Summarize = Callable[[dict[str, np.ndarray]], tuple[dict[str, Any], Findings]]
Combine = Callable[[Sequence[Path]], Mapping[str, bytes | str]]

_SHARD = re.compile(r"(.+)\.shard-(\d{5})-of-(\d{5})\.json")


def shard_path(path: str | Path, index: int, count: int) -> Path:
  """Returns the file of shard `index` of `count`, beside the cell's own file.

  Example:
    >>> shard_path("out/none.n10.seed0.json", 0, 2).name
    'none.n10.seed0.shard-00000-of-00002.json'
  """
  if not 0 <= index < count:
    raise InputError(f"there is no shard {index} of {count}")
  return sibling(path, f".shard-{index:05d}-of-{count:05d}.json")


def save_shard(root: str | Path, result: Result, index: int, count: int) -> Path:
  """Writes one process's part of a cell and returns the path."""
  if INDEX not in result.examples:
    raise InputError(f"a shard needs an array {INDEX!r} saying which examples it holds")
  path = shard_path(result.cell.path(root), index, count)
  atomic_write(path, to_text(result))
  return path


def parse_shard_name(name: str) -> tuple[str, int, int] | None:
  """Returns the cell file, index and count in a shard's file name; None for any other name.

  >>> parse_shard_name("none.n10.seed0.shard-00000-of-00002.json")
  ('none.n10.seed0.json', 0, 2)
  """
  match = _SHARD.fullmatch(name) if ".shard-" in name else None
  return match and (match[1] + ".json", int(match[2]), int(match[3]))


def find_shard(root: str | Path, cell: Cell, config: Mapping[str, Any], index: int, count: int) -> Result | None:
  """Returns the stored shard, or None; refuses like `find_result` where the configuration differs."""
  return find_at(shard_path(cell.path(root), index, count), cell, config)


def merge_shards(paths: Sequence[str | Path], summarize: Summarize) -> Result:
  """Returns one result from the shards of a cell, as if one process had computed it.

  The arrays are put in the order of the examples and `index` is dropped. Provenance comes from the
  first shard by name.

  Args:
    summarize: merged arrays -> summary and findings; those of the shards are not used.

  Raises:
    CellMismatchError: the shards were made with different cells or configurations.
    CorruptFileError: an example is missing or held twice, or the shards hold different arrays.
  """
  ordered = sorted(Path(path) for path in paths)
  return merge_results(ordered, [load_result(path) for path in ordered], summarize)


def merge_results(ordered: Sequence[Path], shards: Sequence[Result], summarize: Summarize) -> Result:
  """Does `merge_shards` for shards that are already read; the paths are for messages."""
  if not shards:
    raise InputError("there are no shards to merge")
  first = shards[0]
  for path, shard in zip(ordered, shards, strict=True):
    _check_same(ordered[0], first, path, shard)
  order = _order([shard.examples[INDEX] for shard in shards], first.cell.n, ordered[0])
  examples = {
    name: np.concatenate([shard.examples[name] for shard in shards])[order] for name in first.examples if name != INDEX
  }
  summary, findings = summarize(examples)
  examples = {name: array for name, array in examples.items() if not name.startswith(SUMMARY_ONLY)}
  return Result(
    cell=first.cell,
    config=first.config,
    summary=summary,
    examples=examples,
    provenance=first.provenance,
    findings=findings,
  )


def finish_shards(
  root: str | Path, cell: Cell, count: int, summarize: Summarize, combine: Combine | None = None
) -> Path | None:
  """Merges the shards of a cell if all are there; None while some are still being computed.

  Every process calls this after writing its shard. Several may merge at once: they write the same
  bytes. One may find the shards gone, because another has just finished; the result is there then.

  Args:
    combine: files of the shards -> ending and content of each file that is to lie beside the cell.
  """
  final = cell.path(root)
  paths = [shard_path(final, index, count) for index in range(count)]
  if not all(path.exists() for path in paths):
    return final if final.exists() else None
  try:
    merged = merge_shards(paths, summarize)
  except StorageError:
    if final.exists():
      return final
    raise
  beside = {} if combine is None else combine(paths)
  if final.exists() and not all(path.exists() for path in paths):
    return final  # Another process was faster: what was just read may be half of what was there.
  for ending, content in beside.items():
    atomic_write(sibling(final, ending), content)
  save_result(root, merged)
  _remove_shards(final)
  return final


def _remove_shards(final: Path) -> None:
  """Removes also those of an earlier run with another number of processes, and what lies beside them."""
  found = list(final.parent.glob(sibling(final, ".shard-*").name))
  # Shards first: whoever sees all of them has seen all that lies beside them.
  for path in sorted(found, key=lambda path: _SHARD.fullmatch(path.name) is None):
    path.unlink(missing_ok=True)


def _check_same(first_path: Path, first: Result, path: Path, shard: Result) -> None:
  found = [
    *differences(vars(first.cell), vars(shard.cell), "cell"),
    *differences(first.config, shard.config),
  ]
  if found:
    raise CellMismatchError(
      f"{path} and {first_path.name} were made with different configurations: "
      f"{describe(found, left='there', right='here')}; remove the outdated ones"
    )
  if INDEX not in shard.examples or shard.examples[INDEX].dtype != np.int32:
    raise CorruptFileError(f"{path}: not a shard (no int32 array {INDEX!r})")
  ours, theirs = ({name: array.dtype for name, array in result.examples.items()} for result in (first, shard))
  if ours != theirs:
    wrong = ", ".join(sorted({name for name, _ in ours.items() ^ theirs.items()}))
    raise CorruptFileError(f"{path}: holds other arrays than {first_path.name} ({wrong})")


def _order(indices: list[np.ndarray], n: int, path: Path) -> np.ndarray:
  """Returns the permutation that sorts the examples of all shards, once they are known to be 0 … n-1."""
  index = np.concatenate(indices)
  outside = index[(index < 0) | (index >= n)]
  if outside.size:
    raise CorruptFileError(f"{path}: the shards hold example {outside[0]}, outside 0 … {n - 1}")
  held = np.bincount(index, minlength=n)
  if (held > 1).any():
    raise CorruptFileError(f"{path}: the shards overlap (example {held.argmax()} is held {held.max()} times)")
  if (held == 0).any():
    raise CorruptFileError(f"{path}: the shards miss {(held == 0).sum()} of {n} examples (first: {held.argmin()})")
  return np.argsort(index, kind="stable")
