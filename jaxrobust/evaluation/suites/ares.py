"""ARES (Dong et al. 2020, arXiv:1912.11852): two curves for each attack, untargeted and targeted, in linf and l2.

Accuracy against budget: distances of minimal attacks (DeepFool, C&W) or of a minimum-budget search around a budget
attack (FGSM, BIM, MIM, NES, SPSA, NATTACK): one run serves every eps. Accuracy against strength: one run at the
paper's budget (linf 8/255, l2 1.0), where each example says after how many steps or queries it broke; of a minimal
attack (ZOO, Boundary, Evolutionary, in l2), after how many queries it was within that budget. Success rates are among
examples right without an attack. Parameters: appendix B; targets are random. Black-box attacks have 20,000 queries,
as in the paper, and as there so has each attack of a search for budgets.

`dim` and the other attacks of transfer need a source network: `jaxrobust transfer --suite=ares`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from jaxrobust.attacks.minimum_budget import MinimumBudget
from jaxrobust.attacks.registry import make_attack
from jaxrobust.core.budget import Budget
from jaxrobust.core.contract import contract_of
from jaxrobust.evaluation.metrics.curves import (
  Curve,
  accuracy_vs_budget,
  accuracy_vs_queries,
  accuracy_vs_strength,
  area,
  success_rate,
)
from jaxrobust.evaluation.suites.entry import SuiteEntry, attack_entry, clean_entry, entry_of, targeted
from jaxrobust.evaluation.suites.report import Report, SuiteCell
from jaxrobust.evaluation.suites.suite import SUITES, Part, Setting, Suite, Summary, attack_set

# Curves are drawn up to 0.15 in linf and up to 5 in l2 (figures 1 and 21).
BUDGETS = {"linf": np.linspace(0, 0.15, 31), "l2": np.linspace(0, 5, 51)}
QUERY_POINTS = 21
STRENGTH_EPS = {"linf": "8/255", "l2": "1.0"}
STEP = 0.15
QUERIES = 20_000
_SCORE = ("nes", "spsa", "nattack")
_MINIMAL = ("zoo", "boundary", "evolutionary")


def _iterative(norm: str, small: bool) -> list[Any]:
  """Returns FGSM, BIM and MIM as the paper sets them."""
  steps: dict[str, Any] = {"num_steps": 6 if small else 20, "step_size": 0.3 if small else STEP, "norm": norm}
  return [make_attack("fgsm", norm=norm), make_attack("bim", **steps), make_attack("mim", **steps)]


def _score(norm: str, small: bool) -> list[Any]:
  """Returns NES, SPSA and NATTACK as the paper sets them."""
  few: dict[str, Any] = {"nes": {"pairs": 5}, "spsa": {"pairs": 5}, "nattack": {"samples": 10}} if small else {}
  queries = 100 if small else QUERIES
  return [make_attack(name, norm=norm, queries=queries, **few.get(name, {})) for name in _SCORE]


def _minimal(small: bool) -> list[SuiteEntry]:
  """Returns attacks whose distances make the curves of budgets, and queries at the paper's budget those of strength."""
  entries = [attack_entry(name, queries=100 if small else QUERIES) for name in _MINIMAL]
  return [replace(entry, strengths=(Budget(STRENGTH_EPS["l2"]),)) for entry in (entries[:2] if small else entries)]


def _budget_curves(norm: str, small: bool) -> list[SuiteEntry]:
  attacks = [*_iterative(norm, small), *_score(norm, small)]
  searches = [entry_of(MinimumBudget(attack, max_items=5 if small else 15)) for attack in attacks]
  minimal = _minimal(small) if norm == "l2" else []
  if small:
    return [searches[1], searches[3], *minimal]
  goals = [*searches, *map(targeted, searches), attack_entry("deepfool", norm=norm, num_steps=100)]
  goals += [*minimal, *map(targeted, minimal)]
  if norm != "l2":
    return goals
  cw = attack_entry("cw", norm=norm, steps=100)
  return [*goals, cw, targeted(cw)]


def _strength_curves(norm: str, small: bool) -> list[SuiteEntry]:
  eps = STRENGTH_EPS[norm]
  iterative = [entry_of(attack, eps) for attack in _iterative(norm, small)[1:]]
  score = [entry_of(attack, eps) for attack in _score(norm, small)]
  if small:
    return [iterative[0], targeted(iterative[0]), *score[:1]]
  return [*iterative, *map(targeted, iterative), *score, *map(targeted, score)]


@SUITES.register("ares")
def ares(setting: Setting) -> Suite:
  """ARES: accuracy against budget and against strength, untargeted and targeted, linf and l2."""
  parts = [Part(setting.data, "none", (clean_entry(),), "id")]
  for norm in ("linf", "l2"):
    parts.append(Part(setting.data, "none", tuple(_budget_curves(norm, setting.small)), f"budget-{norm}"))
    parts.append(Part(setting.data, "none", tuple(_strength_curves(norm, setting.small)), f"strength-{norm}"))
  return Suite(tuple(parts), _metrics)


@SUITES.register("ares-attacks")
def ares_attacks(setting: Setting) -> Suite:
  """ARES' white-box attacks in one norm; its own budgets are linf 8/255 and l2 1.0."""
  norm, eps = setting.norm, setting.eps
  steps: dict[str, Any] = {"norm": norm, "num_steps": 20, "step_size": STEP}
  entries = [
    clean_entry(),
    attack_entry("fgsm", eps, norm=norm),
    attack_entry("bim", eps, **steps),
    attack_entry("mim", eps, **steps),
    attack_entry("deepfool", eps, norm=norm, num_steps=100),
  ]
  return attack_set(setting, entries if norm == "linf" else [*entries, attack_entry("cw", eps, norm=norm, steps=100)])


def _metrics(report: Report) -> Summary:
  """Returns both curves of every attack, the area under each, and success rates beside accuracies."""
  clean = report.one("id", False)
  metrics: Summary = {"accuracy": None if clean is None else clean.accuracy.plain()}
  curves: Summary = {}
  for norm, found in report.groups("budget-"):
    for cell in found:
      examples = cell.result.examples
      curve = accuracy_vs_budget(examples["distance"], examples["correct"], BUDGETS[norm])
      curves |= _both(f"budget: {cell.entry.title}", norm, curve, cell)
      metrics[f"area, budget: {cell.entry.title}"] = area(curve)
      for budget in cell.entry.strengths:
        title, reached = f"{cell.entry.title}@{budget.text}", examples[f"reached_query@{budget.text}"]
        curve = accuracy_vs_strength(reached, examples["correct"], _query_axis(cell), ~examples["nan"])
        curves |= _both(f"strength: {title}", "queries", curve, cell)
        metrics[title] = float(curve.y[-1])
        metrics[f"area, queries: {title}"] = area(curve)
  for _, found in report.groups("strength-"):
    for cell in found:
      unit, curve = _strength_curve(cell)
      curves |= _both(f"strength: {cell.entry.title}", unit, curve, cell)
      metrics[cell.entry.title] = cell.accuracy.plain()
      metrics[f"area, {unit}: {cell.entry.title}"] = area(curve)
  return {"metrics": metrics, "curves": curves}


def _both(title: str, unit: str, accuracy: Curve, cell: SuiteCell) -> Summary:
  """Returns a curve of accuracy and that of the success rate, if there was anything to attack."""
  curves = {title: {"unit": unit, **accuracy.plain()}}
  if cell.result.examples["correct"].any():
    curves[f"success, {title}"] = {"unit": unit, **success_rate(accuracy, cell.result.examples["correct"]).plain()}
  return curves


def _query_axis(cell: SuiteCell) -> np.ndarray:
  """Returns some numbers of queries up to all that an attack has."""
  attack = cell.entry.schedule.stages[0].attack
  most = contract_of(attack).max_queries or attack.num_steps * attack.cost.forward
  return np.unique(np.linspace(0, most, QUERY_POINTS).astype(int))


def _strength_curve(cell: SuiteCell) -> tuple[str, Curve]:
  """Returns ("steps", accuracy against them), or ("queries", …) where the attack uses no gradient."""
  examples, attack = cell.result.examples, cell.entry.schedule.stages[0].attack
  if contract_of(attack).cost.backward == 0:
    counts = _query_axis(cell)
    return "queries", accuracy_vs_queries(examples["queries"], examples["correct"], examples["robust"], counts)
  steps = range(attack.num_steps + 1)
  return "steps", accuracy_vs_strength(examples["broken_at"], examples["correct"], steps, examples["robust"])
