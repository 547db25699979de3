"""Tables of a zoo: trends, effective robustness, degradation, falls, ranks, held-out groups, correlations.

Each is rows of plain values under names, so that the terminal, JSON, CSV, Markdown and LaTeX show the same numbers: CSV
and JSON in full, the others with the digits that a reader needs.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from jaxrobust.analysis.correlations import Correlations
from jaxrobust.analysis.degradation import box, catastrophic
from jaxrobust.analysis.effective import leave_one_group_out
from jaxrobust.analysis.matching import gap, same_models
from jaxrobust.analysis.ranking import kendall, kendall_interval, standings
from jaxrobust.analysis.trends import MEANS, ONE_KIND, Trend, drops, published_trends, rank_columns
from jaxrobust.analysis.zoo import DATE, ID, METRIC, NAMES, ROBUSTNESS, Zoo
from jaxrobust.analysis.zoo_estimates import NAIVE, ShiftEstimate
from jaxrobust.core.errors import InputError
from jaxrobust.core.terminal import csv_text
from jaxrobust.report.formats import latex_table, latex_text, markdown_table, markdown_text
from jaxrobust.report.site import write_if_new
from jaxrobust.results.plain import plain

Pairs = Sequence[tuple[str, str, str]]
# Points have two decimals; numbers that are not points have more.
SLOPES = ("slope", "conversion", "slope of others")
DECIMALS = {**dict.fromkeys(SLOPES, 4), "intercept": 3, "r2": 4, "value": 4}


class Sheet(NamedTuple):
  """A table.

  Attributes:
    name: of its files.
    title: says what it is, with the zoo it is about.
    rows: values by column; all rows have the same columns.
    shown: the columns that people look at, in order; one that has NAME_low and NAME_high beside it with its interval.
  """

  name: str
  title: str
  rows: list[dict[str, Any]]
  shown: tuple[str, ...]


def zoo_title(zoo: Zoo) -> str:
  """Says in a few words which models numbers are about.

  >>> zoo_title(Zoo(("a", "b"), {}, source="board.csv", date="2024-05-01", filters=("acc+rob>=110",)))
  '2 models of board.csv, 2024-05-01, filter acc+rob>=110'
  """
  parts = [f"{len(zoo)} models of {zoo.source or 'a table'}", zoo.date]
  return ", ".join(part for part in (*parts, f"filter {', '.join(zoo.filters)}" if zoo.filters else "") if part)


def zoo_sheet(zoo: Zoo) -> Sheet:
  """Tabulates the zoo itself; its CSV file is read again by `zoo.read_csv`, and gives the same lines."""
  labels = {name: values for name, values in zoo.labels.items() if name not in NAMES and any(values)}
  labels |= {DATE: (zoo.date,) * len(zoo)} if zoo.date and DATE not in labels else {}
  rows = [
    {"model": model}
    | {name: values[row] for name, values in labels.items()}
    | {name: float(values[row]) for name, values in zoo.columns.items()}
    for row, model in enumerate(zoo.models)
  ]
  means = [name for name in zoo.columns if name.startswith((ID, *MEANS)) and METRIC not in name] or list(zoo.columns)
  return Sheet("zoo", f"The zoo, in %: {zoo_title(zoo)}", rows, ("model", *labels, *means))


def trend_sheet(zoo: Zoo, trends: Sequence[Trend]) -> Sheet:
  """Tabulates lines: slope, intercept, R² and upper limit with 95 % intervals, and the conversion rate.

  That is how many points are gained under the shift for one point gained without it: the slope on the raw scale, and on
  the probit scale the derivative where the median model stands.
  """
  rows = [trend.plain() for trend in trends]
  group = ("group",) if any(trend.group for trend in trends) else ()
  kind = ("kind",) if any(trend.kind for trend in trends) else ()
  title = f"Linear trends, {trends[0].line.scale} scale: {zoo_title(zoo)}"
  # On the raw scale the conversion rate is the slope, and the limit says something.
  last = ("limit",) if trends[0].line.scale == "raw" else ("conversion",)
  return Sheet("trends", title, rows, (*kind, "x", "y", *group, "n", "slope", "intercept", "r2", *last))


def effective_sheet(zoo: Zoo, trends: Sequence[Trend], published: str = "") -> Sheet:
  """Tabulates each model's points above the lines of its own kind: ER for accuracy, AER for robustness."""
  if published:
    found, beta = published_trends(zoo, published), f"lines of OODRobustBench's {published} zoo, reconstructed"
  else:
    whole = [trend for trend in trends if not trend.group and trend.kind in ONE_KIND]
    found, beta = {trend.y: trend.residuals() for trend in whole}, "lines of the zoo itself"
  rows = [
    {"model": model, **{name: float(values[row]) for name, values in found.items()}}
    for row, model in enumerate(zoo.models)
    if found
  ]
  # Of many shifts people see the means; files and JSON have all.
  means = [name for name in found if name.startswith(MEANS)] or list(found)
  return Sheet(
    "effective", f"Effective robustness in points, from the {beta}: {zoo_title(zoo)}", rows, ("model", *means)
  )


def degradation_sheet(zoo: Zoo, pairs: Pairs) -> Sheet:
  """Tabulates what models lose under each shift, as box plots do."""
  rows, lost = [], drops(zoo, pairs)
  for shift, values in lost.items():
    if np.isfinite(values).any():
      found = box(values)
      numbers = {"n": found.n, "mean": found.mean, "median": found.median, "q1": found.q1, "q3": found.q3}
      whiskers = {"low": found.low, "high": found.high, "outliers": len(found.outliers)}
      rows.append({"shift": shift, **numbers, **whiskers})
  if lost and not rows:
    raise InputError("no model has a number both with and without a shift: there is no degradation")
  columns = ("shift", "n", "mean", "median", "q1", "q3", "low", "high", "outliers")
  return Sheet("degradation", f"ID minus OOD performance in points: {zoo_title(zoo)}", rows, columns)


def catastrophe_sheet(zoo: Zoo, pairs: Pairs) -> Sheet:
  """Tabulates falls beyond Q3 + 1.5 IQR and 10 points above the median and above 0."""
  rows = [dict(item._asdict()) for item in catastrophic(drops(zoo, pairs), zoo.models)]
  title = f"Drops beyond Q3 + 1.5 IQR and 10 points above the median and above 0: {zoo_title(zoo)}"
  return Sheet("catastrophic", title, rows, ("model", "shift", "drop", "median"))


def rank_sheet(zoo: Zoo, pairs: Pairs, draws: int, seed: int = 0) -> Sheet:
  """Tabulates ranks by ID and by OOD performance, the largest change first."""
  x_name, y_name, x, y = rank_columns(zoo, pairs)
  rows = [
    {"model": item.model, "ID rank": item.id_rank, "OOD rank": item.ood_rank, "gain": item.gain}
    for item in standings(zoo.models, x, y)
  ]
  if not rows:
    raise InputError(f"no model has both {x_name} and {y_name}: there are no ranks to compare")
  tau, (low, high) = kendall(x, y), kendall_interval(x, y, draws, seed)
  agree = f"Kendall's τ {shown(tau, 4)} [{shown(low, 4)}, {shown(high, 4)}]"
  return Sheet("ranks", f"Ranks by {x_name} and by {y_name}, {agree}: {zoo_title(zoo)}", rows, tuple(rows[0]))


def held_out_sheet(zoo: Zoo, trends: Sequence[Trend], group: str) -> Sheet:
  """Tabulates how each group of models lies to the line through all other groups."""
  rows = []
  for trend in trends:
    if trend.group:
      continue
    labels = [value or "unknown" for value in zoo.label(group)]
    x, y = zoo.column(trend.x), zoo.column(trend.y)
    for item in leave_one_group_out(x, y, labels, trend.line.scale, trend.line.top):
      numbers = {"mean error": item.mean_error, "mean absolute error": item.mean_absolute_error}
      slope = None if item.line is None else item.line.slope
      rows.append({"x": trend.x, "y": trend.y, group: item.group, "n": item.n, **numbers, "slope of others": slope})
  return Sheet(
    "held-out", f"Groups by {group}, from the line through the others: {zoo_title(zoo)}", rows, tuple(rows[0])
  )


def correlation_sheet(zoo: Zoo, found: Correlations) -> Sheet:
  """Tabulates correlations of columns, the strongest first."""
  name = {"pearson": "Pearson's r", "kendall": "Kendall's τ"}[found.kind]
  return Sheet("correlations", f"{name} of columns: {zoo_title(zoo)}", found.pairs(), ("x", "y", "n", "value"))


def estimate_sheet(zoo: Zoo, found: Sequence[ShiftEstimate], scale: str) -> Sheet:
  """Tabulates how far estimates without labels are from what labels say, in points."""
  rows = [
    {
      "kind": item.kind,
      "shift": item.shift,
      "conditions": item.conditions,
      "models": item.models,
      **{"OOD = ID" if name == NAIVE else name: value for name, value in item.errors.items()},
      "least r2": item.r2,
      "not on a line": item.warned,
    }
    for item in found
  ]
  title = f"Mean absolute error in points without labels, agreement on the {scale} scale: {zoo_title(zoo)}"
  return Sheet("without-labels", title, rows, tuple(rows[0]))


def gap_sheet(zoo: Zoo, other: Zoo) -> Sheet:
  """Tabulates ID robustness beside what another table says of the same models, the largest difference first."""
  name = f"{ID} {ROBUSTNESS}"
  pairs = same_models(zoo, other)
  here, there = (each.column(name)[[pair[side] for pair in pairs]] for side, each in enumerate((zoo, other)))
  total = gap(here, there)
  order = sorted(range(len(pairs)), key=lambda row: -abs(here[row] - there[row]) if here[row] == here[row] else 0)
  values = lambda row: {"here": float(here[row]), "there": float(there[row]), "gap": float(here[row] - there[row])}
  rows = [{"model": zoo.models[pairs[row][0]], **values(row)} for row in order]
  mean = f"mean {shown(total.mean, 3)} [{', '.join(shown(end, 3) for end in total.interval)}], sd {shown(total.sd, 3)}"
  title = f"{name} minus that of {total.n} of {len(other)} models of {other.source}: {mean}: {zoo_title(zoo)}"
  return Sheet("gap", title, rows, tuple(rows[0]))


def shown(value: Any, decimals: int = 2) -> str:
  """Formats a value for people.

  >>> shown(0.72214, 4), shown(-5.8894), shown(12), shown(float("nan")), shown(None), shown("fog")
  ('0.7221', '-5.89', '12', '–', '–', 'fog')
  """
  if value is None or (isinstance(value, float) and math.isnan(value)):
    return "–"
  if isinstance(value, float):
    return f"{value:.{decimals}f}"
  return str(value)


def texts(sheet: Sheet) -> list[list[str]]:
  """Formats the rows of a table for people, intervals in brackets behind their numbers."""
  return [[_with_interval(row, column) for column in sheet.shown] for row in sheet.rows]


def _with_interval(row: dict[str, Any], column: str) -> str:
  low, high = ("low", "high") if column == "value" else (f"{column}_low", f"{column}_high")
  decimals = DECIMALS.get(column, 2)
  if column in SLOPES and row[column] and abs(row[column]) < 10 ** (1 - decimals):
    # Per parameter, say: four digits that count.
    decimals = 3 + math.ceil(-math.log10(abs(row[column])))
  ends = [shown(row.get(end), decimals) for end in (low, high)]
  return shown(row[column], decimals) + (f" [{ends[0]}, {ends[1]}]" if "–" not in ends else "")


def as_json(sheet: Sheet) -> list[dict[str, Any]]:
  """Returns the rows as JSON objects, null for what is not a number."""
  return [plain(row, sheet.name, null_for_nan=True) for row in sheet.rows]


def as_csv(sheet: Sheet) -> str:
  """Writes all columns with full precision."""
  buffer = io.StringIO()
  writer = csv.writer(buffer, lineterminator="\n")
  columns = list(sheet.rows[0]) if sheet.rows else list(sheet.shown)
  writer.writerow([csv_text(column) for column in columns])
  for row in as_json(sheet):
    values = (row[column] for column in columns)
    writer.writerow(["" if v is None else csv_text(v) if isinstance(v, str) else repr(v) for v in values])
  return buffer.getvalue()


def as_markdown(sheet: Sheet) -> str:
  """Writes the shown columns as a GitHub table under its title."""
  rows = [[markdown_text(text) for text in row] for row in texts(sheet)]
  table = markdown_table([markdown_text(column) for column in sheet.shown], rows, _left(sheet))
  return f"{markdown_text(sheet.title)}\n\n{table}"


def as_latex(sheet: Sheet) -> str:
  """Writes the shown columns as a `booktabs` table."""
  head = {"r2": "$R^2$"}
  columns = [head.get(column, latex_text(column)) for column in sheet.shown]
  rows = [[latex_text(text) for text in row] for row in texts(sheet)]
  return latex_table(latex_text(sheet.title), columns, rows, _left(sheet))


def _left(sheet: Sheet) -> int:
  """Counts the leading columns of text."""
  first = sheet.rows[0] if sheet.rows else {}
  kinds = [isinstance(first.get(column), str) for column in sheet.shown]
  return kinds.index(False) if False in kinds else len(kinds)


def write_sheets(sheets: Sequence[Sheet], out: Path) -> list[Path]:
  """Writes every table in three formats and returns the files."""
  paths = []
  for sheet in sheets:
    for kind, text in (("md", as_markdown(sheet)), ("csv", as_csv(sheet)), ("tex", as_latex(sheet))):
      paths.append(out / f"{sheet.name}.{kind}")
      write_if_new(paths[-1], text.encode("utf-8", "replace"))
  return paths
