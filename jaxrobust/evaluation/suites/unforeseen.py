"""ImageNet-UA (Kaufmann et al. 2019, version 3 of 2023, arXiv:1908.08016): eight attacks that nobody trains against.

JPEG, elastic, wood, glitch, kaleidoscope, pixel, snow and Gabor at three distortions, low, medium and high; linf PGD
beside them. UA2, the unforeseen adversarial accuracy, is the mean accuracy under the eight at one distortion, each
counting alike. Budgets, steps and sizes of the attacks are those that the authors' scripts have for CIFAR-10 and
ImageNet (github.com/centerforaisafety/adversarial-corruptions); other data sets take those of the nearer size.

Known deviations: the first success counts (`attacks/unforeseen/ascent.py`), so that numbers are no higher than theirs;
and the worst case over the eight, per example, is reported too. Their eleven further attacks are not here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jaxrobust.core.budget import Budget
from jaxrobust.evaluation.suites.entry import SuiteEntry, attack_entry, clean_entry
from jaxrobust.evaluation.suites.report import Report
from jaxrobust.evaluation.suites.suite import SUITES, Part, Setting, Suite, Summary

DISTORTIONS = ("low", "medium", "high")
# name -> budgets at low, medium and high distortion, on CIFAR-10; its other numbers there are the attacks' defaults.
SMALL_IMAGES: dict[str, tuple[str, str, str]] = {
  "jpeg": ("1/255", "3/255", "6/255"),
  "elastic": ("0.1", "0.25", "0.5"),
  "wood": ("0.03", "0.05", "0.1"),
  "glitch": ("0.03", "0.05", "0.1"),
  "kaleidoscope": ("0.05", "0.1", "0.15"),
  "pixel": ("1", "5", "10"),
  "snow": ("3", "4", "5"),
  "gabor": ("0.02", "0.03", "0.04"),
}
# On ImageNet: budgets that differ, and all other numbers.
LARGE_BUDGETS: dict[str, tuple[str, str, str]] = {
  "glitch": ("0.03", "0.05", "0.07"),
  "pixel": ("3", "5", "10"),
  "snow": ("10", "15", "25"),
  "gabor": ("0.02", "0.04", "0.06"),
}
LARGE: dict[str, dict[str, Any]] = {
  "jpeg": {"num_steps": 80},
  "elastic": {"num_steps": 100, "step_length": 0.003, "factor": 32},
  "wood": {"num_steps": 80, "step_length": 0.005, "resolution": 32, "rings": 4},
  "glitch": {"num_steps": 90, "step_length": 0.005, "lines": 56},
  "kaleidoscope": {"num_steps": 90, "shapes": 40, "size": 15, "transparency": 0.1},
  "pixel": {"num_steps": 100, "side": 16},
  "snow": {"num_steps": 100, "step_length": 0.1, "flake": 15, "grid": 15, "blur": 3},
  "gabor": {"num_steps": 100, "step_length": 0.0003125, "sides": 5},
}
PGD = ("2/255", "4/255", "8/255")
# Sides from which images are attacked with the numbers of ImageNet.
LARGE_SIDE = 112
SMALL_STEPS = 4


@SUITES.register("unforeseen")
def unforeseen(setting: Setting) -> Suite:
  """ImageNet-UA: eight unforeseen attacks at three distortions, and linf PGD beside them."""
  large = (setting.pixels or 0) >= LARGE_SIDE
  levels = DISTORTIONS[1:2] if setting.small else DISTORTIONS
  parts = [Part(setting.data, setting.condition, (clean_entry(),), "id")]
  for level in levels:
    entries = tuple(_entry(name, level, large, setting.small) for name in SMALL_IMAGES)
    parts.append(Part(setting.data, setting.condition, entries, level))
    parts.append(Part(setting.data, setting.condition, (_pgd(level, large, setting.small),), f"pgd-{level}"))
  return Suite(tuple(parts), _metrics, fixes=("norm", "eps"), instead="basic")


def _entry(name: str, level: str, large: bool, small: bool) -> SuiteEntry:
  budgets = LARGE_BUDGETS.get(name, SMALL_IMAGES[name]) if large else SMALL_IMAGES[name]
  numbers = {**(LARGE[name] if large else {}), **({"num_steps": SMALL_STEPS} if small else {})}
  return attack_entry(name, budgets[DISTORTIONS.index(level)], **numbers)


def _pgd(level: str, large: bool, small: bool) -> SuiteEntry:
  budget = Budget(PGD[DISTORTIONS.index(level)])
  step = round((0.004 if large else 0.008) / budget.value, 6)
  return attack_entry("pgd", budget, num_steps=SMALL_STEPS if small else 50, step_size=step)


def _metrics(report: Report) -> Summary:
  """Returns UA2 and the worst case of every distortion, UA2 over all of them, and accuracies by attack."""
  clean = report.one("id", False)
  metrics: Summary = {"accuracy": None if clean is None else clean.accuracy.plain()}
  tables: Summary = {}
  for level in DISTORTIONS:
    if cells := report.group(level):
      metrics[f"UA2 {level}"] = report.mean(level, True)
      metrics[f"worst of the eight, {level}"] = report.worst(level)
      metrics[f"PGD {level}"] = report.mean(f"pgd-{level}", True)
      tables[level] = {cell.entry.title: cell.accuracy.plain() for cell in cells}
  whole = [metrics[f"UA2 {level}"] for level in DISTORTIONS if isinstance(metrics.get(f"UA2 {level}"), float)]
  if len(whole) == len(DISTORTIONS):
    metrics["UA2"] = float(np.mean(whole))
  return {"metrics": metrics, "tables": tables}
