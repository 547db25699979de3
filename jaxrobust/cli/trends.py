"""`jaxrobust trends board.csv --filter 'acc+rob>=110'`, or `--root results`: what a zoo of models says about shifts."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

from ml_collections import ConfigDict
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

from jaxrobust.analysis.correlations import Correlations, correlation_matrix
from jaxrobust.analysis.filters import apply_filter
from jaxrobust.analysis.matching import read_beside
from jaxrobust.analysis.trends import Trend, check_published, column_pairs, correlated_columns, drops, fit_trends
from jaxrobust.analysis.zoo import Zoo, in_percent, read_csv, split_names
from jaxrobust.analysis.zoo_estimates import ShiftEstimate, estimate_zoo
from jaxrobust.cli.configuration import parse, split_words
from jaxrobust.core.errors import InputError
from jaxrobust.core.registry import unknown_name
from jaxrobust.core.terminal import printable, say
from jaxrobust.report import trend_tables as tables
from jaxrobust.results import load_results

DEFAULTS = {
  "root": "",
  "suite": "oodrb",
  "data": "",
  "attack": "",
  "x": "",
  "y": "",
  "filter": "",
  "group": "",
  "scale": "raw",
  "top": 100.0,
  "show": "trends",
  "line": "",
  "correlate": "pearson",
  "draws": 2000,
  "seed": 0,
  "date": "",
  "beside": "",
  "json": False,
  "out": "",
  "plots": "auto",
}
USAGE = """[FILE.csv]: lines from ID performance to performance under shifts, with 95 % bootstrap intervals over models
  jaxrobust trends board.csv --filter 'acc+rob>=110'      a leaderboard of OODRobustBench, or any table with a header
  jaxrobust trends table.csv --x params --y robust        any two columns
  jaxrobust trends --root results --group technique       the cells of a results folder
  jaxrobust trends --root results --show without-labels   what could have been told of shifts without their labels
  jaxrobust trends board.csv --show gap --beside FOLDER   beside RobustBench's model_info, or another table"""
# What needs more than a table of models: their cells, or another table.
WITHOUT_LABELS, GAP = "without-labels", "gap"
SHEETS = ("trends", "effective", "degradation", "catastrophic", "ranks", "held-out", "correlations", "zoo")
SHOWS = (*SHEETS, WITHOUT_LABELS, GAP)
# What needs lines, and what needs ID and OOD columns; the rest takes any table.
OF_LINES = ("trends", "effective", "held-out")
OF_PAIRS = (*OF_LINES, "degradation", "catastrophic", "ranks")


def run(argv: list[str]) -> int:
  words, options = split_words(argv, DEFAULTS)
  config = parse("trends", options, DEFAULTS, USAGE)
  _check(words, config)
  zoo = apply_filter(_read(words, config), config.filter)
  if config.top == 1:
    zoo, config.top = in_percent(zoo, config.x, *split_names(config.y)), 100.0
  for note in zoo.notes:
    say(f"finding: {note}", error=True)
  pairs: list[tuple[str, str, str]] = []
  trends: list[Trend] = []
  if config.show in OF_PAIRS or config.out:
    pairs = column_pairs(zoo, config.x, config.y)
  if config.show in OF_LINES or config.out:
    # Of held-out groups the lines are those through all others.
    group = config.group if config.show == "trends" or config.out else ""
    trends, problems = fit_trends(zoo, pairs, config.scale, config.top, group, config.draws, config.seed)
    for problem in problems:
      say(f"finding: {problem}", error=True)
  sheet = _sheet(config.show, zoo, trends, pairs, config)
  if config.out:  # First: whoever reads the table may stop reading.
    _write(zoo, trends, pairs, config)
  _print(sheet, config.json)
  return 0


def _check(words: list[str], config: ConfigDict) -> None:
  if len(words) > 1:
    raise InputError(f"unexpected argument {words[1]!r}; one table at a time")
  if bool(words) == bool(config.root):
    raise InputError("say which models: jaxrobust trends FILE.csv, or jaxrobust trends --root=RESULTS")
  for name, known in (("suite", ("oodrb",)), ("show", SHOWS), ("plots", ("auto", "yes", "no"))):
    if config[name] not in known:
      raise unknown_name(f"value of --{name}", config[name], list(known))
  if config.show == "held-out" and not config.group:
    raise InputError(
      "held-out predicts each group from the others: say which label groups models, as --group=technique"
    )
  if config.show == WITHOUT_LABELS and not config.root:
    raise InputError("without-labels needs predictions, which cells hold and tables do not: say --root=RESULTS")
  if (config.show == GAP) != bool(config.beside):
    raise InputError("a gap is between two tables: say --show=gap --beside=FILE.csv, or a folder of model_info")
  if config.line:
    check_published(config.line)
  if config.draws < 1:
    raise InputError(f"draws must be at least 1, got {config.draws}")
  if not config.top > 0:
    raise InputError(f"top must be more than 0, got {config.top:g}")


def _read(words: list[str], config: ConfigDict) -> Zoo:
  if words:
    return read_csv(words[0], config.date)
  from jaxrobust.analysis.zoo_cells import read_cells
  from jaxrobust.analysis.zoo_metrics import add_metrics

  return add_metrics(read_cells(config.root, config.data, config.attack, config.date), config.root)


def _correlate(zoo: Zoo, config: ConfigDict) -> Correlations:
  wanted = [name for name in (config.x, *split_names(config.y)) if name]
  columns = {name: zoo.column(name) for name in wanted or correlated_columns(zoo)}
  return correlation_matrix(columns, config.correlate, config.draws, config.seed)


def _sheet(
  name: str, zoo: Zoo, trends: list[Trend], pairs: list[tuple[str, str, str]], config: ConfigDict
) -> tables.Sheet:
  """Makes one of the tables."""
  if name == "effective":
    return tables.effective_sheet(zoo, trends, config.line)
  if name == "degradation":
    return tables.degradation_sheet(zoo, pairs)
  if name == "catastrophic":
    return tables.catastrophe_sheet(zoo, pairs)
  if name == "ranks":
    return tables.rank_sheet(zoo, pairs, config.draws, config.seed)
  if name == "held-out":
    return tables.held_out_sheet(zoo, trends, config.group)
  if name == "correlations":
    return tables.correlation_sheet(zoo, _correlate(zoo, config))
  if name == "zoo":
    return tables.zoo_sheet(zoo)
  if name == GAP:
    return tables.gap_sheet(zoo, read_beside(config.beside))
  if name == WITHOUT_LABELS:
    return tables.estimate_sheet(zoo, _estimate(zoo, config), config.scale)
  return tables.trend_sheet(zoo, trends)


def _estimate(zoo: Zoo, config: ConfigDict) -> list[ShiftEstimate]:
  """Estimates performance under shifts without labels, for the models that the filter has left."""
  results = load_results(config.root, lambda error: say(f"finding: {error}", error=True))
  chosen = [result for result in results if result.cell.model in zoo.models]
  return estimate_zoo(chosen, config.data, config.attack, config.scale)


def _write(zoo: Zoo, trends: list[Trend], pairs: list[tuple[str, str, str]], config: ConfigDict) -> None:
  """Writes all tables, and plots where they can be drawn."""
  out = Path(config.out)
  names = [name for name in SHEETS if name != "held-out" or config.group]
  names += [config.show] if config.show not in SHEETS else []
  files = tables.write_sheets([_sheet(name, zoo, trends, pairs, config) for name in names], out)
  there = importlib.util.find_spec("matplotlib") is not None
  drawn: Any = 0
  if config.plots == "yes" or (config.plots == "auto" and there):
    from jaxrobust.report.trend_plots import write_trend_plots

    drawn = write_trend_plots(zoo, trends, drops(zoo, pairs), _correlate(zoo, config), out)
  print(f"{len(files)} tables and {drawn} plots in {out}", file=sys.stderr)
  if config.plots == "auto" and not there:
    print("no plots: they need matplotlib (pip install 'jaxrobust[report]')", file=sys.stderr)


def _print(sheet: tables.Sheet, as_json: bool) -> None:
  if as_json:
    for row in tables.as_json(sheet):
      print(json.dumps(row))
    return
  table = Table(title=printable(sheet.title))
  for column in sheet.shown:
    numbers = bool(sheet.rows) and not isinstance(sheet.rows[0][column], str)
    table.add_column(printable(column), justify="right" if numbers else "left", overflow="fold")
  for texts in tables.texts(sheet):
    table.add_row(*map(printable, texts))
  if not sheet.rows:
    say(f"{sheet.title}: none")
    return
  # Without a terminal, as wide as it takes: a table in a log file must not be cut.
  console = Console(markup=False)
  if not console.is_terminal:
    console.width = max(200, Measurement.get(console, console.options.update(max_width=10**6), table).maximum)
  console.print(table)
