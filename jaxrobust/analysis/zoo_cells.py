"""A zoo from the cells of a results folder: each model without a shift, and under every shift that was measured.

Corruptions are averaged over their severities and then together (R_c), natural shifts together (R_n), unforeseen
attacks together (OOD_t); OOD_d = (R_c + R_n) / 2 and OOD = (OOD_d + OOD_t) / 2 as in OODRobustBench, eq. 1-3
(arXiv:2310.12793). An average that lacks some of the paper's conditions says so in its name, `R_c[8 of 75]`, and gives
no OOD_d or OOD. A model that lacks a condition which others have gets no number: averages over different sets do not
mix.
"""

from __future__ import annotations

import datetime
import fnmatch
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from jaxrobust.analysis.zoo import ACCURACY, ID, ROBUSTNESS, Zoo
from jaxrobust.core.condition import parse_corruption
from jaxrobust.core.errors import InputError
from jaxrobust.core.registry import unknown_name
from jaxrobust.results import Cell, Result, load_results
from jaxrobust.results.exchange.leaderboard import DATASET_SHIFT, THREAT_SHIFT, UNFORESEEN
from jaxrobust.results.exchange.oodrobustbench import base_of
from jaxrobust.results.ids import attack_norm, threat_name, transfer_source, without_threat
from jaxrobust.results.rows import describe_model

# How many conditions the paper averages: 15 corruptions × 5 severities, natural shifts, unforeseen attacks.
WHOLE = {"R_c": 75, "R_n": 4, "OOD_t": 6}
PERCEPTUAL = ("ppgd", "lpa", "stadv", "recolor")
# At the head of an attack's id: the network that it is bounded by, with the fingerprint of its weights.
_NETWORK = re.compile(r"lpips-(.+\.[0-9a-f]{6})-")
PUBLISHED = "alexnet."
CLEAN = "clean"
# Imported leaderboards have means alone.
MEANS = {DATASET_SHIFT: "OOD_d", THREAT_SHIFT: "OOD_t"}


class Measured(NamedTuple):
  """Is what one cell adds to a zoo: group (`id`, R_c, R_n, OOD_t), the name of the shift, and which condition of it."""

  group: str
  shift: str
  condition: str
  kind: str


def read_cells(root: str | os.PathLike, data: str = "", attack: str = "", date: str = "") -> Zoo:
  """Reads a zoo from a results folder or address.

  Args:
    root: of the results.
    data: what the models were trained for; empty where the folder holds only one such data set and its shifts.
    attack: a shell pattern of the attack and budget that stands for ID robustness, such as `linf-mm5@8/255`; empty
      where only one was used both without and under a shift. Without any, the zoo has accuracies alone.
    date: of the results; the day the last local file was changed where none is given.

  Returns:
    The zoo; its notes name damaged files and cells with different numbers of examples.
  """
  problems: list[str] = []
  results = list(load_results(root, lambda error: problems.append(str(error))))
  zoo = cells_zoo(results, data, attack)
  day = date or last_change(root)
  return Zoo(zoo.models, zoo.columns, zoo.labels, f"{os.fspath(root)}: {zoo.source}", day, (), (*problems, *zoo.notes))


def cells_zoo(results: Iterable[Result], data: str = "", attack: str = "") -> Zoo:
  """Makes a zoo of cells; of those that differ only in n and seed, the one with most examples counts.

  Args:
    results: cells of any models, data, attacks and conditions.
    data: as for `read_cells`.
    attack: as for `read_cells`.

  Returns:
    The zoo, without a date.
  """
  best = _largest(results)
  if not best:
    raise InputError("no cell holds an accuracy: there is no zoo to analyze")
  base = _base(best, data)
  return _zoo(best, base, _threat([result.cell for result in best], base, attack))


def cells_zoos(results: Iterable[Result]) -> list[Zoo]:
  """Makes every zoo that cells allow: one per data set, and per attack that was used both without and under a shift.

  Args:
    results: cells of any models, data, attacks and conditions.

  Returns:
    Zoos of at least three models, without dates.
  """
  best = _largest(results)
  sets = {result.cell.data.partition("-c:")[0] for result in best}
  zoos = []
  for base in sorted({base_of(name, sets) for name in sets}):
    here, there = _attacks_of([result.cell for result in best], base)
    zoos += [_zoo(best, base, threat) for threat in sorted(here & there) or [""]]
  return [zoo for zoo in zoos if len(zoo) > 2]


def _largest(results: Iterable[Result]) -> list[Result]:
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


def _zoo(best: Sequence[Result], base: str, threat: str) -> Zoo:
  table: dict[Measured, dict[str, float]] = {}
  sizes: dict[str, set[int]] = {}
  for result in best:
    place = measured(result.cell, base, threat, threat_name(result.config, result.cell.attack))
    if place is not None:
      table.setdefault(place, {})[result.cell.model] = 100.0 * (accuracy_of(result) or 0.0)
      sizes.setdefault(place.group, set()).add(result.cell.n)
  models = tuple(sorted({model for values in table.values() for model in values}))
  notes = [f"{group}: cells of {', '.join(map(str, sorted(n)))} examples" for group, n in sizes.items() if len(n) > 1]
  columns = _columns(table, models)
  abouts = {result.cell.model: describe_model(result.config, result.provenance) for result in best}
  params = np.array([_or_nan(abouts[model]["params"]) for model in models])
  if np.isfinite(params).any():
    columns["params"] = params
  labels = {name: tuple(abouts[model][name] or "" for model in models) for name in ("arch", "family", "technique")}
  sources = {result.cell.model: result.provenance.get("source") for result in best}
  labels["source"] = tuple(str(sources[model] or "") for model in models)
  return Zoo(models, columns, labels, f"{base}, {threat or 'no attack'}", "", (), tuple(notes))


def accuracy_of(result: Result) -> float | None:
  """Counts the share of examples that stayed right; where a cell has no flags, its summary says so, or nothing does.

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
  Measured(group='R_c', shift='fog', condition='fog-3', kind='robustness')
  >>> measured(Cell(model="a", data="cifar10.1-v6", n=9), "cifar10", "linf-mm5@8/255").group
  'R_n'
  """
  kind = ACCURACY if cell.attack == "none" else ROBUSTNESS
  stored = cell.data.startswith(f"{base}-c:")
  corruption = parse_corruption(cell.data.partition(":")[2] if stored else cell.condition)
  seen = kind == ACCURACY or cell.id == threat
  if corruption is not None and (stored or cell.data == base):
    name, severity = corruption
    return Measured("R_c", name, f"{name}-{severity}", kind) if seen else None
  if cell.condition in MEANS and cell.data == base:
    mean = MEANS[cell.condition]
    return Measured(mean, mean, mean, kind) if seen or cell.attack == UNFORESEEN else None
  if cell.condition != CLEAN:
    return None
  if cell.data == base:
    if seen:
      return Measured("id", ID, ID, kind)
    return Measured("OOD_t", cell.id, cell.id, kind) if _unforeseen(cell.attack, threat, within) else None
  return Measured("R_n", cell.data, cell.data, kind) if seen and base_of(cell.data, {base}) == base else None


def _unforeseen(attack: str, threat: str, within: str | None) -> bool:
  """Tells whether an attack shifts the threat: the same method in another norm or budget, or a perceptual one."""
  bare, other = without_threat(attack, within or attack_norm(attack)), threat.partition("@")[0]
  return bare == without_threat(other, attack_norm(other)) or bare.startswith(PERCEPTUAL)


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


def _attacks_of(cells: Sequence[Cell], base: str) -> tuple[set[str], set[str]]:
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
  here, there = _attacks_of(cells, base)
  found = sorted(here & there) or sorted(here)
  if pattern:
    found = sorted(name for name in here if fnmatch.fnmatchcase(name, pattern))
    if not found:
      raise unknown_name("attack in these results", pattern, sorted(here))
  if len(found) > 1:
    raise InputError(f"ID robustness could be that under {', '.join(found)}: say which, as --attack={found[0]}")
  return found[0] if found else ""


def _columns(table: dict[Measured, dict[str, float]], models: tuple[str, ...]) -> dict[str, np.ndarray]:
  rows = {place: np.array([values.get(model, np.nan) for model in models]) for place, values in table.items()}
  columns: dict[str, np.ndarray] = {}
  for kind in (ACCURACY, ROBUSTNESS):
    of_kind = {place: values for place, values in rows.items() if place.kind == kind}
    shifts = dict.fromkeys(place.shift for place in of_kind)
    # NaN spreads: a model that lacks one condition of a mean gets no mean.
    for shift in sorted(shifts, key=lambda name: (name != ID, name)):
      columns[f"{shift} {kind}"] = np.mean([v for place, v in of_kind.items() if place.shift == shift], axis=0)
    whole = {mean: columns[f"{mean} {kind}"] for mean in MEANS.values() if mean in shifts}
    for group, wanted in WHOLE.items():
      parts = [
        values for place, values in of_kind.items() if place.group == group and place.shift not in MEANS.values()
      ]
      if parts:
        mean = np.mean(parts, axis=0)
        marks = [*_stand_ins(of_kind, group), *([f"{len(parts)} of {wanted}"] if len(parts) < wanted else [])]
        note = f"[{', '.join(marks)}]" if marks else ""
        columns[f"{group}{note} {kind}"] = mean
        if not marks:
          whole[group] = mean
    if {"R_c", "R_n"} <= set(whole):
      whole["OOD_d"] = columns[f"OOD_d {kind}"] = (whole["R_c"] + whole["R_n"]) / 2
    if {"OOD_d", "OOD_t"} <= set(whole):
      columns[f"OOD {kind}"] = (whole["OOD_d"] + whole["OOD_t"]) / 2
  return columns


def _stand_ins(places: Iterable[Measured], group: str) -> list[str]:
  """Returns the networks of perceptual attacks that stand in for those of the paper: their means are others."""
  found = {match[1] for place in places if place.group == group and (match := _NETWORK.match(place.shift))}
  return sorted(network for network in found if not network.startswith(PUBLISHED))


def _or_nan(value: int | None) -> float:
  return float("nan") if value is None else float(value)


def last_change(root: str | os.PathLike) -> str:
  """Returns the day on which the last cell of a local folder was changed; nothing for other addresses."""
  folder = Path(root)
  times = [path.stat().st_mtime for path in folder.rglob("*.json")] if folder.is_dir() else []
  return datetime.datetime.fromtimestamp(max(times), datetime.UTC).date().isoformat() if times else ""
