"""Boards of suites: the models that a suite was run on beside each other, with the metrics of its paper.

Everything is read from the summaries that lie beside the cells they were computed from. A number that is not whole, or
is about another number of examples than most, is shown and marked but not ranked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from jaxrobust.evaluation.suites.shifted_datasets import ARES_BENCH
from jaxrobust.report.rankings import ranks_of
from jaxrobust.results.ids import oblivious_by
from jaxrobust.results.metrics import MetricValue, SummaryFile

_FIRST = ("accuracy", "clean accuracy", "clean", "ID accuracy", "ID robustness")
AVERAGE, MEAN_RANK = "Avg.", "mean rank"
# What is no share of examples, besides metrics with a unit, which are neither good nor bad and not ranked.
_NO_SHARE = ("area", "frequency bias")
_NO_RANK = ("frequency bias",)
# Of suites whose papers average: arXiv:2302.14301, tables 4 and 5, over the ten data sets.
_AVERAGED = ("ares-bench",)


@dataclass(frozen=True)
class MetricColumn:
  """A metric of a suite.

  Attributes:
    name: as the suite calls it.
    share: whether it is shown in per cent.
    n: the number of examples that most of its numbers are about; None where none says so.
    unit: where it has one.
  """

  name: str
  share: bool
  n: int | None
  unit: str = ""

  @property
  def title(self) -> str:
    """Returns the name with the unit, where there is one."""
    return f"{self.name}, {self.unit}" if self.unit else self.name

  def shown(self, metric: MetricValue | None) -> str:
    """Formats a number for people; one that is not whole with the cells it was made from.

    >>> MetricColumn("OOD_t", True, None).shown(MetricValue(0.4321, cells=2, whole=6))
    '43.2 (2 of 6)'
    """
    if metric is None:
      return "–"
    text = f"{100 * metric.value:.1f}" if self.share else f"{metric.value:.3g}"
    return f"{text} ({metric.cells} of {metric.whole})" if metric.partial else text


@dataclass(frozen=True, eq=False)
class SuiteBoard:
  """One suite on one data set and threat.

  Attributes:
    columns: its metrics, accuracy without a shift first.
    rows: the summary of each model, best first: by the average, else by the mean rank.
    ranks: rank of a model by each metric, 1 the best; only of whole numbers of equally many examples.
    averages: mean over the data sets that the paper averages, of models that have them all.
    averaged: the columns of that mean.
    params, flops, techniques, archs: what is known of the models.
  """

  suite: str
  data: str
  norm: str
  eps: str
  columns: tuple[MetricColumn, ...]
  rows: Mapping[str, SummaryFile]
  ranks: Mapping[str, Mapping[str, int]]
  averages: Mapping[str, float]
  averaged: tuple[str, ...]
  about: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

  @property
  def name(self) -> str:
    return ", ".join(part for part in (self.suite, self.data, f"{self.norm} {self.eps}".strip()) if part)

  @property
  def file(self) -> str:
    return "-".join(part.replace("/", "_") for part in ("suite", self.suite, self.data, self.norm, self.eps) if part)

  def metric(self, model: str, name: str) -> MetricValue | None:
    return self.rows[model].metrics.get(name)

  def title(self, model: str) -> str:
    """Returns a model's name, with its number of examples where models differ in it."""
    sizes = {summary.n for summary in self.rows.values()}
    return model if len(sizes) == 1 or (n := self.rows[model].n) is None else f"{model} (n = {n:,})"

  def mean_rank(self, model: str) -> float | None:
    """Returns the mean of a model's ranks; None where it is alone, or missing where others are ranked."""
    ranked = [ranks for ranks in self.ranks.values() if len(ranks) > 1]
    found = [ranks[model] for ranks in ranks_with(ranked, model)]
    return float(np.mean(found)) if found and len(found) == len(ranked) else None

  def known(self, model: str, name: str) -> float | None:
    """Returns something of a model, such as `params`, as a number."""
    value = self.about.get(model, {}).get(name)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and value > 0 else None


def ranks_with(ranked: Iterable[Mapping[str, int]], model: str) -> list[Mapping[str, int]]:
  """Returns those rankings that hold a model."""
  return [ranks for ranks in ranked if model in ranks]


def make_suite_boards(
  summaries: Iterable[SummaryFile], about: Mapping[str, Mapping[str, Any]] | None = None
) -> list[SuiteBoard]:
  """Returns a board for each suite, data set and threat; of two summaries of a model the more complete one."""
  groups: dict[tuple[str, str, str, str], dict[str, SummaryFile]] = {}
  for summary in summaries:
    group = groups.setdefault((summary.suite, summary.data, summary.norm, summary.eps), {})
    other = group.get(summary.model)
    if other is None or summary.completeness > other.completeness:
      group[summary.model] = summary
  return [_board(*key, group, about or {}) for key, group in sorted(groups.items()) if _columns(group)]


def _board(
  suite: str, data: str, norm: str, eps: str, group: dict[str, SummaryFile], about: Mapping[str, Mapping[str, Any]]
) -> SuiteBoard:
  columns = _columns(group)
  # What attacks leave that ignore a defense ranks nothing.
  ranks = {one.name: {} if oblivious_by(suite) or oblivious_by(one.name) else _ranks(one, group) for one in columns}
  averaged = _averaged(suite, [column.name for column in columns])
  averages = {}
  for model, summary in group.items():
    found = [summary.metrics.get(name) for name in averaged]
    whole = [metric.value for metric in found if metric is not None and not metric.partial]
    if averaged and len(whole) == len(averaged):
      averages[model] = float(np.mean(whole))
  board = SuiteBoard(suite, data, norm, eps, columns, group, ranks, averages, averaged, about)
  place = lambda model: (model not in averages, -averages.get(model, 0.0), board.mean_rank(model) or np.inf, model)
  rows = {model: group[model] for model in sorted(group, key=place)}
  return SuiteBoard(suite, data, norm, eps, columns, rows, ranks, averages, averaged, about)


def _columns(group: Mapping[str, SummaryFile]) -> tuple[MetricColumn, ...]:
  names = sorted({name for summary in group.values() for name in summary.metrics}, key=_place)
  found = []
  for name in names:
    n = _usual(metric.n for summary in group.values() if (metric := summary.metrics.get(name)) and metric.n)
    unit = next((summary.units[name] for summary in group.values() if name in summary.units), "")
    share = not unit and not name.startswith(_NO_SHARE)
    found.append(MetricColumn(name, share, n, unit))
  return tuple(found)


def _place(name: str) -> tuple[Any, ...]:
  """Orders metrics as papers do: without a shift, data sets, the suite's own, single attacks, areas.

  >>> sorted(["area, x", "WCAR, large", "linf-fgsm@4/255", "WCAR, small", "imagenet-a", "accuracy"], key=_place)
  ['accuracy', 'imagenet-a', 'WCAR, small', 'WCAR, large', 'linf-fgsm@4/255', 'area, x']
  """
  if name in _FIRST:
    return 0, _FIRST.index(name)
  sets = [known.index(name) for known in ARES_BENCH.values() if name in known]
  if sets:
    return 1, sets[0], name
  size = next((place for place, word in enumerate(("small", "middle", "large")) if name.endswith(f", {word}")), 0)
  return 4 if name.startswith("area") else 3 if "@" in name else 2, name.partition(", ")[0], size, name


def _ranks(column: MetricColumn, group: Mapping[str, SummaryFile]) -> dict[str, int]:
  """Returns the ranks by a metric, among models that have it of equally many examples, as many as most."""
  if column.unit or column.name.startswith(_NO_RANK):
    return {}
  found = {model: compared(summary, column.name) for model, summary in group.items()}
  whole = {model: number for model, number in found.items() if number is not None}
  n = _usual(size for _, size in whole.values())
  return ranks_of({model: value for model, (value, size) in whole.items() if size == n})


def compared(summary: SummaryFile, name: str) -> tuple[float, int | None] | None:
  """Returns a metric that is whole, and of how many examples it is; None for any other."""
  metric = summary.metrics.get(name)
  return None if metric is None or metric.partial else (metric.value, metric.n or summary.n)


def _usual(sizes: Iterable[int | None]) -> int | None:
  """Returns the number of examples that most have, of several such the largest."""
  counts = Counter(sizes)
  return max(counts, key=lambda n: (counts[n], n or 0), default=None)


def _averaged(suite: str, names: Sequence[str]) -> tuple[str, ...]:
  """Returns the columns whose mean a paper prints: accuracies on data sets, corruptions by 1 - mCE if that is there."""
  if suite.partition("-small")[0].partition("-generated")[0] not in _AVERAGED or AVERAGE in names:
    return ()
  sets = {"accuracy", *(name for known in ARES_BENCH.values() for name in known)}
  corrupted = "1 - mCE" if "1 - mCE" in names else "corruption accuracy"
  found = tuple(name for name in names if name in sets or name == corrupted)
  return found if len(found) > 2 else ()


def top_models(board: SuiteBoard, most: int = 5) -> dict[str, list[tuple[str, MetricValue]]]:
  """Returns the best models by each metric, as RobustART's table 1 does per noise (arXiv:2109.05211)."""
  found = {}
  for column in board.columns:
    models = sorted(board.ranks[column.name], key=lambda model: (board.ranks[column.name][model], model))[:most]
    entries = [(model, metric) for model in models if (metric := board.metric(model, column.name)) is not None]
    if entries:
      found[column.name] = entries
  return found


@dataclass(frozen=True)
class TechniqueEffect:
  """One technique beside the same architectures without it.

  Attributes:
    technique: its name.
    pairs: (architecture, model without, model with).
    means: for each metric the mean without and with it over the pairs that have both whole and of as many examples.
  """

  technique: str
  pairs: tuple[tuple[str, str, str], ...]
  means: Mapping[str, tuple[float, float]]


PLAIN = ("standard", "clean", "none", "")


def technique_effects(board: SuiteBoard) -> list[TechniqueEffect]:
  """Compares networks of one architecture with and without a technique, over all metrics.

  The network without it is the one that shares most other techniques and has none that the first lacks. RobustART's
  figures 5 and 18 to 29 are such bars (arXiv:2109.05211); the last is Half-AT against clean training.
  """
  groups: dict[str, list[tuple[str, str, str]]] = {}
  words = {model: _techniques(board, model) for model in board.rows}
  for model, (arch, mine) in words.items():
    fewer = {other: theirs for other, (same, theirs) in words.items() if same == arch and set(theirs) < set(mine)}
    if arch and fewer:
      closest = min(fewer, key=lambda other: (-len(fewer[other]), other))
      added = "+".join(word for word in mine if word not in fewer[closest])
      groups.setdefault(added, []).append((arch, closest, model))
  effects = []
  for technique, pairs in sorted(groups.items()):
    means: dict[str, tuple[float, float]] = {}
    for column in board.columns:
      both = [[compared(board.rows[model], column.name) for model in pair[1:]] for pair in pairs]
      values = [[one[0], other[0]] for one, other in both if one and other and one[1] == other[1]]
      if values:
        without, with_it = np.mean(values, axis=0).tolist()
        means[column.name] = without, with_it
    effects.append(TechniqueEffect(technique, tuple(pairs), means))
  return effects


def _techniques(board: SuiteBoard, model: str) -> tuple[str, tuple[str, ...]]:
  """Returns the architecture of a model and the techniques it was trained with; plain training is none."""
  about = board.about.get(model, {})
  words = str(about.get("technique") or "").split("+")
  return str(about.get("arch") or ""), tuple(word for word in words if word not in PLAIN)


CurveSet = dict[str, tuple[str, dict[str, list[list[float]]]]]
"""Title to (text at the x axis, model to points in per cent)."""


def suite_curves(board: SuiteBoard) -> CurveSet:
  """Collects the curves of all models: over budget, strength, low-pass cutoff (ACC-LPB) and corruption severity."""
  found: CurveSet = {}
  for model, summary in board.rows.items():
    curves = [(name, str(curve.get("unit") or ""), curve) for name, curve in summary.curves.items() if is_curve(curve)]
    for name, table in summary.tables.items():
      if isinstance(table, Mapping) and is_curve(table.get("severity curve")):
        curves.append((f"{name} by severity", "severity", table["severity curve"]))
    for name, unit, curve in curves:
      scale = 255 if unit == "linf" else 1
      points = [[round(scale * x, 6), round(100 * y, 4)] for x, y in zip(curve["x"], curve["y"], strict=True)]
      label = {"linf": "budget × 255", "l2": "l2 budget", "bandwidth": "bandwidth kept", "cutoff": "cutoff frequency"}
      found.setdefault(name, (label.get(unit, unit), {}))[1][model] = points
  return found


def is_curve(curve: Any) -> bool:
  """Tells whether something of a summary is a curve: as many numbers x as y."""
  if not isinstance(curve, Mapping):
    return False
  x, y = curve.get("x"), curve.get("y")
  numbers = all(isinstance(v, list) and v and all(type(n) in (int, float) for n in v) for v in (x, y))
  return numbers and len(x) == len(y)  # type: ignore[arg-type]
