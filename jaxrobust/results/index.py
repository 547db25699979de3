"""The rows of a results folder, kept in a Parquet file beside the cells.

The index is a convenience: it is made from the cell files alone, only new and changed ones are read again, and
wherever it is missing, outdated or damaged it is made anew. A folder that cannot be written is indexed in memory.

DuckDB's `read_json` would take four times as long, stop at the first damaged file, and leave the merging of shards and
the check of flags to us.
"""

from __future__ import annotations

import contextlib
import io
import os
from typing import Any

from jaxrobust.core.errors import JaxrobustError
from jaxrobust.core.optional import require
from jaxrobust.results.cell import SCHEMA
from jaxrobust.results.folder import Folder, open_folder
from jaxrobust.results.reader import ResultFiles, find_items, parse_item, read_items
from jaxrobust.results.rows import COLUMNS, error_row, make_row

INDEX_FILE = ".index.parquet"
PORTION = 2048
# Rows made by another version of this file are not reused.
_VERSION = f"3.{SCHEMA}"


def build_index(root: str | os.PathLike) -> Any:
  """Returns an Arrow table, a row per result (and per damaged file), from the stored index and what changed since.

  Columns are those of `rows.COLUMNS`, `stamp`, and `notes`: findings as JSON.
  """
  folder = open_folder(root)
  items = find_items(folder)
  known = _load(folder)
  if known is None:
    table = _read(folder, items)
    _save(folder, table)
    return table
  pa = require("pyarrow", "report", "the results index")
  stamps = dict(zip(known["path"].to_pylist(), known["stamp"].to_pylist(), strict=True))
  changed = [item for item in items if stamps.get(item.path) != item.stamp]
  if not changed and len(items) == len(stamps):
    return known
  kept = {item.path for item in items} - {item.path for item in changed}
  mask = pa.array([path in kept for path in known["path"].to_pylist()], pa.bool_())
  table = pa.concat_tables([known.filter(mask), _read(folder, changed)])
  _save(folder, table)
  return table


def _read(folder: Folder, items: list[ResultFiles]) -> Any:
  """Returns the rows of some items, in their order."""
  pa = require("pyarrow", "report", "the results index")
  # In portions: a hundred thousand rows of Python objects would keep the garbage collector busy.
  parts = [_table(_read_rows(folder, items[at : at + PORTION])) for at in range(0, len(items), PORTION)]
  return pa.concat_tables([_table([]), *parts])


def _read_rows(folder: Folder, items: list[ResultFiles]) -> list[dict[str, Any]]:
  rows = []
  for item, parts in read_items(folder, items):
    try:
      if isinstance(parts, JaxrobustError):
        raise parts
      whole = len(parts) == 1 and item.parts[0].path == item.path
      row = make_row(item.path, parts[0] if whole else parse_item(item, parts))
    except JaxrobustError as error:
      row = error_row(item.path, error, bool(item.missing))
    row["stamp"] = item.stamp
    rows.append(row)
  return rows


def _schema() -> Any:
  pa = require("pyarrow", "report", "the results index")
  types = {"VARCHAR": pa.string(), "BIGINT": pa.int64(), "DOUBLE": pa.float64()}
  columns = {**COLUMNS, "notes": "VARCHAR", "stamp": "VARCHAR"}
  return pa.schema([(name, types[kind]) for name, kind in columns.items()], {"jaxrobust": _VERSION})


def _table(rows: list[dict[str, Any]]) -> Any:
  pa = require("pyarrow", "report", "the results index")
  schema = _schema()
  columns = [pa.array([row[field.name] for row in rows], field.type) for field in schema]
  return pa.table(columns, schema=schema)


def _load(folder: Folder) -> Any | None:
  parquet = require("pyarrow.parquet", "report", "the results index")
  raw = folder.read([INDEX_FILE])[0]
  if not isinstance(raw, bytes):
    return None
  try:
    table = parquet.read_table(io.BytesIO(raw))
    if not table.schema.equals(_schema(), check_metadata=True):
      return None
    return table
  except Exception:  # Whatever is wrong with it: it is made anew.
    return None


def _save(folder: Folder, table: Any) -> None:
  parquet = require("pyarrow.parquet", "report", "the results index")
  buffer = io.BytesIO()
  parquet.write_table(table, buffer, compression="zstd")
  # A read-only folder can be queried all the same.
  with contextlib.suppress(OSError):
    folder.write(INDEX_FILE, buffer.getvalue())
