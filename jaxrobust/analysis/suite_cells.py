"""The cells of a suite by what they stand for, and the summary file made from them.

`<out>/<model>/<suite>.summary.json` holds nothing that cannot be computed again from the cell files it lists.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from jaxrobust.analysis.proportions import Proportion, proportion
from jaxrobust.core.errors import InputError
from jaxrobust.core.files import atomic_write
from jaxrobust.evaluation.evaluate import Report
from jaxrobust.evaluation.plan import Part, Plan
from jaxrobust.evaluation.suites import Entry
from jaxrobust.results import Result
from jaxrobust.results.cell import INDEX, safe_name
from jaxrobust.results.plain import dumps, plain


@dataclass(frozen=True)
class SuiteCell:
  """A result, and the place it has in its suite."""

  part: Part
  entry: Entry
  result: Result

  @property
  def attacked(self) -> bool:
    return self.entry.attack != "none"

  @property
  def accuracy(self) -> Proportion:
    """Right without and with the attack, if there is one."""
    return proportion(self.result.examples["robust"])

  @property
  def robustness(self) -> Proportion:
    """Still right, of those right before the attack."""
    correct = self.result.examples["correct"]
    return proportion(self.result.examples["robust"][correct]) if correct.any() else Proportion(0.0, 0.0, 1.0, 0)


@dataclass(frozen=True)
class SuiteCells:
  """All cells of a suite."""

  plan: Plan
  cells: tuple[SuiteCell, ...]

  @classmethod
  def of(cls, report: Report) -> SuiteCells:
    """The cells of an evaluation, which must be whole."""
    if report.plan is None:
      raise InputError("this report was made without a plan")
    if any(INDEX in result.examples for result in report.results):
      raise InputError("some cells are shards of other processes; the last one to finish has them all")
    pairs = zip(report.tasks, report.results, strict=True)
    return cls(report.plan, tuple(SuiteCell(part, entry, result) for (part, entry), result in pairs))

  def group(self, name: str, attacked: bool | None = None) -> list[SuiteCell]:
    """The cells of a group; only those with, or without, an attack if asked for."""
    return [c for c in self.cells if c.part.group == name and attacked in (None, c.attacked)]

  def groups(self, prefix: str) -> Iterator[tuple[str, list[SuiteCell]]]:
    """(rest of the name, cells) of all groups whose names start so."""
    names = dict.fromkeys(c.part.group for c in self.cells if c.part.group.startswith(prefix))
    return ((name.removeprefix(prefix), self.group(name)) for name in names)

  def one(self, name: str, attacked: bool) -> SuiteCell | None:
    """The first cell of a group, or None."""
    return next(iter(self.group(name, attacked)), None)


def mean(cells: list[SuiteCell]) -> float | None:
  """The accuracy averaged over cells, each counting alike; None without any."""
  return float(np.mean([cell.accuracy.value for cell in cells])) if cells else None


def summary_path(out: str | Path, model: str, plan: Plan) -> Path:
  """Where the summary of a suite lives."""
  return Path(out, safe_name(model), f"{plan.name}{plan.setting.suffix}.summary.json")


def write_summary(out: str | Path, report: Report, summary: Mapping[str, Any]) -> Path:
  """Stores the summary of a suite beside the cells it was computed from."""
  assert report.plan is not None
  path = summary_path(out, report.model, report.plan)
  atomic_write(path, dumps(plain(summary, "summary", null_for_nan=True)))
  return path
