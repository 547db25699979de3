"""Sums up what a suite says of a classifier: the metrics of its paper, computed from cells alone.

Proportions come with their Wilson interval and n. Averages over cells (R_c, OOD_d, …) are means of such proportions,
each cell counting alike; they have no interval, because the cells share examples. Where cells are missing, a number
says how many of how many it is made of (`cells`, `of`), and what would be built on it is empty unless that is asked
for.

`<out>/<model>/<suite>@<data>.<threat>.n<n>.seed<seed>.summary.json` holds nothing that cannot be computed again from
the cell files it lists. A run that is not whole is written as `….partial-<which cells>.summary.json`: beside the whole
one, and beside those of other cells.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from jaxrobust.core.budget import Budget, inside
from jaxrobust.core.errors import InputError
from jaxrobust.core.files import atomic_write
from jaxrobust.evaluation.metrics.adversarial import worst_case
from jaxrobust.evaluation.metrics.corruptions import corruption_robustness
from jaxrobust.evaluation.metrics.curves import accuracy_vs_severity, area
from jaxrobust.evaluation.metrics.proportions import proportion
from jaxrobust.evaluation.suites.report import Report, SuiteCell
from jaxrobust.evaluation.suites.shifted_datasets import CORRUPTIONS, corruption_of
from jaxrobust.evaluation.suites.suite import Summary
from jaxrobust.evaluation.verdicts import BLIND, BLIND_LIMIT, BLIND_TEXT
from jaxrobust.results.cell import safe_name
from jaxrobust.results.plain import dumps, plain


def summarize_suite(report: Report) -> Summary:
  """Returns the metrics of an evaluation, as plain values."""
  if not report.whole:
    raise InputError("some cells are shards of other processes; the last one to finish has them all")
  suite, setting = report.suite, report.suite.setting
  # What the suite does not fix tells numbers apart that are made differently.
  threat = {name: text for name, text in (("norm", setting.norm), ("eps", setting.eps.text)) if name not in suite.fixes}
  return {
    "suite": suite.name + setting.suffix,
    "model": report.model,
    "data": setting.data,
    "threat": threat or None,
    "n": most_examples(report),
    "seed": report.cells[0].result.cell.seed if report.cells else 0,
    "partial": is_partial(report),
    **(suite.metrics or attack_metrics)(report),
    "cells": sorted({str(cell.result.cell) for cell in report.cells}),
    "missing": dict(report.missing),
    "findings": query_findings(report),
  }


def write_summary(out: str | Path, report: Report, summary: Mapping[str, Any]) -> Path:
  """Stores the summary of a suite beside the cells it was computed from."""
  path = Path(out, safe_name(report.model), summary_name(report))
  atomic_write(path, dumps(plain(summary, "summary", null_for_nan=True)))
  return path


def query_findings(report: Report) -> list[dict[str, Any]]:
  """Returns the attacks without gradients that broke what all gradient attacks left standing within the same budget.

  Minimal attacks and searches are judged by their distances, at every budget of the attacks beside them.
  """
  groups: dict[tuple, list[SuiteCell]] = {}
  for cell in report.cells:
    if cell.attacked:
      norm, n = cell.entry.schedule.stages[0].attack.threat.name, cell.result.cell.n
      groups.setdefault((cell.part.data, cell.part.condition, norm, cell.entry.targeted, n), []).append(cell)
  found = []
  for cells in groups.values():
    budgets = {eps.text: eps for cell in cells for eps in (cell.entry.eps, *cell.entry.strengths) if eps is not None}
    for eps in budgets.values():
      found += _beyond_gradients(cells, eps)
  return found


def _beyond_gradients(cells: list[SuiteCell], eps: Budget) -> list[dict[str, Any]]:
  """Returns the findings at one budget."""
  standing: list[np.ndarray] = []
  others: list[tuple[SuiteCell, np.ndarray]] = []
  for cell in cells:
    left = _standing(cell, eps)
    if left is None:
      continue
    if any(stage.attack.access == "gradient" for stage in cell.entry.schedule.stages):
      standing.append(left)
    else:
      others.append((cell, left))
  found = []
  for cell, left in others if standing else []:
    count = int((worst_case(standing) & ~left & ~cell.result.examples["nan"]).sum())
    if count > BLIND_LIMIT * len(left):
      title = cell.entry.title if cell.entry.eps is not None else f"{cell.entry.title}@{eps.text}"
      found.append({"kind": BLIND, "cell": title, "examples": count, "text": BLIND_TEXT})
  return found


def _standing(cell: SuiteCell, eps: Budget) -> np.ndarray | None:
  """Returns which examples an attack left standing within a budget; None where its cell does not say."""
  examples = cell.result.examples
  if cell.entry.schedule.minimal:
    return examples["correct"] & ~examples["nan"] & ~inside(examples["distance"], eps.value)
  return examples["robust"] if cell.entry.eps is not None and cell.entry.eps.text == eps.text else None


def summary_name(report: Report) -> str:
  """Returns a file name that no evaluation of other data, threat, number of examples, seed or cells has."""
  suite, setting = report.suite, report.suite.setting
  threat = "" if "eps" in suite.fixes else f".{setting.norm}-{setting.eps.text.replace('/', '_')}"
  norm = f".{setting.norm}" if suite.fixes == ("eps",) else ""
  seed = report.cells[0].result.cell.seed if report.cells else 0
  cells = "\n".join(sorted(str(cell.result.cell) for cell in report.cells)).encode("utf-8", "replace")
  partial = f".partial-{zlib.crc32(cells):08x}" if is_partial(report) else ""
  what, where = safe_name(suite.name), safe_name(setting.data)
  name = f"{what}{setting.suffix}@{where}{threat}{norm}.n{most_examples(report)}.seed{seed}"
  return f"{name}{partial}.summary.json"


def most_examples(report: Report) -> int:
  """Returns the number of examples of the largest cell."""
  return max((cell.result.cell.n for cell in report.cells), default=0)


def is_partial(report: Report) -> bool:
  """Tells whether cells of the suite are missing: of data or attacks that are not there, or not asked for."""
  asked = sum(part.expected for part in report.suite.whole or report.suite.parts)
  return len(report.cells) < asked


def attack_metrics(report: Report) -> Summary:
  """Returns the accuracy under each attack, and under all of those that share a budget's examples."""
  attacked = [cell for cell in report.cells if cell.attacked and not cell.entry.targeted]
  metrics = {cell.entry.title: cell.accuracy.plain() for cell in report.cells}
  if len(attacked) > 1 and len({cell.result.cell.n for cell in attacked}) == 1:
    metrics["worst case"] = proportion(worst_case([cell.result.examples["robust"] for cell in attacked])).plain()
  return {"metrics": metrics}


def corruption_metrics(cells: list[SuiteCell], reference: SuiteCell | None) -> Summary:
  """Returns the accuracy under corruptions, by corruption and by severity, and 1 - mCE where AlexNet's errors apply."""
  table: dict[str, dict[int, float]] = {}
  for cell in cells:
    name, severity = corruption_of(cell.part)
    table.setdefault(name, {})[severity] = cell.accuracy.value
  by_severity = {s: [row[s] for row in table.values() if s in row] for row in table.values() for s in row}
  curve = accuracy_vs_severity(by_severity, None if reference is None else reference.accuracy.value)
  found: Summary = {
    "mean accuracy": float(np.mean([np.mean(list(row.values())) for row in table.values()])),
    "by corruption": {name: float(np.mean(list(row.values()))) for name, row in table.items()},
    "severity curve": curve.plain(),
    "severity area": area(curve),
  }
  official = all(cell.part.data.startswith("imagenet-c:") for cell in cells)
  if official and all(set(table.get(name, ())) == set(range(1, 6)) for name in CORRUPTIONS):
    errors = {name: [1 - table[name][severity] for severity in range(1, 6)] for name in CORRUPTIONS}
    found["1 - mCE"] = corruption_robustness(errors)
  return found
