"""The cells that answer a suite for one classifier, by what they stand for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from jaxrobust.core.display import html_table
from jaxrobust.core.proportions import Proportion, proportion
from jaxrobust.evaluation.metrics.proportions import robust_proportion
from jaxrobust.evaluation.suites.entry import SuiteEntry
from jaxrobust.evaluation.suites.suite import Part, Suite
from jaxrobust.results import Result
from jaxrobust.results.cell import INDEX

Metric = float | dict[str, Any] | None
"""A number; with `cells` and `of` where it is not whole, with `low`, `high` and `n` where it is a proportion."""

# Cells that one line has room for.
_SHOWN = 4


class SuiteCell(NamedTuple):
  """Holds a result, and the place it has in its suite."""

  part: Part
  entry: SuiteEntry
  result: Result

  @property
  def attacked(self) -> bool:
    return self.entry.attack != "none"

  @property
  def accuracy(self) -> Proportion:
    """Counts the examples right without and with the attack, if there is one."""
    return robust_proportion(self.result.examples, self.result.summary)

  @property
  def robustness(self) -> Proportion:
    """Counts those still right, of those right before the attack."""
    correct = self.result.examples["correct"]
    return proportion(self.result.examples["robust"][correct]) if correct.any() else Proportion(0.0, 0.0, 1.0, 0)


@dataclass(frozen=True, repr=False)
class Report:
  """Holds the results of one classifier, in the order of the suite.

  Attributes:
    cells: results with their places.
    missing: data sets that could not be had -> how to get them.
    partial: whether numbers may be built on others that are not whole.
  """

  model: str
  suite: Suite
  cells: tuple[SuiteCell, ...]
  missing: Mapping[str, str] = field(default_factory=dict)
  partial: bool = False

  def __repr__(self) -> str:
    """Returns one line: the accuracy and its interval under each attack, and what else a reader must know."""
    shares = [f"{title} {cell.accuracy} %" for title, cell in zip(self.titles[:_SHOWN], self.cells, strict=False)]
    more = [f"{len(self.cells) - _SHOWN} more cells"] if len(self.cells) > _SHOWN else []
    kinds = dict.fromkeys(finding["kind"] for result in self.results for finding in result.findings)
    findings = [f"findings: {' '.join(kinds)}"] if kinds else []
    return f"Report({self.model}: {', '.join([*shares, *more, *findings])})"

  def _repr_html_(self) -> str:
    rows = []
    for title, cell in zip(self.titles, self.cells, strict=True):
      kinds = " ".join(finding["kind"] for finding in cell.result.findings)
      rows.append((title, *cell.accuracy.texts(), cell.accuracy.n, kinds))
    texts = dict.fromkeys(f"{found['kind']}: {found['text']}" for result in self.results for found in result.findings)
    return html_table(
      f"{self.model}: {self.suite.name}", ("attack", "accuracy", "95 %", "n", "findings"), rows, list(texts)
    )

  @property
  def results(self) -> tuple[Result, ...]:
    return tuple(cell.result for cell in self.cells)

  @property
  def titles(self) -> tuple[str, ...]:
    """Names each cell by its entry, after data set and condition where they are not those of the whole evaluation."""
    return tuple(self._title(cell.part, cell.entry) for cell in self.cells)

  def _title(self, part: Part, entry: SuiteEntry) -> str:
    if len(self.suite.parts) == 1:
      return entry.title
    where = [] if part.data == self.suite.setting.data else [part.data]
    return " ".join([*where, *([] if part.condition == "none" else [part.condition]), entry.title])

  @property
  def whole(self) -> bool:
    """Tells whether no cell is a shard: the last process to finish has them all."""
    return not any(INDEX in result.examples for result in self.results)

  def rows(self) -> list[dict[str, Any]]:
    """Returns one plain row per cell."""
    return [
      {"model": self.model, "attack": title, **result.summary, "findings": list(result.findings)}
      for title, result in zip(self.titles, self.results, strict=True)
    ]

  def accuracies(self) -> dict[str, float]:
    """Returns the clean accuracy under "clean", robust accuracies under the titles of their cells."""
    return {title: result.summary["robust_accuracy"] for title, result in zip(self.titles, self.results, strict=True)}

  def group(self, name: str, attacked: bool | None = None) -> list[SuiteCell]:
    """Returns the cells of a group; only those with, or without, an attack if asked for."""
    return [cell for cell in self.cells if cell.part.group == name and attacked in (None, cell.attacked)]

  def groups(self, prefix: str) -> Iterator[tuple[str, list[SuiteCell]]]:
    """Returns (rest of the name, cells) of all groups whose names start so."""
    names = dict.fromkeys(cell.part.group for cell in self.cells if cell.part.group.startswith(prefix))
    return ((name.removeprefix(prefix), self.group(name)) for name in names)

  def one(self, name: str, attacked: bool) -> SuiteCell | None:
    """Returns the first cell of a group, or None."""
    return next(iter(self.group(name, attacked)), None)

  def counted(
    self, value: float | None, group: str, attacked: bool | None = None, chosen: Callable[[Part], bool] | None = None
  ) -> Metric:
    """Returns a number over the cells of a group, marked with how many there are where some are missing."""
    found = sum(chosen is None or chosen(cell.part) for cell in self.group(group, attacked))
    of = self.suite.expected(group, attacked, chosen)
    return value if value is None or found >= of else {"value": value, "cells": found, "of": of}

  def mean(self, group: str, attacked: bool) -> Metric:
    """Returns the accuracy averaged over the cells of a group, each counting alike."""
    return self.counted(mean(self.group(group, attacked)), group, attacked)

  def worst(self, group: str) -> Metric:
    """Returns the share of examples that stand every attack of a group: the worst case, per example."""
    robust = [cell.result.examples["robust"] for cell in self.group(group, True)]
    if not robust or len({len(one) for one in robust}) > 1:
      return None
    return self.counted(float(np.mean(np.all(robust, axis=0))), group, True)

  def built(self, *parts: Metric) -> Metric:
    """Returns the mean of numbers; nothing where one of them is missing or partial, unless partial ones are asked for.

    A number that partial ones went into says so, by the cells of all of them.
    """
    plain = [part["value"] if isinstance(part, Mapping) else part for part in parts]
    known = [value for value in plain if value is not None]
    broken = [part for part in parts if isinstance(part, Mapping)]
    if len(known) == len(parts) and not broken:
      return float(np.mean(known))
    if not self.partial or not known:
      return None
    cells, of = sum(part["cells"] for part in broken), sum(part["of"] for part in broken)
    return {"value": float(np.mean(known)), "cells": cells, "of": of or len(parts)}


def mean(cells: list[SuiteCell]) -> float | None:
  """Returns the accuracy averaged over cells, each counting alike; None without any."""
  return float(np.mean([cell.accuracy.value for cell in cells])) if cells else None
