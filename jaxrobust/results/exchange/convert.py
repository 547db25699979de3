"""Import and export by the name of a format."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from jaxrobust.core.errors import CellMismatchError, CorruptFileError, JaxrobustError
from jaxrobust.core.files import atomic_write
from jaxrobust.core.registry import unknown_name
from jaxrobust.results.cell import Cell, Result, from_text, safe_name
from jaxrobust.results.exchange import leaderboard, nas, oodrobustbench, robustbench
from jaxrobust.results.exchange.common import Record
from jaxrobust.results.plain import dumps
from jaxrobust.results.reader import load_results
from jaxrobust.results.store import find_result, save_result
from jaxrobust.results.tables import ResultTable, load_tables, save_table, stored_differs


class Format(NamedTuple):
  """Reads and writes a format."""

  read: Callable[[Path], Iterator[Record | ResultTable]]
  write: Callable[[Sequence[Result], Iterable[ResultTable]], Iterator[tuple[str, str]]]


def _of_cells(write: Callable[[Sequence[Result]], Iterator[tuple[str, str]]]) -> Any:
  """Makes a writer of one that knows cells alone."""
  return lambda results, tables: write(results)


FORMATS = {
  "nas": Format(nas.read_nas, nas.write_nas),
  "oodrobustbench": Format(oodrobustbench.read, _of_cells(oodrobustbench.write)),
  "oodrobustbench-leaderboard": Format(leaderboard.read, _of_cells(leaderboard.write)),
  "robustbench": Format(robustbench.read, _of_cells(robustbench.write)),
}


def _format(name: str) -> Format:
  if name not in FORMATS:
    raise unknown_name("format", name, sorted(FORMATS))
  return FORMATS[name]


def import_results(name: str, path: str | Path, root: str | Path) -> list[Path]:
  """Writes the results of a file or folder in another format as cells or tables; those that are there already stay.

  Raises:
    CellMismatchError: a cell of that name holds another number, whoever it came from.
  """
  results, tables = [], []
  for record in _format(name).read(Path(path)):
    if isinstance(record, ResultTable):
      tables.append(record)
    else:
      results.append(from_text(dumps(record)))
  # All are compared before any is written: an import is whole or not at all.
  new: dict[Cell, Result] = {}
  for result in results:
    stored = new.get(result.cell) or find_result(root, result.cell, result.config)
    if stored is not None and stored.summary != result.summary:
      raise CellMismatchError(f"there are two numbers for {result.cell}; import into another results folder")
    if stored is None:
      new[result.cell] = result
  for table in tables:
    if stored_differs(root, table):
      raise CellMismatchError(f"there are two numbers for {table.name}; import into another results folder")
  written = [save_table(root, table) for table in tables]
  return [save_result(root, result) for result in new.values()] + [path for path in written if path is not None]


def export_results(
  name: str,
  root: str | os.PathLike,
  out: str | os.PathLike,
  on_error: Callable[[JaxrobustError], object] | None = None,
) -> list[Path]:
  """Writes the results of a folder in another format; of like cells, that with most examples."""
  best: dict[tuple, Result] = {}
  for result in load_results(root, on_error):
    cell = result.cell
    if type(result.summary.get("robust_accuracy")) not in (int, float):
      continue
    key = (cell.model, cell.data, cell.condition, cell.attack, cell.eps)
    if key not in best or (cell.n, -cell.seed) > (best[key].cell.n, -best[key].cell.seed):
      best[key] = result
  paths = []
  for relative, text in _format(name).write(list(best.values()), load_tables(root, on_error)):
    # Names come from cells, which may hold anything; an @ is part of theirs, and safe.
    path = Path(out, *(safe_name(part).replace("%40", "@") for part in relative.split("/")))
    atomic_write(path, text)
    paths.append(path)
  if not paths:
    raise CorruptFileError(f"nothing in {os.fspath(root)} can be written as {name}")
  return paths
