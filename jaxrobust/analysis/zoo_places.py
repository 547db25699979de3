"""What a cell stands for in a zoo: a model without a shift, under one of the data, or under one of the attack.

All cells of a results folder are sorted by it, before anything is averaged or estimated from them.
"""

from __future__ import annotations

import fnmatch
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from jaxrobust.analysis.zoo import ACCURACY, ID, ROBUSTNESS
from jaxrobust.core.condition import parse_corruption
from jaxrobust.core.errors import InputError
from jaxrobust.core.registry import unknown_name
from jaxrobust.noises.tables import BENCHMARK
from jaxrobust.results import Cell, Result
from jaxrobust.results.exchange.leaderboard import DATASET_SHIFT, THREAT_SHIFT, UNFORESEEN
from jaxrobust.results.exchange.oodrobustbench import OTHER_BUDGETS, TRAINED, base_of
from jaxrobust.results.ids import attack_norm, threat_name, transfer_source, without_threat
from jaxrobust.results.rows import budget_value

PERCEPTUAL = ("ppgd", "lpa", "stadv", "recolor")
CLEAN = "clean"
# How images of a corruption were made that come from official files.
STORED = "the official files"
# And of those whose cells do not say by which table.
UNNAMED = "an unnamed table"
# Imported leaderboards have means alone.
GROUP_MEANS = {DATASET_SHIFT: "OOD_d", THREAT_SHIFT: "OOD_t"}


class Measured(NamedTuple):
  """Is what one cell adds to a zoo: its group, the name of the shift, and which condition of it.

  Groups are `id`, R_c, R_n, OOD_t, `more` for corruptions beyond the fifteen that R_c averages, and `more threats` for
  attacks beyond those of OOD_t. `made` tells the official images of a corruption from those made here, by which table.
  """

  group: str
  shift: str
  condition: str
  kind: str
  made: str = ""


def largest(results: Iterable[Result]) -> list[Result]:
  """Keeps of the cells that differ only in n and seed the one with most examples; drops those of other protocols."""
  best: dict[tuple, Result] = {}
  for result in results:
    cell = result.cell
    key = (cell.model, cell.data, cell.condition, cell.id)
    # Judged among some classes or by several right ones: numbers of other protocols than OODRobustBench's.
    usual = not result.config.get("judging")
    known = usual and accuracy_of(result) is not None and transfer_source(cell.attack) is None
    if known and (key not in best or (cell.n, -cell.seed) > (best[key].cell.n, -best[key].cell.seed)):
      best[key] = result
  return list(best.values())


Placed = dict[Measured, dict[str, Result]]


def place_cells(results: Iterable[Result], base: str, threat: str) -> tuple[Placed, list[str]]:
  """Sorts cells by what they stand for, and by model; those that stand for nothing are left out.

  Images of a corruption that were made in several ways are several shifts. The way that most cells have counts, the
  official files where there are as many.

  Args:
    results: at most one cell per model and what it stands for, as `largest` chooses them.
    base: the data set that the models were trained for.
    threat: attack and budget that stand for ID robustness.

  Returns:
    The cells, and what a reader must know of those left out.
  """
  found: Placed = {}
  for result in results:
    place = measured(result.cell, base, threat, threat_name(result.config, result.cell.attack))
    if place is not None:
      found.setdefault(place, {})[result.cell.model] = result
  return _of_one_make(found)


def _of_one_make(placed: Placed) -> tuple[Placed, list[str]]:
  counts: dict[str, Counter[str]] = {}
  for place, cells in placed.items():
    counts.setdefault(place.shift, Counter())[place.made] += len(cells)
  chosen = {shift: max(makes, key=lambda made: (makes[made], made == STORED, made)) for shift, makes in counts.items()}
  notes: dict[str, list[str]] = {}
  for shift, makes in counts.items():
    if others := sorted(set(makes) - {chosen[shift]}):
      text = (
        f"cells on images of {chosen[shift] or UNNAMED} count, not those of {', '.join(map(str, others)) or UNNAMED}"
      )
      notes.setdefault(text, []).append(shift)
  kept = {place: cells for place, cells in placed.items() if place.made == chosen[place.shift]}
  return kept, [f"{', '.join(shifts)}: {text}" for text, shifts in notes.items()]


def choose_cells(results: Iterable[Result], data: str, attack: str) -> tuple[list[Result], str, str]:
  """Chooses the cells of one zoo: at most one per model and measurement, the data set, and the attack of ID robustness.

  Args:
    results: cells of any models, data, attacks and conditions.
    data: what the models were trained for; empty where only one is possible.
    attack: a shell pattern of attack and budget; empty where only one is possible.

  Returns:
    (cells, data set, attack and budget).
  """
  best = largest(results)
  if not best:
    raise InputError("no cell holds an accuracy: there is no zoo to analyze")
  base = _base(best, data)
  return best, base, _threat([result.cell for result in best], base, attack)


def accuracy_of(result: Result) -> float | None:
  """Counts the share of examples that stayed right; where a cell has no flags, its summary says so, or nothing does.

  >>> import numpy as np
  >>> flags = {"robust": np.array([True, False, True, True])}
  >>> accuracy_of(Result(cell=Cell(model="a", data="b", n=4), config={}, summary={}, examples=flags))
  0.75
  """
  flags = result.examples.get("robust")
  if flags is not None and flags.dtype == bool and flags.size:
    return float(flags.mean())
  value = result.summary.get("robust_accuracy")
  return float(value) if isinstance(value, int | float) and 0 <= value <= 1 else None


def measured(cell: Cell, base: str, threat: str, within: str | None = None) -> Measured | None:
  """Says what a cell stands for in the zoo of a data set and an attack; None for nothing.

  Args:
    cell: the cell.
    base: the data set that the models were trained for.
    threat: attack and budget that stand for ID robustness.
    within: the name of the cell's own threat, where its attack's id does not begin with a norm.

  >>> fog = Cell(model="a", data="cifar10", condition="fog-3-t32", attack="linf-mm5", eps="8/255", n=9)
  >>> measured(fog, "cifar10", "linf-mm5@8/255")
  Measured(group='R_c', shift='fog', condition='fog-3', kind='robustness', made='t32')
  >>> measured(Cell(model="a", data="cifar10.1-v6", n=9), "cifar10", "linf-mm5@8/255").group
  'R_n'
  """
  kind = ACCURACY if cell.attack == "none" else ROBUSTNESS
  stored = cell.data.startswith(f"{base}-c:")
  corruption = parse_corruption(cell.data.partition(":")[2] if stored else cell.condition)
  seen = kind == ACCURACY or cell.id == threat
  if corruption is not None and (stored or cell.data == base):
    name, severity = corruption
    group, condition = "R_c" if name in BENCHMARK else "more", f"{name}-{severity}"
    made = STORED if stored else cell.condition.removeprefix(condition).removeprefix("-")
    return Measured(group, name, condition, kind, made) if seen else None
  if cell.condition in GROUP_MEANS and cell.data == base:
    mean = GROUP_MEANS[cell.condition]
    return Measured(mean, mean, mean, kind) if seen or cell.attack == UNFORESEEN else None
  if cell.condition != CLEAN:
    return None
  if cell.data == base:
    if seen:
      return Measured("id", ID, ID, kind)
    if not _unforeseen(cell.attack, threat, within):
      return None
    return Measured("OOD_t" if _of_the_paper(cell, base, threat) else "more threats", cell.id, cell.id, kind)
  return Measured("R_n", cell.data, cell.data, kind) if seen and base_of(cell.data, {base}) == base else None


def _unforeseen(attack: str, threat: str, within: str | None) -> bool:
  """Tells whether an attack shifts the threat: the same method in another norm or budget, or a perceptual one."""
  bare, other = without_threat(attack, within or attack_norm(attack)), threat.partition("@")[0]
  return bare == without_threat(other, attack_norm(other)) or bare.startswith(PERCEPTUAL)


def _of_the_paper(cell: Cell, base: str, threat: str) -> bool:
  """Tells whether OOD_t averages an unforeseen attack; any where the paper says nothing of the data set and budget."""
  attack, _, eps = threat.partition("@")
  norm, other = attack_norm(attack), attack_norm(cell.attack)
  trained, value = TRAINED.get((base, norm or "")), budget_value(cell.eps)
  if other is None or value is None or trained is None or budget_value(eps) != budget_value(trained):
    return True
  return (other, value) in [(name, budget_value(known)) for name, known in OTHER_BUDGETS[base, norm or ""]]


def _base(results: Iterable[Result], data: str) -> str:
  sets = {result.cell.data.partition("-c:")[0] for result in results}
  bases = sorted({base_of(name, sets) for name in sets})
  if data:
    if data not in sets:
      raise unknown_name("data set in these results", data, sorted(sets))
    return data
  if len(bases) > 1:
    raise InputError(f"these results are of {', '.join(bases)}: say which, as --data={bases[0]}")
  return bases[0]


def attacks_of(cells: Sequence[Cell], base: str) -> tuple[set[str], set[str]]:
  """Returns the attacks that were used without a shift, and those used under one."""
  here: set[str] = set()
  there: set[str] = set()
  for cell in cells:
    if cell.attack == "none":
      continue
    place = measured(cell, base, cell.id)
    if place is not None:
      (here if place.group == "id" else there).add(cell.id)
  return here, there


def _threat(cells: Sequence[Cell], base: str, pattern: str) -> str:
  """Finds the attack that was used both without and under a shift; "" where there is none."""
  here, there = attacks_of(cells, base)
  found = sorted(here & there) or sorted(here)
  if pattern:
    found = sorted(name for name in here if fnmatch.fnmatchcase(name, pattern))
    if not found:
      raise unknown_name("attack in these results", pattern, sorted(here))
  if len(found) > 1:
    raise InputError(f"ID robustness could be that under {', '.join(found)}: say which, as --attack={found[0]}")
  return found[0] if found else ""
