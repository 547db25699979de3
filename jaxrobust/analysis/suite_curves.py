"""Curves of a suite's cells: ARES' two curves per attack, AutoAttack over budgets, accuracy over low-pass bandwidth."""

from __future__ import annotations

from typing import Any

import numpy as np

from jaxrobust.analysis.curves import Curve, accuracy_vs_budget, accuracy_vs_queries, accuracy_vs_strength, area
from jaxrobust.analysis.suite_cells import SuiteCell, SuiteCells
from jaxrobust.core.types import Cost
from jaxrobust.evaluation.metrics.stability import frequency_bias, low_pass_curve

# ARES draws linf curves up to 0.15 and l2 curves up to 5 (arXiv:1912.11852, figures 1 and 21).
BUDGETS = {"linf": np.linspace(0, 0.15, 31), "l2": np.linspace(0, 5, 51)}
QUERY_POINTS = 21


def budget_curve(cell: SuiteCell, budgets: np.ndarray) -> Curve:
  """Accuracy against budget, from the distances of one minimal run."""
  examples = cell.result.examples
  return accuracy_vs_budget(examples["distance"], examples["correct"], budgets)


def strength_curve(cell: SuiteCell) -> tuple[str, Curve]:
  """Accuracy against steps, or against queries where the attack uses no gradient; ("steps" or "queries", curve)."""
  examples, attack = cell.result.examples, cell.entry.schedule.stages[0].attack
  if getattr(attack, "cost", Cost()).backward == 0:
    counts = np.unique(np.linspace(0, attack.num_steps, QUERY_POINTS).astype(int))
    return "queries", accuracy_vs_queries(examples["queries"], examples["correct"], examples["robust"], counts)
  steps = range(attack.num_steps + 1)
  return "steps", accuracy_vs_strength(examples["broken_at"], examples["correct"], steps, examples["robust"])


def ares(cells: SuiteCells) -> dict[str, Any]:
  """Both curves of every attack, and the area under each."""
  clean = cells.one("id", False)
  metrics: dict[str, Any] = {"accuracy": None if clean is None else clean.accuracy.plain()}
  curves: dict[str, Any] = {}
  for norm, found in cells.groups("budget-"):
    for cell in found:
      curve = budget_curve(cell, BUDGETS[norm])
      curves[f"budget: {cell.entry.title}"] = {"unit": norm, **curve.plain()}
      metrics[f"area, budget: {cell.entry.title}"] = area(curve)
  for _, found in cells.groups("strength-"):
    for cell in found:
      unit, curve = strength_curve(cell)
      curves[f"strength: {cell.entry.title}"] = {"unit": unit, **curve.plain()}
      metrics[cell.entry.title] = cell.accuracy.plain()
      metrics[f"area, {unit}: {cell.entry.title}"] = area(curve)
  return {"metrics": metrics, "curves": curves}


def autoattack_curve(cells: SuiteCells) -> dict[str, Any]:
  """Accuracy under AutoAttack at each budget it was run at; the clean accuracy at 0."""
  clean = cells.one("id", False)
  points = {0.0: clean.accuracy.value} if clean is not None else {}
  for cell in cells.group("adversarial", True):
    if "autoattack" in cell.entry.attack and cell.entry.eps is not None:
      points[cell.entry.eps.value] = cell.accuracy.value
  if len(points) < 2:
    return {}
  curve = Curve(np.array(sorted(points)), np.array([points[eps] for eps in sorted(points)]))
  return {"AutoAttack": {"unit": cells.plan.setting.norm, "area": area(curve), **curve.plain()}}


def frequency(cells: SuiteCells) -> dict[str, Any]:
  """Accuracy over low-pass bandwidth, relative to the clean accuracy, and the frequency bias."""
  clean, filtered = cells.one("id", False), cells.group("filter", False)
  if clean is None or not filtered or not clean.result.examples["correct"].any():
    return {}
  by_width = {int(cell.part.condition.split("-")[1]): cell.result.examples["correct"] for cell in filtered}
  widths = np.array(sorted(by_width))
  flags, right = np.stack([by_width[width] for width in widths]), clean.result.examples["correct"]
  curve = Curve(widths, low_pass_curve(flags, right))
  return {"low-pass": {"unit": "bandwidth", "frequency bias": frequency_bias(widths, flags, right), **curve.plain()}}
