"""ARES (Dong et al. 2020, arXiv:1912.11852): two curves for each attack, untargeted and targeted, in linf and l2.

Accuracy against budget: distances of minimal attacks (DeepFool, C&W) or of a minimum-budget search around a budget
attack (FGSM, BIM, MIM): one run serves every eps. Accuracy against strength: one run at the paper's budget (linf 8/255,
l2 1.0), where each example says after how many steps or queries it broke. Parameters: appendix B; targets are random.

Black-box attacks of the paper (`nes spsa nattack zoo boundary evolutionary dim`) join where they are registered;
`square` stands for score-based attacks until then. Transfer needs a source network: `jaxrobust transfer`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jaxrobust.attacks.minimum_budget import MinimumBudget
from jaxrobust.attacks.registry import ATTACKS, make_attack
from jaxrobust.core.contract import contract_of
from jaxrobust.evaluation.metrics.curves import (
  Curve,
  accuracy_vs_budget,
  accuracy_vs_queries,
  accuracy_vs_strength,
  area,
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
_SCORE = ("square", "nes", "spsa", "nattack")
_DECISION = ("boundary", "evolutionary")


def _iterative(norm: str, small: bool) -> list[Any]:
  """Returns FGSM, BIM and MIM as the paper sets them."""
  steps: dict[str, Any] = {"num_steps": 6 if small else 20, "step_size": 0.3 if small else STEP, "norm": norm}
  return [make_attack("fgsm", norm=norm), make_attack("bim", **steps), make_attack("mim", **steps)]


def _budget_curves(norm: str, small: bool) -> list[SuiteEntry]:
  searches = [entry_of(MinimumBudget(attack, max_items=5 if small else 15)) for attack in _iterative(norm, small)]
  if small:
    return searches[1:2]
  goals = [*searches, *map(targeted, searches), attack_entry("deepfool", norm=norm, num_steps=100)]
  if norm != "l2":
    return goals
  cw = attack_entry("cw", norm=norm, steps=100)
  decision = [attack_entry(name, norm=norm) for name in _DECISION if name in ATTACKS]
  return [*goals, cw, targeted(cw), *decision]


def _strength_curves(norm: str, small: bool) -> list[SuiteEntry]:
  eps = STRENGTH_EPS[norm]
  iterative = [entry_of(attack, eps) for attack in _iterative(norm, small)[1:]]
  score = [attack_entry(name, eps, norm=norm, num_steps=20 if small else QUERIES) for name in _SCORE if name in ATTACKS]
  if small:
    return [iterative[0], targeted(iterative[0]), *score[:1]]
  return [*iterative, *map(targeted, iterative), *score]


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
  """Returns both curves of every attack, and the area under each."""
  clean = report.one("id", False)
  metrics: Summary = {"accuracy": None if clean is None else clean.accuracy.plain()}
  curves: Summary = {}
  for norm, found in report.groups("budget-"):
    for cell in found:
      examples = cell.result.examples
      curve = accuracy_vs_budget(examples["distance"], examples["correct"], BUDGETS[norm])
      curves[f"budget: {cell.entry.title}"] = {"unit": norm, **curve.plain()}
      metrics[f"area, budget: {cell.entry.title}"] = area(curve)
  for _, found in report.groups("strength-"):
    for cell in found:
      unit, curve = _strength_curve(cell)
      curves[f"strength: {cell.entry.title}"] = {"unit": unit, **curve.plain()}
      metrics[cell.entry.title] = cell.accuracy.plain()
      metrics[f"area, {unit}: {cell.entry.title}"] = area(curve)
  return {"metrics": metrics, "curves": curves}


def _strength_curve(cell: SuiteCell) -> tuple[str, Curve]:
  """Returns ("steps", accuracy against them), or ("queries", …) where the attack uses no gradient."""
  examples, attack = cell.result.examples, cell.entry.schedule.stages[0].attack
  if contract_of(attack).cost.backward == 0:
    counts = np.unique(np.linspace(0, attack.num_steps, QUERY_POINTS).astype(int))
    return "queries", accuracy_vs_queries(examples["queries"], examples["correct"], examples["robust"], counts)
  steps = range(attack.num_steps + 1)
  return "steps", accuracy_vs_strength(examples["broken_at"], examples["correct"], steps, examples["robust"])
