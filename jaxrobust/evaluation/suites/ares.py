"""ARES (Dong et al. 2020, arXiv:1912.11852): two curves for each attack, untargeted and targeted, in linf and l2.

Accuracy and attack success rate against budget: distances of minimal attacks (DeepFool, C&W, ZOO, Boundary,
Evolutionary) or of a minimum-budget search around a budget attack (FGSM, BIM, MIM, NES, SPSA, NATTACK): one run serves
every eps. Against strength: one run at the paper's budget, where each example says after how many steps or queries it
broke (minimal attacks: came within it); C&W is run anew at each number of iterations. Black-box attacks have 20,000
queries (`ares,queries=2000`: so many), and as in the paper so has each attack of a search for budgets. Success of an
untargeted attack is counted over the examples right before it, of a targeted one over all (Eq. 4). Targets are random.
Accuracy under a targeted attack has two readings: the target was not reached (the authors' code), or the label is still
predicted (Eq. 3); both are given.

Budgets of the strength curves: linf 8/255 and l2 1.0 on CIFAR-10 (section 5.1), linf 16/255 and √0.001 in the
normalized l2 distance ‖x‖₂/√d on 1,000 random images of ImageNet (section 5.2), which is 12.269 at 224 pixels.
Parameters: appendix B. FGSM, BIM, MIM and DIM by transfer need a source network: `jaxrobust transfer --suite=ares`.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple, cast

import numpy as np

from jaxrobust.attacks.cw import CWL2
from jaxrobust.attacks.minimum_budget import MinimumBudget
from jaxrobust.attacks.registry import make_attack
from jaxrobust.core.budget import Budget, inside
from jaxrobust.core.contract import contract_of
from jaxrobust.evaluation.metrics.curves import Curve, area, success_rate
from jaxrobust.evaluation.metrics.proportions import proportion
from jaxrobust.evaluation.suites.entry import SuiteEntry, attack_entry, clean_entry, entry_of, targeted
from jaxrobust.evaluation.suites.report import Report, SuiteCell
from jaxrobust.evaluation.suites.suite import SUITES, Part, Setting, Suite, Summary, attack_set

QUERY_POINTS = 21
STEP = 0.15
QUERIES = 20_000
NORMALIZED_L2 = math.sqrt(0.001)


class Protocol(NamedTuple):
  """Holds the numbers of one data set.

  Attributes:
    eps: the budget of strength curves, by norm.
    largest: where budget curves end, by norm (figures 1 and 21: 0.15 and 5; ImageNet's l2 in the same proportion).
    iterations: at which C&W is run anew.
    queries: of each attack without gradients.
    n: how many examples.
  """

  eps: dict[str, str]
  largest: dict[str, float]
  iterations: tuple[int, ...]
  queries: int
  n: int | None


def protocol(setting: Setting) -> Protocol:
  """Returns the paper's numbers for a data set; those of CIFAR-10 for any other of small images."""
  queries = setting.queries or (100 if setting.small else QUERIES)
  if setting.base != "imagenet":
    return Protocol({"linf": "8/255", "l2": "1.0"}, {"linf": 0.15, "l2": 5.0}, (10, 20, 30, 40), queries, 10_000)
  l2 = NORMALIZED_L2 * math.sqrt(3) * (setting.pixels or 224)
  return Protocol({"linf": "16/255", "l2": f"{l2:.5g}"}, {"linf": 0.15, "l2": 5 * l2}, (10, 20), queries, 1_000)


# Attacks by queries within a budget, and minimal ones in l2.
_SCORE = ("nes", "spsa", "nattack")
_MINIMAL = ("zoo", "boundary", "evolutionary")


def _iterative(norm: str, small: bool) -> list[Any]:
  """Returns FGSM, BIM and MIM as the paper sets them."""
  steps: dict[str, Any] = {"num_steps": 6 if small else 20, "step_size": 0.3 if small else STEP, "norm": norm}
  return [make_attack("fgsm", norm=norm), make_attack("bim", **steps), make_attack("mim", **steps)]


def _score(norm: str, small: bool, queries: int) -> list[Any]:
  """Returns NES, SPSA and NATTACK as the paper sets them."""
  few: dict[str, Any] = {"nes": {"pairs": 5}, "spsa": {"pairs": 5}, "nattack": {"samples": 10}} if small else {}
  return [make_attack(name, norm=norm, queries=queries, **few.get(name, {})) for name in _SCORE]


def _budget_curves(norm: str, small: bool, numbers: Protocol) -> list[SuiteEntry]:
  attacks = [*_iterative(norm, small), *_score(norm, small, numbers.queries)]
  searches = [entry_of(MinimumBudget(attack, max_items=5 if small else 15)) for attack in attacks]
  # One run of a minimal attack has both curves: it keeps when the strength budget was first reached.
  both = lambda entry: replace(entry, strengths=(Budget(numbers.eps[norm]),))
  queries = [both(attack_entry(name, queries=numbers.queries)) for name in _MINIMAL] if norm == "l2" else []
  if small:
    return [searches[1], searches[3], *queries[:2]]
  goals = [*searches, *map(targeted, searches), both(attack_entry("deepfool", norm=norm, num_steps=100))]
  if norm != "l2":
    return goals
  cw = attack_entry("cw", norm=norm, steps=100)
  return [*goals, cw, targeted(cw), *queries, *map(targeted, queries)]


def _strength_curves(norm: str, small: bool, numbers: Protocol) -> list[SuiteEntry]:
  eps = numbers.eps[norm]
  iterative = [entry_of(attack, eps) for attack in _iterative(norm, small)[1:]]
  score = [entry_of(attack, eps) for attack in _score(norm, small, numbers.queries)]
  if small:
    return [iterative[0], targeted(iterative[0]), *score[:1]]
  cw = [attack_entry("cw", eps, norm=norm, steps=steps) for steps in numbers.iterations] if norm == "l2" else []
  return [*iterative, *map(targeted, iterative), *cw, *map(targeted, cw), *score, *map(targeted, score)]


@SUITES.register("ares")
def ares(setting: Setting) -> Suite:
  """ARES: accuracy and success rate against budget and against strength, untargeted and targeted, linf and l2."""
  numbers = protocol(setting)
  parts = [Part(setting.data, "none", (clean_entry(),), "id", numbers.n)]
  for norm in ("linf", "l2"):
    budget, strength = (curve(norm, setting.small, numbers) for curve in (_budget_curves, _strength_curves))
    parts.append(Part(setting.data, "none", tuple(budget), f"budget-{norm}", numbers.n))
    parts.append(Part(setting.data, "none", tuple(strength), f"strength-{norm}", numbers.n))
  notes = (f"linf {numbers.eps['linf']} and l2 {numbers.eps['l2']} for curves against strength",)
  return Suite(tuple(parts), _metrics, fixes=("norm", "eps"), instead="ares-attacks", numbers=("queries",), notes=notes)


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


class Broken(NamedTuple):
  """Says which examples are broken at which strength.

  Attributes:
    kind, unit: "budget" or "strength", and what x counts.
    x: rising budgets, steps or queries.
    flags: (points, N).
    title: of the attack.
    cell: one of those it comes from.
  """

  kind: str
  unit: str
  x: np.ndarray
  flags: np.ndarray
  title: str
  cell: SuiteCell


def _metrics(report: Report) -> Summary:
  """Returns both curves of every attack, as accuracy and as success rate, and the area under each."""
  clean = report.one("id", False)
  metrics: Summary = {"accuracy": None if clean is None else clean.accuracy.plain()}
  curves: Summary = {}
  largest = protocol(report.suite.setting).largest
  found: list[Broken] = []
  for norm, cells in report.groups("budget-"):
    for cell in cells:
      found += _by_budget(cell, norm, np.linspace(0, largest[norm], 31 if norm == "linf" else 51))
  for _, cells in report.groups("strength-"):
    found += [_by_strength(title, same) for title, same in _by_attack(cells).items()]
    for cell in cells:
      metrics |= _readings(cell)
  for one in found:
    examples, targets = one.cell.result.examples, one.cell.entry.targeted
    standing = examples["correct"] & ~examples["nan"] & ~one.flags
    accuracy = Curve(one.x, standing.mean(1))
    curves[f"{one.kind}: {one.title}"] = {"unit": one.unit, **accuracy.plain()}
    metrics[f"area, {'budget' if one.kind == 'budget' else one.unit}: {one.title}"] = area(accuracy)
    if targets or examples["correct"].any():
      success = success_rate(one.x, one.flags, examples["correct"], targets)
      curves[f"{one.kind}, success rate: {one.title}"] = {"unit": one.unit, **success.plain()}
  return {"metrics": metrics, "curves": curves}


def _readings(cell: SuiteCell) -> Summary:
  """Returns the accuracy under an attack; under a targeted one also as Eq. 3 has it, by the label alone."""
  title, examples = cell.entry.title, cell.result.examples
  found = {title: cell.accuracy.plain()}
  if cell.entry.targeted:
    still = examples["correct"] & (examples["prediction"] == examples["label"])
    found[f"{title}, label kept (Eq. 3)"] = proportion(still).plain()
  return found


def _by_budget(cell: SuiteCell, norm: str, budgets: np.ndarray) -> list[Broken]:
  """Returns what a minimal attack or a search breaks within each budget and, where kept, when it came within one."""
  examples, title = cell.result.examples, cell.entry.title
  found = [Broken("budget", norm, budgets, inside(examples["distance"], budgets[:, None]), title, cell)]
  unit, counts = _strength_axis(cell)
  for budget in cell.entry.strengths:
    kept = examples[f"reached_{'query' if unit == 'queries' else 'step'}@{budget.text}"]
    reached = np.where(examples["distance"] == 0, 0, kept)
    flags = (reached >= 0) & (reached <= counts[:, None])
    found.append(Broken("strength", unit, counts, flags, f"{title}@{budget.text}", cell))
  return found


def _strength_axis(cell: SuiteCell) -> tuple[str, np.ndarray]:
  """Returns "steps" and all of them or, of an attack without gradients, "queries" and some numbers up to all."""
  contract = contract_of(cell.entry.schedule.stages[0].attack)
  if contract.cost.backward > 0:
    return "steps", np.arange(contract.num_steps + 1)
  most = contract.max_queries or contract.num_steps * contract.cost.forward
  return "queries", np.unique(np.linspace(0, most, QUERY_POINTS).astype(int))


def _by_attack(cells: list[SuiteCell]) -> dict[str, list[SuiteCell]]:
  """Gathers runs of one attack with several numbers of iterations (C&W), under a title of theirs."""
  found: dict[str, list[SuiteCell]] = {}
  for cell in cells:
    goal = ",targeted" if cell.entry.targeted else ""
    budget = "" if cell.entry.eps is None else f"@{cell.entry.eps.text}"
    title = f"l2-cw{goal}{budget}" if cell.entry.schedule.minimal else cell.entry.title
    found.setdefault(title, []).append(cell)
  return found


def _steps(cell: SuiteCell) -> int:
  """Returns the iterations of C&W for one trade-off constant."""
  return cast(CWL2, cell.entry.schedule.stages[0].attack).steps


def _by_strength(title: str, cells: list[SuiteCell]) -> Broken:
  """Returns what an attack breaks after each number of steps, or of queries where it uses no gradient."""
  cell = cells[0]
  examples, eps = cell.result.examples, cell.entry.eps
  if cell.entry.schedule.minimal:
    assert eps is not None
    by_steps = {_steps(one): one.result.examples["distance"] for one in cells}
    steps = np.array(sorted(by_steps))
    flags = inside(np.stack([by_steps[count] for count in steps]), eps.value)
    clean = (examples["distance"] == 0)[None]
    return Broken("strength", "steps", np.concatenate([[0], steps]), np.concatenate([clean, flags]), title, cell)
  unit, counts = _strength_axis(cell)
  spent = examples["queries" if unit == "queries" else "broken_at"]
  flags = (examples["broken_at"] >= 0) & (spent <= counts[:, None])
  return Broken("strength", unit, counts, flags, title, cell)
