"""Numbers of many models in one file: a cell for each column and each model, without verdicts per example.

Published data sets have thousands of models and a hundred numbers for each; as a file per number they would be a
million files. A table says what its columns have in common once:

  {"table": 1, "name": "nas/cifar10/fgsm@Linf", "data": "cifar10", "n": 10000, "source": "…", "about": {"family": "…"},
   "cells": [{"condition": "clean", "attack": "linf-fgsm", "eps": "0.1/255"}, …], "models": ["nb201-0", …],
   "described": {"arch": ["|…|", …]}, "measures": {"robust_accuracy": [[0.806, …], …], "confusion": […]}}

Numbers are written as they were read, so nothing is rounded on the way through. `results.query` shows them among the
cells; the path of such a row is that of the table.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jaxrobust.core.errors import CellMismatchError, CorruptFileError, InputError, JaxrobustError, StorageError
from jaxrobust.core.files import atomic_write
from jaxrobust.core.reading import loads
from jaxrobust.results.cell import Cell, safe_name
from jaxrobust.results.folder import Folder, open_folder

TABLE = ".table.json"
FOLDER = "tables"
SCHEMA = 1
ACCURACY = "robust_accuracy"
# A data set of a hundred thousand models with their confusion matrices.
LARGEST_FILE = 1024 * 2**20


@dataclass(frozen=True, eq=False)
class ResultTable:
  """Numbers of many models.

  Attributes:
    name: of the table, with slashes; its file is called so.
    data, n: of all cells.
    source: who published the numbers.
    cells: (condition, attack, eps) of each column.
    models: one name per row.
    measures: name to rows; a row holds one entry per column (a number, a matrix, or None where there is none).
    about: what is known of all networks alike.
    described: what is known of each, by name: one text or None per row.
  """

  name: str
  data: str
  n: int
  source: str
  cells: tuple[tuple[str, str, str | None], ...]
  models: tuple[str, ...]
  measures: Mapping[str, list[list[Any]]]
  about: Mapping[str, Any] = field(default_factory=dict)
  described: Mapping[str, list[str | None]] = field(default_factory=dict)

  def __post_init__(self) -> None:
    if not self.models or not self.cells:
      raise InputError(f"the table {self.name!r} is empty")
    for condition, attack, eps in self.cells:  # A cell refuses what is no name and no budget.
      Cell(model=str(self.models[0]), data=self.data, condition=condition, attack=attack, eps=eps, n=self.n)
    if not all(isinstance(model, str) and model for model in self.models):
      raise InputError(f"the table {self.name!r} has a model without a name")
    for measure, rows in self.measures.items():
      if len(rows) != len(self.models) or any(len(row) != len(self.cells) for row in rows):
        raise InputError(f"{measure} of the table {self.name!r} is not {len(self.models)} rows of {len(self.cells)}")
    for row in self.measures.get(ACCURACY, ()):
      if not all(value is None or (type(value) in (int, float) and 0 <= value <= 1) for value in row):
        raise InputError(f"{ACCURACY} of the table {self.name!r} holds what is no fraction")
    if any(len(texts) != len(self.models) for texts in self.described.values()):
      raise InputError(f"the table {self.name!r} does not describe every model")

  def path(self, root: str | os.PathLike) -> Path:
    """Returns where the table lies under a results folder."""
    *parents, last = (safe_name(part) for part in self.name.split("/"))
    return Path(root, FOLDER, *parents, last + TABLE)

  @property
  def text(self) -> str:
    """Returns the one text of the table."""
    columns = [dict(zip(("condition", "attack", "eps"), cell, strict=True)) for cell in self.cells]
    common = {"table": SCHEMA, "name": self.name, "data": self.data, "n": self.n, "source": self.source}
    rest = {"about": dict(self.about), "cells": columns, "models": list(self.models)}
    values = {"described": dict(self.described), "measures": dict(self.measures)}
    return json.dumps({**common, **rest, **values}, separators=(",", ":"), allow_nan=False) + "\n"


def parse_table(raw: str | bytes) -> ResultTable:
  """Returns the table of a text; CorruptFileError for anything else."""
  try:
    document = loads(raw)
    if document["table"] != SCHEMA:
      raise CorruptFileError(f"a table of schema {document['table']!r}; this jaxrobust reads {SCHEMA}")
    cells = tuple((column["condition"], column["attack"], column["eps"]) for column in document["cells"])
    kept = {name: document[name] for name in ("name", "data", "n", "source", "measures", "about", "described")}
    return ResultTable(cells=cells, models=tuple(document["models"]), **kept)
  except (ValueError, KeyError, TypeError, AttributeError) as error:
    raise CorruptFileError(f"not a table of results ({type(error).__name__}: {error})") from None
  except InputError as error:
    raise CorruptFileError(str(error)) from None


def save_table(root: str | os.PathLike, table: ResultTable) -> Path | None:
  """Writes a table and returns its path; None where it is there already.

  Raises:
    CellMismatchError: a table of that name holds other numbers.
  """
  path = table.path(root)
  if stored_differs(root, table):
    raise CellMismatchError(f"there are two numbers for {table.name}; import into another results folder")
  if path.exists():
    return None
  atomic_write(path, table.text)
  return path


def stored_differs(root: str | os.PathLike, table: ResultTable) -> bool:
  """Tells whether a table of that name is there and holds something else."""
  try:
    return table.path(root).read_bytes() != table.text.encode()
  except OSError:
    return False


def find_tables(folder: Folder) -> list[str]:
  """Lists the paths of all tables in a folder."""
  return sorted(file.path for file in folder.files() if file.path.endswith(TABLE) and file.size <= LARGEST_FILE)


def read_tables(
  folder: Folder, on_error: Callable[[JaxrobustError], object] | None = None
) -> Iterator[tuple[str, ResultTable]]:
  """Reads every table of a folder with its path, one after another; damaged ones go to `on_error`, or raise."""
  for path in find_tables(folder):
    raw = folder.read([path])[0]
    try:
      if isinstance(raw, StorageError):
        raise raw
      yield path, parse_table(raw)
    except JaxrobustError as error:
      wrong = CorruptFileError(f"{folder.show(path)}: {error}")
      if on_error is None:
        raise wrong from None
      on_error(wrong)


def load_tables(
  root: str | os.PathLike, on_error: Callable[[JaxrobustError], object] | None = None
) -> Iterator[ResultTable]:
  """Reads every table under a folder or address."""
  return (table for _, table in read_tables(open_folder(root), on_error))
