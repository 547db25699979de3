"""Cells on disk: the schema of a result, its file, partial progress, shards and queries.

Imports the standard library, numpy and `jaxrobust.core`; never JAX, so that results can be
read and compared on any machine. `query` and `frame` need DuckDB and pandas (the extra "report").
"""

from jaxrobust.results.cell import SCHEMA, Cell, Result, from_text, to_text
from jaxrobust.results.packing import pack, unpack
from jaxrobust.results.partial import load_partial, partial_path, remove_partial, save_partial
from jaxrobust.results.query import frame, query
from jaxrobust.results.reader import load_results
from jaxrobust.results.shards import find_shard, finish_shards, merge_shards, save_shard, shard_path
from jaxrobust.results.store import (
  atomic_write,
  check_writable,
  find_result,
  load_result,
  save_result,
  save_timing,
)

__all__ = [
  "SCHEMA",
  "Cell",
  "Result",
  "atomic_write",
  "check_writable",
  "find_result",
  "find_shard",
  "finish_shards",
  "frame",
  "from_text",
  "load_partial",
  "load_result",
  "load_results",
  "merge_shards",
  "pack",
  "partial_path",
  "query",
  "remove_partial",
  "save_partial",
  "save_result",
  "save_shard",
  "save_timing",
  "shard_path",
  "to_text",
  "unpack",
]
