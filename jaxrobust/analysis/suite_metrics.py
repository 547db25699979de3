"""What a suite says of a classifier: the metrics of its paper, computed from cells alone.

Proportions come with their Wilson interval and n. Averages over cells (R_c, OOD_d, …) are means of such proportions,
each cell counting alike; they have no interval, because the cells share examples.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jaxrobust.analysis.curves import accuracy_vs_severity, area
from jaxrobust.analysis.proportions import proportion
from jaxrobust.analysis.suite_cells import SuiteCell, SuiteCells, mean
from jaxrobust.analysis.suite_curves import ares, autoattack_curve, frequency
from jaxrobust.evaluation.benchmarks.oodrb import PERCEPTUAL
from jaxrobust.evaluation.benchmarks.relatives import CORRUPTIONS, corruption_of
from jaxrobust.evaluation.evaluate import Report
from jaxrobust.evaluation.metrics.adversarial import worst_case
from jaxrobust.evaluation.metrics.corruptions import corruption_robustness
from jaxrobust.evaluation.metrics.flips import negative_mean_flip_probability
from jaxrobust.evaluation.metrics.outliers import area_under_roc, average_precision
from jaxrobust.evaluation.metrics.stability import negative_standard_deviation

Summary = dict[str, Any]


def summarise_suite(report: Report) -> Summary:
  """The metrics of an evaluation, as plain values."""
  cells = SuiteCells.of(report)
  plan = cells.plan
  return {
    "suite": plan.name + plan.setting.suffix,
    "model": report.model,
    "data": plan.setting.data,
    "threat": {"norm": plan.setting.norm, "eps": plan.setting.eps.text},
    **METRICS.get(plan.name, plain_suite)(cells),
    "cells": sorted({str(cell.result.cell) for cell in cells.cells}),
    "missing": dict(report.missing),
  }


def plain_suite(cells: SuiteCells) -> Summary:
  """A set of attacks: accuracy under each, and under all of those that share a budget's examples."""
  attacked = [cell for cell in cells.cells if cell.attacked and not cell.entry.targeted]
  metrics = {cell.entry.title: cell.accuracy.plain() for cell in cells.cells}
  if len(attacked) > 1 and len({cell.result.cell.n for cell in attacked}) == 1:
    metrics["worst case"] = proportion(worst_case([cell.result.examples["robust"] for cell in attacked])).plain()
  return {"metrics": metrics}


def _corruption_summary(cells: list[SuiteCell], clean: float | None) -> Summary:
  """The mean accuracy under corruptions, by corruption and by severity, and 1 - mCE where AlexNet's errors apply."""
  table: dict[str, dict[int, float]] = {}
  for cell in cells:
    name, severity = corruption_of(cell.part)
    table.setdefault(name, {})[severity] = cell.accuracy.value
  by_severity = {s: [row[s] for row in table.values() if s in row] for row in table.values() for s in row}
  curve = accuracy_vs_severity(by_severity, clean)
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


def oodrb(cells: SuiteCells) -> Summary:
  """ID accuracy and robustness, R_c, R_n, OOD_d = (R_c + R_n) / 2, OOD_t, OOD = (OOD_d + OOD_t) / 2."""
  metrics: Summary = {}
  for attacked, letter in ((False, "accuracy"), (True, "robustness")):
    one = cells.one("id", attacked)
    natural, corrupted = (mean(cells.group(group, attacked)) for group in ("natural", "corruption"))
    metrics[f"ID {letter}"] = None if one is None else one.accuracy.plain()
    metrics["R_c" if attacked else "A_c"] = corrupted
    metrics["R_n" if attacked else "A_n"] = natural
    parts = [value for value in (natural, corrupted) if value is not None]
    metrics["OOD_d" if attacked else "OOD accuracy"] = float(np.mean(parts)) if parts else None
  threats = cells.group("threat", True)
  metrics["OOD_t"] = mean(threats)
  both = [metrics[name] for name in ("OOD_d", "OOD_t") if metrics[name] is not None]
  metrics["OOD"] = float(np.mean(both)) if len(both) == 2 else None
  there = {cell.entry.attack.partition("-")[2].split("-")[0] for cell in threats}
  tables: Summary = {
    "natural": {
      f"{cell.part.data} {'robustness' if cell.attacked else 'accuracy'}": cell.accuracy.plain()
      for cell in cells.group("natural")
    },
    "threats": {cell.entry.title: cell.accuracy.plain() for cell in threats},
    "threats without an attack here": [name for name in PERCEPTUAL if name not in there],
  }
  for attacked, name in ((False, "accuracy"), (True, "robustness")):
    corrupted_cells, one = cells.group("corruption", attacked), cells.one("id", attacked)
    if corrupted_cells:
      clean = None if one is None else one.accuracy.value
      tables[f"corruptions, {name}"] = _corruption_summary(corrupted_cells, clean)
  return {"metrics": metrics, "tables": tables}


def robustart(cells: SuiteCells) -> Summary:
  """Clean accuracy, AR of each attack, WCAR of each size, corruptions, NmFP, hard accuracy, AUPR, NSD."""
  clean = cells.one("id", False)
  metrics: Summary = {"clean accuracy": None if clean is None else clean.accuracy.plain()}
  tables: Summary = {}
  for size, attacks in cells.groups("adversarial-"):
    tables[f"AR, {size}"] = {cell.entry.title: cell.robustness.plain() for cell in attacks}
    correct = attacks[0].result.examples["correct"]
    standing = worst_case([cell.result.examples["robust"] for cell in attacks])
    metrics[f"WCAR, {size}"] = proportion(standing[correct]).plain() if correct.any() else None
  corrupted = cells.group("corruption")
  if corrupted:
    tables["corruptions"] = _corruption_summary(corrupted, None if clean is None else clean.accuracy.value)
    metrics["corruption accuracy"] = tables["corruptions"]["mean accuracy"]
    metrics["1 - mCE"] = tables["corruptions"].get("1 - mCE")
  flips = {
    cell.part.condition.split("-")[1]: cell.result.summary["flip_probability"] for cell in cells.group("sequence")
  }
  if flips:
    tables["flip probability"] = flips
    metrics["NmFP"] = negative_mean_flip_probability(flips)
  hard, outlier = cells.one("hard", False), cells.one("outlier", False)
  metrics["hard accuracy"] = None if hard is None else hard.accuracy.plain()
  if clean is not None and outlier is not None:
    scores = [-cell.result.examples["confidence"].astype(np.float64) for cell in (clean, outlier)]
    metrics["AUPR"], metrics["AUROC"] = average_precision(*scores), area_under_roc(*scores)
  system = cells.group("system")
  if system:
    tables["system noise"] = {cell.part.condition.removeprefix("system-"): cell.accuracy.plain() for cell in system}
    metrics["NSD"] = negative_standard_deviation(np.array([cell.accuracy.value for cell in system]))
  return {"metrics": metrics, "tables": tables}


def ares_bench(cells: SuiteCells) -> Summary:
  """Accuracy on each relative, under corruptions and attacks, AutoAttack over budgets, frequency bias."""
  clean = cells.one("id", False)
  metrics: Summary = {"accuracy": None if clean is None else clean.accuracy.plain()}
  metrics |= {cell.part.data: cell.accuracy.plain() for cell in cells.group("natural")}
  metrics |= {cell.entry.title: cell.accuracy.plain() for cell in cells.group("adversarial")}
  tables: Summary = {}
  if corrupted := cells.group("corruption"):
    tables["corruptions"] = _corruption_summary(corrupted, None if clean is None else clean.accuracy.value)
    metrics["corruption accuracy"] = tables["corruptions"]["mean accuracy"]
    metrics["1 - mCE"] = tables["corruptions"].get("1 - mCE")
  curves = autoattack_curve(cells) | frequency(cells)
  if "low-pass" in curves:
    metrics["frequency bias"] = curves["low-pass"]["frequency bias"]
  return {"metrics": metrics, "tables": tables, "curves": curves}


def nas_cell(cells: SuiteCells) -> Summary:
  """Accuracy over attacks × eps and corruptions × severities; the matrices are in the cells' own summaries."""
  metrics = {cell.entry.title: cell.accuracy.plain() for cell in cells.group("id")}
  tables: Summary = {}
  clean = cells.one("id", False)
  if corrupted := cells.group("corruption"):
    tables["corruptions"] = _corruption_summary(corrupted, None if clean is None else clean.accuracy.value)
    metrics["corruption accuracy"] = tables["corruptions"]["mean accuracy"]
  tables["confidence of right and wrong predictions"] = {
    f"{cell.part.condition} {cell.entry.title}": cell.result.summary["confidence"]["prediction"] for cell in cells.cells
  }
  return {"metrics": metrics, "tables": tables}


METRICS: dict[str, Callable[[SuiteCells], Summary]] = {
  "oodrb": oodrb,
  "robustart": robustart,
  "ares": ares,
  "ares-bench": ares_bench,
  "nas-cell": nas_cell,
  "robustbench": plain_suite,
}
