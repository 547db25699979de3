"""Trends of a zoo: every line from ID performance to performance under a shift, with its zoo beside it.

A slope belongs to the models it was fitted to: 65 leaderboard rows of CIFAR-10 give 0.7221 where OODRobustBench's 396
models give 0.7134. So each trend carries the source, date, size and filter of its zoo.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jaxrobust.analysis.bootstrap import DRAWS, Interval, line_intervals
from jaxrobust.analysis.degradation import degradation
from jaxrobust.analysis.effective import LEAST_ID, PUBLISHED_LINES, effective_robustness
from jaxrobust.analysis.lines import FEWEST, Line, fit_line
from jaxrobust.analysis.zoo import ACCURACY, ID, METRIC, ROBUSTNESS, Zoo, split_names
from jaxrobust.core.errors import InputError
from jaxrobust.core.registry import unknown_name

# What the paper calls the four kinds of pairs (its figures 3, 4 and 11-13).
SHORT = {ACCURACY: "Acc", ROBUSTNESS: "Rob"}
# Pairs with the same on both axes, and those chosen by hand: they have limits, residuals and drops.
ONE_KIND = ("", "Acc-Acc", "Rob-Rob")
# Columns that number the rows of a table and measure nothing.
NUMBERING = ("rank", "index", "#", "")
# How averages over shifts are called; what begins otherwise is a single shift.
MEANS = ("OOD ", "OOD_d", "R_c", "R_n", "OOD_t")


@dataclass(frozen=True, eq=False)
class Trend:
  """A line between two columns of a zoo.

  Attributes:
    x, y: names of the columns.
    kind: Acc-Acc, Rob-Rob, Acc-Rob or Rob-Acc; empty for columns that are none of these.
    line: through the models.
    intervals: 95 % bootstrap intervals of slope, intercept, r2 and limit.
    zoo: the models behind it; all of them, also those without both numbers.
    group: which part of a larger zoo; empty for the whole.
  """

  x: str
  y: str
  kind: str
  line: Line
  intervals: dict[str, Interval]
  zoo: Zoo
  group: str = ""

  @property
  def limit(self) -> float | None:
    """Returns the upper limit; None for axes of two kinds, and on the probit scale, where lines end at the top."""
    has_one = self.kind in ONE_KIND and self.line.scale == "raw" and self.line.of_shares
    return self.line.limit() if has_one else None

  @property
  def conversion(self) -> float:
    """Returns the points gained under the shift for one point gained without it, where the median model stands."""
    x = self.zoo.column(self.x)
    return self.line.conversion_rate(float(np.median(x[np.isfinite(x)])))

  def residuals(self) -> np.ndarray:
    """Returns each model's points above the line: ER or AER; NaN where it is not valid."""
    least = LEAST_ID if self.line.of_shares else -np.inf
    return effective_robustness(self.zoo.column(self.x), self.zoo.column(self.y), self.line, least)

  def plain(self) -> dict[str, Any]:
    """Returns the trend as flat JSON, one number or text per key."""
    numbers = {name: getattr(self.line, name) for name in ("slope", "intercept", "r2")} | {"limit": self.limit}
    ends = {f"{name}_{end}": getattr(self.intervals[name], end) for name in numbers for end in ("low", "high")}
    if self.limit is None:
      ends |= {"limit_low": None, "limit_high": None}
    found = {"kind": self.kind, "x": self.x, "y": self.y, "group": self.group, "n": self.line.n, **numbers, **ends}
    more = {"conversion": self.conversion, "slope_error": self.line.slope_error, "scale": self.line.scale}
    return {**found, **more, **self.zoo.about()}


def column_pairs(zoo: Zoo, x: str = "", y: str = "") -> list[tuple[str, str, str]]:
  """Lists the pairs of columns that trends are about.

  Args:
    zoo: models.
    x: a column, where the pairs are not those of OODRobustBench.
    y: columns joined by commas.

  Returns:
    (kind, x, y), those of the same kind on both axes first.

  Raises:
    InputError: the zoo has no ID columns and nothing says which to take.

  >>> from jaxrobust.analysis.zoo import make_zoo
  >>> zoo = make_zoo({"model": ["a"], "ID accuracy": [90], "ID robustness": [50], "fog robustness": [20]})
  >>> column_pairs(zoo)
  [('Rob-Rob', 'ID robustness', 'fog robustness'), ('Acc-Rob', 'ID accuracy', 'fog robustness')]
  """
  if bool(x) != bool(y):
    raise InputError("say both columns of a trend: --x=COLUMN --y=COLUMN")
  if x:
    return [(_kind(*names), *names) for name in split_names(y) for names in [(zoo.spelled(x), zoo.spelled(name))]]
  kinds = ((ACCURACY, ACCURACY), (ROBUSTNESS, ROBUSTNESS), (ACCURACY, ROBUSTNESS), (ROBUSTNESS, ACCURACY))
  found = [
    (f"{SHORT[one]}-{SHORT[other]}", f"{ID} {one}", shift)
    for one, other in kinds
    if f"{ID} {one}" in zoo.columns
    for shift in zoo.shifts(other)
  ]
  if not found:
    known = ", ".join(zoo.columns) or "none"
    raise InputError(f"no ID and OOD columns here; say --x=COLUMN --y=COLUMN, of the columns of numbers: {known}")
  return found


def _kind(x: str, y: str) -> str:
  """Says what a pair of columns is about; nothing where one is neither accuracy nor robustness.

  >>> _kind("ID accuracy", "fog robustness"), _kind("params", "fog robustness")
  ('Acc-Rob', '')
  """
  both = [short for name in (x, y) for kind, short in SHORT.items() if name.endswith(f" {kind}") and METRIC not in name]
  return "-".join(both) if len(both) == 2 else ""


def fit_trends(
  zoo: Zoo,
  pairs: Sequence[tuple[str, str, str]],
  scale: str = "raw",
  top: float = 100.0,
  group: str = "",
  draws: int = DRAWS,
  seed: int = 0,
) -> tuple[list[Trend], list[str]]:
  """Fits a line to every pair of columns, and again to every group of models.

  Args:
    zoo: models.
    pairs: (kind, x, y), as `column_pairs` lists them.
    scale: `raw` or `probit`.
    top: the largest value of all columns, 100 for percentages; pairs by hand of which one is neither accuracy nor
      robustness may have larger ones on the raw scale, and get no limit.
    group: a label to split the zoo by; empty for the whole alone.
    draws: zoos to resample for the intervals.
    seed: of the draws.

  Returns:
    Trends, those of the whole zoo first, and findings: why others could not be fitted, what looks like fractions.

  Raises:
    InputError: no line could be fitted at all; the text is the first reason.
  """
  parts = zoo.groups(group) if group else {}
  small = [name for name, part in parts.items() if len(part) < FEWEST]
  trends, problems = [], []
  for name, part in {"": zoo, **{name: part for name, part in parts.items() if name not in small}}.items():
    for kind, x, y in pairs:
      horizontal, vertical = part.column(x), part.column(y)
      try:
        bounded = bool(kind) or scale == "probit"
        largest = _largest({x: horizontal, y: vertical}, top, bounded)
        line = fit_line(horizontal, vertical, scale, largest, (x, y))
      except InputError as error:
        problems.append(f"{group} {name}: {error}" if name else str(error))
        continue
      if _are_fractions(line, horizontal, vertical):
        reason = f"{x} and columns beside it are nowhere above 1: if these are fractions"
        problems.append(f"{reason}, make them percentages, as jaxrobust trends --top=1 does")
      trends.append(Trend(x, y, kind, line, line_intervals(horizontal, vertical, line, draws, seed), part, name))
  if not trends:
    raise InputError(problems[0])
  if small:
    more = f" and {len(small) - 5} more" if len(small) > 5 else ""
    problems.append(f"{group} {', '.join(small[:5])}{more}: fewer than {FEWEST} models each, so no line of their own")
  return trends, list(dict.fromkeys(problems))


def _largest(columns: dict[str, np.ndarray], top: float, bounded: bool) -> float:
  """Returns the largest value of axes, and refuses what is not within 0 and `top` on those that are bounded."""
  for name, values in columns.items():
    known = values[np.isfinite(values)]
    if known.size and (known.min() < 0 or known.max() > top):
      if bounded:
        raise InputError(f"{name} ranges from {known.min():g} to {known.max():g}, not within 0 and {top:g}; see --top")
      top = float(np.abs(known).max())
  return top


def _are_fractions(line: Line, *columns: np.ndarray) -> bool:
  """Tells whether numbers look like fractions on axes of percentages, which no limit and no probit would survive."""
  return line.top == 100 and all(np.nanmax(values[np.isfinite(values)]) <= 1 for values in columns)


def published_trends(zoo: Zoo, name: str) -> dict[str, np.ndarray]:
  """Measures the effective robustness of a zoo's models from the lines of OODRobustBench's own zoo.

  Args:
    zoo: models with OOD_d or OOD_t columns.
    name: `cifar10-linf` or `imagenet-linf`.

  Returns:
    Points above the line, by OOD column; the lines are reconstructed, see `effective.PUBLISHED_LINES`.
  """
  check_published(name)
  found = {}
  for (setting, column), line in PUBLISHED_LINES.items():
    if setting == name and column in zoo.columns:
      found[column] = effective_robustness(zoo.column(f"{ID} {column.split()[-1]}"), zoo.column(column), line)
  if not found:
    raise InputError("the published lines are about OOD_d and OOD_t columns, which this table does not have")
  return found


def check_published(name: str) -> None:
  """Refuses what is no zoo of OODRobustBench's."""
  known = sorted({setting for setting, _ in PUBLISHED_LINES})
  if name not in known:
    raise unknown_name("published line", name, known)


def drops(zoo: Zoo, pairs: Sequence[tuple[str, str, str]]) -> dict[str, np.ndarray]:
  """Computes what models lose from x to y, for pairs of one kind on both axes and percentages chosen by hand."""
  found = {}
  for kind, x, y in pairs:
    values = np.stack([zoo.column(x), zoo.column(y)])
    if kind in ONE_KIND and (kind or not np.any((values < 0) | (values > 100))):
      found[y] = degradation(*values)
  return found


def correlated_columns(zoo: Zoo) -> list[str]:
  """Lists what is worth correlating: ID performance, means over shifts, sizes and metrics, then single shifts.

  >>> from jaxrobust.analysis.zoo import make_zoo
  >>> correlated_columns(make_zoo({"Rank": [1], "fog accuracy": [20], "R_c accuracy": [30], "params": [9]}))
  ['R_c accuracy', 'params', 'fog accuracy']
  """
  single = [name for kind in (ACCURACY, ROBUSTNESS) for name in zoo.shifts(kind) if not name.startswith(MEANS)]
  known = [name for name in zoo.columns if name.lower() not in NUMBERING]
  return sorted(known, key=lambda name: (not name.startswith(f"{ID} "), name in single))


def rank_columns(zoo: Zoo, pairs: Sequence[tuple[str, str, str]]) -> tuple[str, str, np.ndarray, np.ndarray]:
  """Chooses what models are ranked by: ID robustness and OOD = (OOD_d + OOD_t) / 2, or the first mean that there is.

  Returns:
    (name of x, name of y, x, y).
  """
  rob, names = f"{ID} {ROBUSTNESS}", [y for _, _, y in pairs]
  whole, parts = f"OOD {ROBUSTNESS}", [f"OOD_d {ROBUSTNESS}", f"OOD_t {ROBUSTNESS}"]
  if rob in zoo.columns and whole in names:
    return rob, whole, zoo.column(rob), zoo.column(whole)
  if rob in zoo.columns and all(part in names for part in parts):
    return rob, whole, zoo.column(rob), np.mean([zoo.column(part) for part in parts], axis=0)
  alike = [pair for pair in pairs if pair[0] == "Rob-Rob"] or [pairs[0]]
  means = (pair for mean in MEANS for pair in alike if pair[2].startswith(mean))
  _, x, y = next(means, alike[0])
  return x, y, zoo.column(x), zoo.column(y)
