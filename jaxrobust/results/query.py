"""SQL over a results folder.

`cells` has one row per result (`rows.COLUMNS`), those of tables of many models included, `metrics` one per number of a
suite's summary (`metrics.METRIC_COLUMNS`), `findings` one per warning and per damaged file. DuckDB's own functions are
there but those that reach beyond the tables: a query cannot read or write files, fetch anything, load extensions or
change settings, unless it is trusted with `files=True`. `wilson_low(k, n)` and `wilson_high(k, n)` are the ends of the
95 % interval of a proportion.

  >>> query("results", "SELECT model, max(robust_accuracy) FROM cells GROUP BY model")  # doctest: +SKIP
"""

from __future__ import annotations

import json
import os
from typing import Any

from jaxrobust.core.errors import InputError, first_line
from jaxrobust.core.optional import require
from jaxrobust.results.folder import Folder, open_folder
from jaxrobust.results.index import build_index
from jaxrobust.results.metrics import METRIC_COLUMNS, metric_rows, read_summaries
from jaxrobust.results.rows import COLUMNS
from jaxrobust.results.table_rows import table_rows

_PURPOSE = "querying results"
_WILSON = """
CREATE MACRO wilson_low(k, n) AS
  (k + 1.9208 - 1.96 * sqrt(k * (n - k) / n::DOUBLE + 0.9604)) / (n + 3.8416);
CREATE MACRO wilson_high(k, n) AS
  (k + 1.9208 + 1.96 * sqrt(k * (n - k) / n::DOUBLE + 0.9604)) / (n + 3.8416);
"""
# The last one keeps a query from undoing the others.
_CONFINED = """
SET enable_external_access = false;
SET autoinstall_known_extensions = false;
SET autoload_known_extensions = false;
SET lock_configuration = true;
"""


def connect(root: str | os.PathLike, files: bool = False) -> Any:
  """Opens DuckDB with the tables `cells`, `metrics` and `findings` of a folder; `files` lets it reach beyond."""
  duckdb = require("duckdb", "report", _PURPOSE)
  pa = require("pyarrow", "report", _PURPOSE)
  index = build_index(root)
  connection = duckdb.connect(":memory:")
  folder = open_folder(root)
  tabled, damaged = table_rows(folder)
  metrics = _metrics(pa, folder, damaged)
  connection.register("indexed", index)
  connection.register("tabled", tabled)
  connection.register("metrics", metrics)
  connection.register("findings", _findings(pa, index, damaged))
  names = ", ".join(COLUMNS)
  # A row without a model is that of a damaged file.
  rows = f"SELECT {names} FROM indexed WHERE model IS NOT NULL UNION ALL SELECT {names} FROM tabled"
  connection.execute(f"CREATE VIEW cells AS {rows}")
  connection.execute(_WILSON)
  if not files:
    connection.execute(_CONFINED)
  return connection


def query(root: str | os.PathLike, sql: str, files: bool = False) -> Any:
  """Returns the answer to a query over the results of a folder or address, as a pandas data frame.

  Args:
    files: whether the query may read and write files; for queries that you would run as a program of your own.
  """
  require("pandas", "report", _PURPOSE)
  duckdb = require("duckdb", "report", _PURPOSE)
  connection = connect(root, files)
  try:
    answer = connection.execute(sql)
    return answer.df()
  except duckdb.Error as error:
    raise InputError(f"the query failed: {_reason(error)}") from None
  finally:
    connection.close()


def frame(root: str | os.PathLike) -> Any:
  """Returns all cells of a folder or address, as a pandas data frame."""
  return query(root, "SELECT * FROM cells ORDER BY path")


def _metrics(pa: Any, folder: Folder, damaged: list[tuple[str, str]]) -> Any:
  """Returns the numbers of all summaries; what is wrong with others is added to `damaged`."""
  types = {"VARCHAR": pa.string(), "BIGINT": pa.int64(), "DOUBLE": pa.float64(), "BOOLEAN": pa.bool_()}
  found = read_summaries(folder, lambda path, reason: damaged.append((path, reason)))
  rows = [row for summary in found for row in metric_rows(summary)]
  schema = pa.schema([(name, types[kind]) for name, kind in METRIC_COLUMNS.items()])
  return pa.table([pa.array([row[field.name] for row in rows], field.type) for field in schema], schema=schema)


def _findings(pa: Any, index: Any, damaged: list[tuple[str, str]]) -> Any:
  rows: dict[str, list[Any]] = {"path": [], "kind": [], "text": [], "examples": []}
  for path, notes in zip(index["path"].to_pylist(), index["notes"].to_pylist(), strict=True):
    for note in json.loads(notes) if notes else ():
      examples = note.get("examples")
      rows["path"].append(path)
      rows["kind"].append(_plain(note.get("kind")))
      rows["text"].append(_plain(note.get("text")))
      rows["examples"].append(examples if type(examples) is int and abs(examples) < 2**63 else None)
  for path, reason in damaged:
    rows["path"].append(_plain(path))
    rows["kind"].append("damaged")
    rows["text"].append(_plain(reason))
    rows["examples"].append(None)
  types = [("path", pa.string()), ("kind", pa.string()), ("text", pa.string()), ("examples", pa.int64())]
  return pa.table(rows, schema=pa.schema(types))


def _plain(value: Any) -> str | None:
  if value is None:
    return None
  text = value if isinstance(value, str) else json.dumps(value)
  return text.encode("utf-8", "replace").decode("utf-8")


def _reason(error: Exception) -> str:
  """Returns DuckDB's message without its drawing of the place."""
  return first_line(error).removesuffix(".")
