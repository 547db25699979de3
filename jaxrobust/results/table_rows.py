"""Tables of many models as rows of `cells`: one per model and column, made in columns rather than one by one."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from jaxrobust.core.errors import CorruptFileError
from jaxrobust.core.optional import require
from jaxrobust.results.folder import Folder
from jaxrobust.results.ids import attack_norm, oblivious_by, transfer_source
from jaxrobust.results.rows import COLUMNS, budget_value, parse_corruption
from jaxrobust.results.tables import ACCURACY, ResultTable, read_tables

_TYPES = {"VARCHAR": "string", "BIGINT": "int64", "DOUBLE": "float64"}


def table_rows(folder: Folder) -> tuple[Any, list[tuple[str, str]]]:
  """Reads all tables of a folder.

  Returns:
    An Arrow table with the columns of `rows.COLUMNS`, and (path, reason) of each table that is damaged.
  """
  pa = require("pyarrow", "report", "the results index")
  problems: list[tuple[str, str]] = []
  refuse = lambda error: problems.append((str(error).partition(": ")[0], str(error).partition(": ")[2]))
  parts = [_rows(pa, path, table) for path, table in read_tables(folder, refuse)]
  schema = pa.schema([(name, getattr(pa, _TYPES[kind])()) for name, kind in COLUMNS.items()])
  return pa.concat_tables([schema.empty_table(), *(part.cast(schema) for part in parts)]), problems


def _rows(pa: Any, path: str, table: ResultTable) -> Any:
  if ACCURACY not in table.measures:
    raise CorruptFileError(f"{path}: a table without accuracies")
  models, columns = len(table.models), len(table.cells)
  values = np.array(table.measures[ACCURACY], np.float64).ravel()  # None becomes NaN.
  known = np.flatnonzero(np.isfinite(values))
  by_model, by_column = known // columns, known % columns
  values = values[known]

  def constant(value: Any) -> list[Any]:
    return [value] * columns

  about = {name: table.about.get(name) for name in ("arch", "family", "technique", "params")}
  corruptions = [parse_corruption(condition) or (None, None) for condition, _, _ in table.cells]
  per_column = {
    "path": constant(path),
    "data": constant(table.data),
    "condition": [condition for condition, _, _ in table.cells],
    "corruption": [corruption[0] for corruption in corruptions],
    "severity": [corruption[1] for corruption in corruptions],
    "attack": [attack for _, attack, _ in table.cells],
    "norm": [attack_norm(attack) for _, attack, _ in table.cells],
    "threat": [attack_norm(attack) for _, attack, _ in table.cells],
    "oblivious": [oblivious_by(attack) for _, attack, _ in table.cells],
    "source": [transfer_source(attack) for _, attack, _ in table.cells],
    "eps": [eps for _, _, eps in table.cells],
    "budget": [budget_value(eps) for _, _, eps in table.cells],
    "n": constant(table.n),
    "seed": constant(0),
    "findings": constant(0),
    "provenance": constant(json.dumps({"source": table.source})),
  }
  per_model = {"model": list(table.models), **{name: [value] * models for name, value in about.items()}}
  per_model |= {name: list(texts) for name, texts in table.described.items() if name in COLUMNS}
  clean = np.array([attack == "none" for _, attack, _ in table.cells])[by_column]
  numbers = {
    "robust_accuracy": pa.array(values),
    "accuracy": pa.array(values, mask=~clean),
    "robust": pa.array(np.rint(values * table.n).astype(np.int64)),
  }
  found = {}
  for name, kind in COLUMNS.items():
    dtype = getattr(pa, _TYPES[kind])()
    if name in numbers:
      found[name] = numbers[name]
    elif name in per_column:
      found[name] = pa.array(per_column[name], dtype).take(pa.array(by_column))
    elif name in per_model:
      found[name] = pa.array(per_model[name], dtype).take(pa.array(by_model))
    else:
      found[name] = pa.nulls(len(known), dtype)
  return pa.table(found)
