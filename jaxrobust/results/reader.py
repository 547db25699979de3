"""All results of a folder, wherever it is: cells, and shards that nobody has merged yet.

Timings, partial and temporary files, and files of other origin, are passed over. A damaged file costs its own result
and nothing else.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from jaxrobust.core.errors import CellMismatchError, CorruptFileError, JaxrobustError, StorageError
from jaxrobust.core.reading import LARGEST_TEXT, loads
from jaxrobust.results.cell import SCHEMA, Result, from_text, to_text
from jaxrobust.results.folder import File, Folder, open_folder
from jaxrobust.results.shards import merge_results, parse_shard_name

BATCH = 256

_CELL_FILE = re.compile(r"[^.].*\.n[0-9]+\.seed[0-9]+\.json")


class ResultFiles(NamedTuple):
  """One result to be read: a cell file, or the shards of a cell that is not merged.

  Attributes:
    path: of the cell file, also where only its shards are there.
    stamp: changes when any of the files does.
    parts: the files to read.
    missing: how many shards are not there yet.
  """

  path: str
  stamp: str
  parts: tuple[File, ...]
  missing: int = 0


def find_items(folder: Folder) -> list[ResultFiles]:
  """Returns everything in the folder that is or will be a result, in the order of the paths."""
  cells: dict[str, File] = {}
  shards: dict[str, dict[int, dict[int, File]]] = {}
  for file in folder.files():
    parent, _, name = file.path.rpartition("/")
    shard = parse_shard_name(name)
    if shard is not None:
      final = f"{parent}/{shard[0]}" if parent else shard[0]
      shards.setdefault(final, {}).setdefault(shard[2], {})[shard[1]] = file
    elif _CELL_FILE.fullmatch(name):
      cells[file.path] = file
  items = [ResultFiles(path, f"{file.size} {file.stamp}", (file,)) for path, file in cells.items()]
  items.extend(_shard_item(path, counts) for path, counts in shards.items() if path not in cells)
  return sorted(items, key=lambda item: item.path.split("/"))


def _shard_item(path: str, counts: Mapping[int, Mapping[int, File]]) -> ResultFiles:
  """Returns the set of shards that misses least; runs with other numbers of processes may have left theirs."""
  count = min(counts, key=lambda count: (count - len(counts[count]), -count))
  parts = tuple(counts[count][index] for index in sorted(counts[count]))
  return ResultFiles(path, " ".join(f"{part.size} {part.stamp}" for part in parts), parts, count - len(parts))


def read_items(
  folder: Folder, items: Sequence[ResultFiles]
) -> Iterator[tuple[ResultFiles, list[bytes] | JaxrobustError]]:
  """Yields the bytes of each item's files, or the reason why there are none."""
  for start in range(0, len(items), BATCH):
    batch = items[start : start + BATCH]
    wanted = [part.path for item in batch if _refusal(item) is None for part in item.parts]
    contents = iter(folder.read(wanted))
    for item in batch:
      refusal = _refusal(item)
      if refusal is not None:
        yield item, refusal
        continue
      parts = [next(contents) for _ in item.parts]
      failed = next((part for part in parts if isinstance(part, StorageError)), None)
      yield item, failed if failed is not None else [part for part in parts if isinstance(part, bytes)]


def _refusal(item: ResultFiles) -> JaxrobustError | None:
  if item.missing:
    return StorageError(f"{item.missing} of {item.missing + len(item.parts)} shards are not there yet")
  if any(part.size > LARGEST_TEXT for part in item.parts):
    return CorruptFileError(f"larger than {LARGEST_TEXT // 2**20} MiB; no cell is")
  return None


def parse_item(item: ResultFiles, parts: Sequence[bytes]) -> Result:
  """Returns the result in the bytes of an item, merged where it came in shards."""
  results = [from_text(part) for part in parts]
  if len(results) == 1 and parse_shard_name(item.parts[0].path) is None:
    return results[0]
  # The counts of the shards add up; whoever merges them for good draws the conclusions anew.
  summary = add_summaries([result.summary for result in results])
  findings: list[Mapping[str, Any]] = []
  for result in results:
    findings.extend(finding for finding in result.findings if finding not in findings)
  return merge_results([Path(part.path) for part in item.parts], results, lambda _: (summary, findings))


def add_summaries(summaries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
  """Adds counts, and the fractions they give; what does not add up (a median) is left out.

  >>> add_summaries([{"n": 4, "robust": 1, "median_distance": 1.0}, {"n": 6, "robust": 2, "median_distance": 3.0}])
  {'n': 10, 'robust': 3, 'robust_accuracy': 0.3}
  """
  counts = {
    name: sum(summary[name] for summary in summaries)
    for name in summaries[0]
    if all(type(summary.get(name)) is int for summary in summaries)
  }
  if counts.get("n"):
    fractions = (("correct", "accuracy"), ("robust", "robust_accuracy"))
    counts |= {name: counts[count] / counts["n"] for count, name in fractions if count in counts}
  return counts


def load_results(
  root: str | os.PathLike, on_error: Callable[[JaxrobustError], object] | None = None
) -> Iterator[Result]:
  """Returns all results under a folder or address, in the order of their paths.

  Args:
    on_error: gets the error of each damaged file or unfinished set of shards, which is then passed over; without it
      the first damaged file raises, and unfinished sets are passed over.
  """
  folder = open_folder(root)
  return (result for _, result in read_results(folder, find_items(folder), on_error))


def read_results(
  folder: Folder, items: Sequence[ResultFiles], on_error: Callable[[JaxrobustError], object] | None = None
) -> Iterator[tuple[ResultFiles, Result]]:
  """Does as `load_results`, with the item each result came from."""
  for item, parts in read_items(folder, items):
    try:
      if isinstance(parts, JaxrobustError):
        raise parts
      yield item, parse_item(item, parts)
    except (CorruptFileError, CellMismatchError, StorageError) as error:
      if on_error is not None:
        on_error(CorruptFileError(f"{folder.show(item.path)}: {error}"))
      elif not item.missing:
        text = f"{folder.show(item.path)}: {error}; remove the file to compute the cell again"
        raise CorruptFileError(text) from None


def migrate_folder(root: str | os.PathLike) -> int:
  """Writes every cell of an earlier schema anew, in the present one; returns how many there were.

  Not needed for reading, which migrates as it goes; it spares later versions the old schemas. Damaged files stay.
  """
  folder, count = open_folder(root), 0
  for item, parts in read_items(folder, [item for item in find_items(folder) if len(item.parts) == 1]):
    try:
      if isinstance(parts, JaxrobustError) or loads(parts[0])["schema"] == SCHEMA:
        continue
      text = to_text(from_text(parts[0]))
    except (JaxrobustError, ValueError, TypeError, KeyError):
      continue
    folder.write(item.parts[0].path, text.encode("utf-8"))
    count += 1
  return count
