"""Zoos of a results folder as the page reads them: lines, limits, residuals, drops, ranks and correlations."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from jaxrobust.analysis.bootstrap import DRAWS
from jaxrobust.analysis.correlations import Correlations, correlation_matrix
from jaxrobust.analysis.degradation import box, catastrophic
from jaxrobust.analysis.ranking import kendall, kendall_interval, standings
from jaxrobust.analysis.trends import (
  MEANS,
  ONE_KIND,
  Trend,
  column_pairs,
  correlated_columns,
  drops,
  fit_trends,
  rank_columns,
)
from jaxrobust.analysis.zoo import ACCURACY, ID, ROBUSTNESS, Zoo, read_csv
from jaxrobust.analysis.zoo_cells import cells_zoos
from jaxrobust.analysis.zoo_metrics import add_summaries
from jaxrobust.core.errors import InputError
from jaxrobust.report import trend_tables as sheets
from jaxrobust.report.cell_rows import CellRow
from jaxrobust.report.trend_plots import band
from jaxrobust.results import Result
from jaxrobust.results.cell import safe_name
from jaxrobust.results.metrics import SummaryFile

MOST_TRENDS, MOST_CORRELATED = 80, 24
BAND_POINTS = 21


@dataclass(frozen=True, eq=False)
class ZooReport:
  """A zoo and all that is computed from it."""

  zoo: Zoo
  pairs: Sequence[tuple[str, str, str]]
  trends: Sequence[Trend]
  problems: Sequence[str]
  correlations: Correlations | None

  @property
  def file(self) -> str:
    plain = re.sub(r" \(sha256 (\w+)\)$", r"-\1", self.zoo.source)
    return safe_name("-".join(plain.replace("/", "_").replace("@", "-").split(", ")))


def find_zoos(rows: Iterable[CellRow], summaries: Iterable[SummaryFile], date: str) -> list[ZooReport]:
  """Returns every zoo of a folder in which at least one line can be fitted."""
  summaries, found = list(summaries), []
  for zoo in cells_zoos(map(_light, rows)):
    shifted = [name for kind in (ACCURACY, ROBUSTNESS) for name in zoo.shifts(kind)]
    known = np.any([np.isfinite(zoo.column(name)) for name in shifted], axis=0) if shifted else np.zeros(len(zoo), bool)
    zoo = replace(zoo.take(known), date=date)
    try:
      found.append(_report(zoo, add_summaries(zoo, summaries)))
    except InputError:
      continue
  return found


def table_zoos(paths: Iterable[str | Path]) -> list[ZooReport]:
  """Returns the zoos of CSV files; one without a line is refused by name."""
  zoos = [read_csv(path) for path in paths]
  return [_report(zoo, zoo) for zoo in zoos]


def _report(zoo: Zoo, measured: Zoo) -> ZooReport:
  """Fits all lines of a zoo; `measured` is the same with what its columns may be correlated with."""
  pairs = sorted(column_pairs(zoo), key=lambda pair: (pair[0] not in ONE_KIND, _is_single(pair[2])))
  trends, problems = fit_trends(zoo, pairs[:MOST_TRENDS])
  columns = _to_correlate(measured)
  chosen = dict(list(columns.items())[:MOST_CORRELATED])
  for what, count, most in (("lines", len(pairs), MOST_TRENDS), ("correlated columns", len(columns), MOST_CORRELATED)):
    if count > most:
      problems.append(f"{most} of {count} {what} are here, means before single shifts; jaxrobust trends has all")
  return ZooReport(zoo, pairs, trends, problems, correlation_matrix(chosen, "kendall") if len(chosen) > 1 else None)


def _light(row: CellRow) -> Result:
  """Returns a cell with its number and without its arrays."""
  said = {} if row.threat is None else {"threat": {"name": row.threat}}
  provenance = {"model": dict(row.about), "source": (row.command or "").removeprefix("imported: ")}
  return Result(
    cell=row.cell, config=said, summary={"robust_accuracy": row.number.value}, examples={}, provenance=provenance
  )


def _is_single(name: str) -> bool:
  """Tells single shifts from averages over some, which come first."""
  return not name.startswith(MEANS)


def _to_correlate(zoo: Zoo) -> dict[str, np.ndarray]:
  """Returns the columns that differ between models."""
  known = {name: zoo.column(name) for name in correlated_columns(zoo)}
  differ = lambda values: np.isfinite(values).sum() > 2 and np.nanmin(values) < np.nanmax(values)
  return {name: values for name, values in known.items() if differ(values)}


def write_zoos(reports: Sequence[ZooReport], out: Path, plots: bool) -> int:
  """Writes the tables of each zoo and, if asked for, its plots; returns how many plots there are."""
  drawn = 0
  for report in reports:
    folder = out / report.file
    sheets.write_sheets(list(_sheets(report)), folder)
    if plots:
      from jaxrobust.report.trend_plots import write_trend_plots

      lost = drops(report.zoo, report.pairs)
      drawn += write_trend_plots(report.zoo, report.trends, lost, report.correlations, folder)
  return drawn


def _sheets(report: ZooReport) -> Iterable[sheets.Sheet]:
  zoo, trends, pairs = report.zoo, report.trends, report.pairs
  yield sheets.trend_sheet(zoo, trends)
  yield board_sheet(report)
  yield sheets.degradation_sheet(zoo, pairs)
  yield sheets.catastrophe_sheet(zoo, pairs)
  yield sheets.rank_sheet(zoo, pairs, DRAWS)
  if report.correlations is not None:
    yield sheets.correlation_sheet(zoo, report.correlations)


def board_sheet(report: ZooReport) -> sheets.Sheet:
  """Tabulates the OOD board: ID and OOD performance, and the points above each line (effective robustness)."""
  zoo, order = report.zoo, _order(report)
  columns = {name: zoo.column(name) for name in board_columns(zoo)}
  columns |= {f"above the line, {trend.y}": trend.residuals() for trend in _own_lines(report)}
  rows = [{"model": zoo.models[row], **{name: float(values[row]) for name, values in columns.items()}} for row in order]
  return sheets.Sheet("board", f"ID and OOD performance in %: {sheets.zoo_title(zoo)}", rows, ("model", *columns))


def board_columns(zoo: Zoo) -> list[str]:
  """Returns the columns of the board: ID performance, and means over shifts where there are any."""
  shifts = [name for kind in (ACCURACY, ROBUSTNESS) for name in zoo.shifts(kind)]
  means = [name for name in shifts if not _is_single(name)]
  return [name for name in (f"{ID} {ACCURACY}", f"{ID} {ROBUSTNESS}") if name in zoo.columns] + (means or shifts)


def _own_lines(report: ZooReport) -> list[Trend]:
  """Returns the lines that effective robustness is measured from: the same kind on both axes, columns of the board."""
  shown = set(board_columns(report.zoo))
  return [trend for trend in report.trends if trend.kind in ONE_KIND and trend.y in shown]


def _order(report: ZooReport) -> list[int]:
  """Returns the places of models, best OOD performance first."""
  _, _, _, y = rank_columns(report.zoo, report.pairs)
  return sorted(range(len(report.zoo)), key=lambda row: (not np.isfinite(y[row]), -y[row], report.zoo.models[row]))


def zoo_documents(reports: Sequence[ZooReport], order: Mapping[str, int]) -> list[dict[str, Any]]:
  """Returns one document per zoo; models by their place in the index."""
  return [_document(report, order) for report in reports]


def _document(report: ZooReport, order: Mapping[str, int]) -> dict[str, Any]:
  zoo, pairs = report.zoo, report.pairs
  x_name, y_name, x, y = rank_columns(zoo, pairs)
  lost = {name: values for name, values in drops(zoo, pairs).items() if np.isfinite(values).any()}
  falls = catastrophic(lost, zoo.models)
  shown = board_columns(zoo)
  columns = {name: zoo.column(name) for name in dict.fromkeys((*shown, *(c for _, *both in pairs for c in both)))}
  found = report.correlations
  return {
    "name": sheets.zoo_title(zoo),
    "source": zoo.source,
    "file": report.file,
    "notes": [*zoo.notes, *report.problems][:20],
    "models": [order.get(model) for model in zoo.models],
    "names": list(zoo.models),
    "order": _order(report),
    "board": shown,
    "columns": {name: _plain(values) for name, values in columns.items()},
    "trends": [_trend(trend) for trend in report.trends],
    "lines": [report.trends.index(trend) for trend in _own_lines(report)],
    "drops": [
      {
        "shift": name,
        **{part: _one(getattr(box(values), part)) for part in ("n", "mean", "low", "q1", "median", "q3", "high")},
        "outliers": [[row, _one(values[row])] for row in box(values).outliers],
        "falls": [zoo.models.index(fall.model) for fall in falls if fall.shift == name],
      }
      for name, values in sorted(lost.items(), key=lambda item: -box(item[1]).median)
    ],
    "ranks": {
      "x": x_name,
      "y": y_name,
      "tau": _one(kendall(x, y)),
      "interval": _plain(kendall_interval(x, y, DRAWS)),
      "of": _ranks(zoo, x, y),
    },
    "correlations": None
    if found is None
    else {
      "columns": list(found.columns),
      **{part: [_plain(row) for row in getattr(found, part)] for part in ("values", "low", "high")},
      "n": found.n.tolist(),
    },
  }


def _ranks(zoo: Zoo, x: np.ndarray, y: np.ndarray) -> list[list[int] | None]:
  """Returns the ranks of each model by ID and by OOD performance; None for those that lack one of them."""
  found = {standing.model: [standing.id_rank, standing.ood_rank] for standing in standings(zoo.models, x, y)}
  return [found.get(model) for model in zoo.models]


def _trend(trend: Trend) -> dict[str, Any]:
  places = np.linspace(0, trend.line.top, BAND_POINTS)
  low, high = band(trend, places, DRAWS)
  numbers = {name: _one(getattr(trend.line, name)) for name in ("slope", "intercept", "r2")}
  limit = None if trend.limit is None else [_one(trend.limit), *_plain(trend.intervals["limit"])]
  return {
    "kind": trend.kind,
    "x": trend.x,
    "y": trend.y,
    "n": trend.line.n,
    **numbers,
    "ends": {name: _plain(trend.intervals[name]) for name in ("slope", "intercept", "r2")},
    "limit": limit,
    "band": [[_one(p), _one(a), _one(b)] for p, a, b in zip(places, low, high, strict=True)],
    "residuals": _plain(trend.residuals()) if trend.kind in ONE_KIND else None,
  }


def _one(value: Any) -> float | None:
  return round(float(value), 6) if math.isfinite(value) else None


def _plain(values: Iterable[Any]) -> list[float | None]:
  return [_one(value) for value in values]
