"""Leaderboards: for each data set and threat model, the models that were attacked there, side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from jaxrobust.core.budget import NORMS
from jaxrobust.evaluation.metrics.proportions import Proportion, mean_proportion, proportion, wilson
from jaxrobust.report.cell_rows import CellRow
from jaxrobust.report.rankings import Attacked, Ranking, rankings, worst_of
from jaxrobust.results.ids import without_threat
from jaxrobust.results.rows import budget_value


@dataclass(frozen=True)
class Column:
  """One column of a board: what it is called, and what it is, in one sentence."""

  key: str
  label: str
  title: str


@dataclass(frozen=True)
class Board:
  """A data set under one threat model.

  Attributes:
    threat: the name of what perturbations are measured by, `linf` or another; empty where nothing was attacked.
    unit: what its budgets are in; empty where a number is all.
    rows: for each model its numbers, one per column, None where there is none.
    paths: for each model and column the cell files behind the number.
    rankings: who may be compared with whom; the first column is that of the first.
    attacked: for each model what it was attacked by, as shown, and on how many examples.
  """

  data: str
  threat: str
  eps: str
  columns: tuple[Column, ...]
  rows: dict[str, tuple[Proportion | None, ...]]
  paths: dict[str, tuple[tuple[str, ...], ...]]
  unit: str = ""
  rankings: tuple[Ranking, ...] = ()
  attacked: dict[str, tuple[tuple[str, int], ...]] = field(default_factory=dict)

  @property
  def norm(self) -> str:
    """Returns the threat where it is a norm, else nothing."""
    return self.threat if self.threat in NORMS else ""

  @property
  def level(self) -> str:
    """Returns the threat, its budget and the unit of it."""
    return " ".join(part for part in (self.threat, self.eps, self.unit) if part)

  @property
  def name(self) -> str:
    return f"{self.data}, {self.level}" if self.threat else self.data


WORST = Column(
  "worst",
  "Robust",
  "Right under every attack that the ranked models share, on the same examples: the worst case of each example",
)
KNOWN = Column(
  "known", "Worst known", "Right under every attack run on this model, on the examples that these share; not ranked"
)
CLEAN = Column("clean", "Clean", "Right without an attack")
CORRUPTED = Column(
  "corruptions", "Corruptions", "Mean accuracy over all corruptions and severities run, without an attack"
)

DOUBT = "its source marks the number as unreliable"

NumberAndPaths = tuple[Proportion, tuple[str, ...]]


def make_boards(rows: Sequence[CellRow]) -> list[Board]:
  """Returns all boards of a folder, data sets with most models first, budgets rising."""
  groups: dict[str, dict[str, list[CellRow]]] = {}
  for row in rows:
    if "outliers" not in row.judged:  # Images of no class have no accuracy.
      groups.setdefault(row.cell.data, {}).setdefault(row.cell.model, []).append(row)
  boards: list[Board] = []
  for data, models in sorted(groups.items(), key=lambda group: (-len(group[1]), group[0])):
    threats = _threats([row for group in models.values() for row in group])
    boards.extend(_board(data, threat, eps, models) for threat, eps in threats or [("", "")])
  return [board for board in boards if board.rows]


def _threats(rows: Sequence[CellRow]) -> list[tuple[str, str]]:
  found = {
    (row.threat, row.cell.eps)
    for row in rows
    if row.threat and row.cell.eps and row.budget is not None and row.adaptive and row.cell.condition == "clean"
  }
  return sorted(found, key=lambda found: (threat_order(found[0]), budget_value(found[1]), found[1]))


def threat_order(threat: str) -> tuple[int, str]:
  """Returns a key that sorts threats: the norms first, others by name.

  >>> sorted(["stadv", "l1", "lpips-alexnet", "linf", "l2"], key=threat_order)
  ['linf', 'l2', 'l1', 'lpips-alexnet', 'stadv']
  """
  return (_NORMS.index(threat), "") if threat in _NORMS else (len(_NORMS), threat)


_NORMS = ("linf", "l2", "l1")


def _board(data: str, threat: str, eps: str, models: dict[str, list[CellRow]]) -> Board:
  evidence = {}
  for model, rows in sorted(models.items()):
    found = _evidence(rows, threat, eps)
    if found or (not threat and corruption_mean(rows) is not None):
      evidence[model] = found
  doubted = {model: DOUBT for model in evidence if any(row.about.get("unreliable") for row in models[model])}
  ranked = tuple(rankings(evidence, doubted if threat else {}))
  labels = _labels({attack for found in evidence.values() for attack in found}, threat)
  counted = Counter(attack for found in evidence.values() for attack in found)
  columns = [CLEAN]
  if threat:
    names = sorted(counted, key=lambda attack: (-counted[attack], attack))
    columns = [WORST, CLEAN, *(Column(name, labels[name], f"Right under {name} at {eps}") for name in names)]
  numbers_of = {model: _entries(models[model], evidence[model], ranked, threat) for model in evidence}
  if threat and any(entries[KNOWN.key][0] != entries.get(WORST.key, (None,))[0] for entries in numbers_of.values()):
    columns.insert(1, KNOWN)
  if any(CORRUPTED.key in entries for entries in numbers_of.values()):
    columns.insert(columns.index(CLEAN) + 1, CORRUPTED)
  empty: tuple[None, tuple[str, ...]] = (None, ())
  numbers, paths = (
    {model: tuple(entries.get(c.key, empty)[part] for c in columns) for model, entries in numbers_of.items()}
    for part in (0, 1)
  )
  units = [row.unit for rows in models.values() for row in rows if row.threat == threat and row.unit]
  attacked = {
    model: tuple((labels[attack], entry[0].n) for attack, entry in sorted(found.items()))
    for model, found in evidence.items()
  }
  unit = min(units, default="")
  return Board(data, threat, eps, tuple(columns), numbers, paths, unit, ranked, attacked)  # type: ignore[arg-type]


def _evidence(rows: Sequence[CellRow], threat: str, eps: str) -> dict[str, Attacked]:
  """Returns what a model is ranked by: its attacks at one budget, or its clean accuracy where there is no threat."""
  if threat:
    return _attacks(rows, threat, eps)
  clean = [row for row in rows if row.cell.attack == "none" and row.cell.condition == "clean"]
  return {"none": (clean[0].number, clean[0].flags(), (clean[0].path,))} if clean else {}


def _entries(
  rows: Sequence[CellRow], attacks: Mapping[str, Attacked], ranked: Sequence[Ranking], threat: str
) -> dict[str, NumberAndPaths]:
  """Returns the numbers of one model by column."""
  entries: dict[str, NumberAndPaths] = {}
  if threat:
    entries = {name: (number, paths) for name, (number, _, paths) in attacks.items()}
    entries[KNOWN.key] = worst_case(list(attacks.values()))
    number = ranked[0].numbers.get(rows[0].cell.model) if ranked else None
    if number is not None:
      entries[WORST.key] = number, tuple(path for name in ranked[0].attacks for path in attacks[name][2])
  for row in rows:
    if row.cell.attack == "none" and row.cell.condition == "clean":
      entries[CLEAN.key] = row.number, (row.path,)
  mean = corruption_mean(rows)
  return entries if mean is None else {**entries, CORRUPTED.key: mean}


def _labels(attacks: Collection[str], threat: str) -> dict[str, str]:
  """Returns short names of attacks, long ones where two would look alike."""
  short = {name: short_name(name, threat or None) for name in attacks}
  counted = Counter(short.values())
  return {name: text if counted[text] == 1 else without_threat(name, threat) for name, text in short.items()}


def _attacks(rows: Sequence[CellRow], threat: str, eps: str) -> dict[str, Attacked]:
  """Returns number, flags and file of each attack on clean images at one budget; attacks without one have all."""
  found: dict[str, Attacked] = {}
  for row in rows:
    if row.cell.condition != "clean" or row.threat != threat or not row.adaptive:
      continue
    if row.cell.eps == eps:
      found[row.cell.attack] = row.number, row.flags(), (row.path,)
    elif row.cell.eps is None:
      flags = row.flags_at(budget_value(eps) or 0.0)
      if flags is not None:
        found[row.cell.attack] = proportion(flags), flags, (row.path,)
  return found


def worst_case(attacked: Sequence[Attacked]) -> NumberAndPaths:
  """Returns the share of examples that no attack broke, over the first examples that all attacks share.

  Where an attack has no flags (a published number), the least of the accuracies stands in: an upper bound.
  """
  paths = tuple(path for _, _, files in attacked for path in files)
  n = min(number.n for number, _, _ in attacked)
  worst = worst_of(attacked, n)
  return worst or min((number for number, _, _ in attacked), key=lambda number: number.value), paths


def corruption_mean(rows: Sequence[CellRow]) -> NumberAndPaths | None:
  """Returns the mean accuracy over corrupted copies of a data set; its interval is over images, which all copies share.

  Where a copy has no flags (a published number), the images of the smallest stand for all: an upper bound of its width.
  """
  found = [row for row in rows if row.corruption and row.cell.attack == "none"]
  if not found:
    return None
  paths, flags = tuple(row.path for row in found), [row.flags() for row in found]
  known = [each for each in flags if each is not None]
  if len(known) == len(found):
    return mean_proportion(known), paths
  value, n = float(np.mean([row.number.value for row in found])), min(row.number.n for row in found)
  return Proportion(value, *wilson(value * n, n), n), paths


_UPPER = {
  "fgsm", "pgd", "mim", "bim", "ni", "si", "dim", "tim", "vmi", "vni", "ssa", "uap", "apgd", "ce", "dlr", "fab",
  "cw", "ddn", "fmn", "ead", "mm3", "mm5", "mm9", "mm+", "t",
}  # fmt: skip


def short_name(attack: str, threat: str | None = None) -> str:
  """Returns a column header for an attack: without its threat, which the board has, and without its options.

  >>> short_name("linf-apgd-ce-100"), short_name("l2-autoattack"), short_name("linf-external")
  ('APGD-CE-100', 'AutoAttack', 'External')
  >>> short_name("linf-bim-20,step_size=0.15-minimum-budget,targeted")
  'BIM-20, least budget, targeted'
  >>> short_name("lpips-alexnet-pgd-40", "lpips-alexnet"), short_name("linf-autoattack-audit-0.5")
  ('PGD-40', 'AutoAttack, audited to ±0.5')
  """
  if attack == "none":
    return "no attack"
  bare = attack.partition("-")[2] or attack if threat is None else without_threat(attack, threat)
  name, *options = bare.split(",")
  name, audited, width = name.partition("-audit-")
  notes = [f"audited to ±{width.partition('~')[0]}"] if audited else []
  notes += ["least budget"] if "-minimum-budget" in attack else []
  notes += ["targeted"] if "targeted" in options else []
  words = [word.upper() if word in _UPPER else word for word in name.removesuffix("-minimum-budget").split("-")]
  names = {"autoattack": "AutoAttack", "deepfool": "DeepFool", "square": "Square", "external": "External"}
  return ", ".join(["-".join(names.get(word, word) for word in words), *notes])
