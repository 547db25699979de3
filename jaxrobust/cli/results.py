"""`jaxrobust results "SELECT model, robust_accuracy FROM cells" --root results`: SQL, import, export, migration."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

from jaxrobust.cli.configuration import parse, split_words
from jaxrobust.core.errors import InputError
from jaxrobust.core.files import atomic_write
from jaxrobust.core.registry import unknown_name
from jaxrobust.core.terminal import csv_text, printable, say

DEFAULTS = {"root": "results", "format": "table", "out": "", "files": False}
USAGE = """SQL over the tables cells, metrics and findings of a results folder (local, gs://… and the like), or one of
  jaxrobust results                                    what is there
  jaxrobust results import FORMAT PATH --root=RESULTS  numbers of others as cells or tables: robustbench, oodrobustbench
                                                       (JSON), oodrobustbench-leaderboard (its CSV files), nas
  jaxrobust results export FORMAT OUT --root=RESULTS   cells as files of that benchmark
  jaxrobust results migrate --root=RESULTS             rewrites cells of earlier schemas
  jaxrobust results crossings --root=RESULTS           where the robustness curves of two models cross
--format is table, csv, json or parquet"""
OVERVIEW = """SELECT model, data, count(*) AS cells, count(DISTINCT attack) AS attacks,
count(DISTINCT condition) AS conditions, sum(findings)::BIGINT AS findings FROM cells GROUP BY ALL ORDER BY ALL"""
# Show nothing, and so have no format and no file to show it in.
_UNSHOWN = ("import", "export", "migrate")
FORMATS = ("csv", "json", "parquet", "table")


def run(argv: list[str]) -> int:
  words, options = split_words(argv, DEFAULTS)
  config = parse("results", options, DEFAULTS, USAGE)
  if words and words[0] in _UNSHOWN:
    unused = [name for name in ("format", "out", "files") if config[name] != DEFAULTS[name]]
    if unused:
      raise InputError(f"jaxrobust results {words[0]} takes no --{unused[0]}; the results folder is --root")
  if words and words[0] in ("import", "export"):
    if len(words) != 3:
      raise InputError(f"jaxrobust results {words[0]} takes a format and a path")
    return _exchange(words[0], words[1], words[2], config.root)
  if words == ["migrate"]:
    return _migrate(config.root)
  if words == ["crossings"]:
    return _crossings(config)
  if len(words) > 1:
    raise InputError(f"unexpected argument {words[1]!r}; write the query in quotes")
  if config.format not in FORMATS:
    raise unknown_name("format", config.format, list(FORMATS))
  from jaxrobust.results import query

  _show(query(config.root, words[0] if words else OVERVIEW, files=config.files), config.format, config.out)
  _warn(query(config.root, "SELECT path, kind, text FROM findings WHERE kind IN ('damaged', 'unfinished')"))
  return 0


def _show(frame: Any, kind: str, out: str) -> None:
  """Puts the answer on standard output, or in a file."""
  if kind == "parquet":
    if not out:
      raise InputError("parquet needs a file: --out=FILE.parquet")
    buffer = io.BytesIO()
    frame.to_parquet(buffer)
    atomic_write(out, buffer.getvalue())
    return
  if kind == "table":
    text = _neutral(frame, printable).to_string(index=False) + "\n"
  elif kind == "csv":
    text = _neutral(frame, csv_text).to_csv(index=False)
  else:
    lines = io.StringIO()
    frame.to_json(lines, orient="records", lines=True, double_precision=15)
    text = lines.getvalue()
  if out:
    atomic_write(out, text)
  else:
    print(text, end="")


def _neutral(frame: Any, write: Callable[[str], str]) -> Any:
  """Returns a frame whose texts and names of columns no terminal and no spreadsheet obeys."""
  frame = frame.map(lambda value: write(value) if isinstance(value, str) else value)
  frame.columns = [write(str(name)) for name in frame.columns]
  return frame


def _warn(damaged: Any) -> None:
  for row in damaged.itertuples():
    say(f"finding: {row.path}: {row.text}", error=True)


def _exchange(action: str, name: str, path: str, root: str) -> int:
  from jaxrobust.results.exchange import export_results, import_results

  if action == "import":
    written = import_results(name, path, root)
    print(f"{len(written)} new files in {root}")
  else:
    written = export_results(name, root, path, lambda error: say(f"finding: {error}", error=True))
    print(f"{len(written)} files in {path}")
  return 0


def _crossings(config: Any) -> int:
  """Prints where curves of two models cross, as a table or in the format asked for."""
  import pandas as pd

  from jaxrobust.analysis.curve_crossings import Crossing, find_crossings

  _show(pd.DataFrame(find_crossings(config.root), columns=list(Crossing._fields)), config.format, config.out)
  return 0


def _migrate(root: str) -> int:
  from jaxrobust.results.reader import migrate_folder

  print(f"{migrate_folder(root)} cells of earlier schemas written anew in {root}")
  return 0
