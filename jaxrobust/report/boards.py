"""Leaderboards: for each data set and threat model, the models that were attacked there, side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from jaxrobust.analysis.proportions import Proportion, mean_proportion, proportion, wilson
from jaxrobust.report.facts import Fact
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
    rows: for each model its numbers, one per column, None where there is none.
    paths: for each model and column the cell files behind the number.
  """

  data: str
  norm: str
  eps: str
  columns: tuple[Column, ...]
  rows: dict[str, tuple[Proportion | None, ...]]
  paths: dict[str, tuple[tuple[str, ...], ...]]

  @property
  def name(self) -> str:
    return f"{self.data}, {self.norm} {self.eps}" if self.norm else self.data


WORST = Column(
  "worst",
  "Robust",
  "Right under every attack of this threat model: the worst case of each example over all attacks run",
)
CLEAN = Column("clean", "Clean", "Right without an attack")
CORRUPTED = Column(
  "corruptions", "Corruptions", "Mean accuracy over all corruptions and severities run, without an attack"
)

Entry = tuple[Proportion, tuple[str, ...]]


def make_boards(facts: Sequence[Fact]) -> list[Board]:
  """All boards of a folder, data sets with most models first, budgets rising."""
  groups: dict[str, dict[str, list[Fact]]] = {}
  for fact in facts:
    groups.setdefault(fact.cell.data, {}).setdefault(fact.cell.model, []).append(fact)
  boards: list[Board] = []
  for data, models in sorted(groups.items(), key=lambda group: (-len(group[1]), group[0])):
    threats = _threats([fact for group in models.values() for fact in group])
    boards.extend(_board(data, norm, eps, models) for norm, eps in threats or [("", "")])
  return [board for board in boards if board.rows]


def _threats(facts: Sequence[Fact]) -> list[tuple[str, str]]:
  found = {
    (fact.norm, fact.cell.eps)
    for fact in facts
    if fact.norm and fact.cell.eps and fact.budget is not None and not fact.source and fact.cell.condition == "clean"
  }
  return sorted(found, key=lambda threat: (_norm_order(threat[0]), budget_value(threat[1]), threat[1]))


def _norm_order(norm: str) -> int:
  return ("linf", "l2", "l1").index(norm)


def _board(data: str, norm: str, eps: str, models: dict[str, list[Fact]]) -> Board:
  attacks = {model: _attacks(facts, norm, eps) for model, facts in models.items()} if norm else {}
  counted = Counter(attack for entries in attacks.values() for attack in entries)
  names = sorted(counted, key=lambda attack: (-counted[attack], attack))
  labels = Counter(short_name(name) for name in names)
  label = lambda name: short_name(name) if labels[short_name(name)] == 1 else name.partition("-")[2]
  columns = [CLEAN, *(Column(name, label(name), f"Right under {name} at {eps}") for name in names)]
  if norm:
    columns.insert(0, WORST)
  found: dict[str, dict[str, Entry]] = {}
  for model, facts in sorted(models.items()):
    entries: dict[str, Entry] = {name: (entry[0], entry[2]) for name, entry in attacks.get(model, {}).items()}
    if norm and not entries:
      continue
    if norm:
      entries[WORST.key] = worst_case(list(attacks[model].values()))
    for fact in facts:
      if fact.cell.attack == "none" and fact.cell.condition == "clean":
        entries[CLEAN.key] = fact.number, (fact.path,)
    mean = corruption_mean(facts)
    if mean is not None:
      entries[CORRUPTED.key] = mean
    if entries:
      found[model] = entries
  if any(CORRUPTED.key in entries for entries in found.values()):
    columns.insert(columns.index(CLEAN) + 1, CORRUPTED)
  empty: tuple[None, tuple[str, ...]] = (None, ())
  numbers, paths = (
    {model: tuple(entries.get(c.key, empty)[part] for c in columns) for model, entries in found.items()}
    for part in (0, 1)
  )
  return Board(data, norm, eps, tuple(columns), numbers, paths)  # type: ignore[arg-type]


Attacked = tuple[Proportion, np.ndarray | None, tuple[str, ...]]


def _attacks(facts: Sequence[Fact], norm: str, eps: str) -> dict[str, Attacked]:
  """Number, flags and file of each attack on clean images at one budget; attacks without a budget give one at any."""
  found: dict[str, Attacked] = {}
  for fact in facts:
    if fact.cell.condition != "clean" or fact.norm != norm or fact.source:
      continue
    if fact.cell.eps == eps:
      found[fact.cell.attack] = fact.number, fact.flags(), (fact.path,)
    elif fact.cell.eps is None:
      flags = fact.flags_at(budget_value(eps) or 0.0)
      if flags is not None:
        found[fact.cell.attack] = proportion(flags), flags, (fact.path,)
  return found


def worst_case(attacked: Sequence[Attacked]) -> Entry:
  """The share of examples that no attack broke, over the first examples that all attacks share.

  Where an attack has no flags (a published number), the least of the accuracies stands in: an upper bound.
  """
  paths = tuple(path for _, _, files in attacked for path in files)
  flags = [flags for _, flags, _ in attacked if flags is not None]
  if len(flags) < len(attacked):
    return min((number for number, _, _ in attacked), key=lambda number: number.value), paths
  n = min(len(each) for each in flags)
  standing = np.logical_and.reduce([each[:n] for each in flags])
  return proportion(standing), paths


def corruption_mean(facts: Sequence[Fact]) -> Entry | None:
  """Mean accuracy over corrupted copies of a data set; its interval is over images, which all copies share.

  Where a copy has no flags (a published number), the images of the smallest stand for all: an upper bound of its width.
  """
  found = [fact for fact in facts if fact.corruption and fact.cell.attack == "none"]
  if not found:
    return None
  paths, flags = tuple(fact.path for fact in found), [fact.flags() for fact in found]
  known = [each for each in flags if each is not None]
  if len(known) == len(found):
    return mean_proportion(known), paths
  value, n = float(np.mean([fact.number.value for fact in found])), min(fact.number.n for fact in found)
  return Proportion(value, *wilson(value * n, n), n), paths


_UPPER = {
  "fgsm",
  "pgd",
  "mim",
  "bim",
  "apgd",
  "ce",
  "dlr",
  "fab",
  "cw",
  "ddn",
  "fmn",
  "ead",
  "mm3",
  "mm5",
  "mm9",
  "mm+",
  "t",
}


def short_name(attack: str) -> str:
  """A column header for an attack: without its norm, which the board has, and without its options.

  >>> short_name("linf-apgd-ce-100"), short_name("l2-autoattack")
  ('APGD-CE-100', 'AutoAttack')
  >>> short_name("linf-bim-20,step_size=0.15-minimum-budget,targeted")
  'BIM-20, least budget, targeted'
  """
  name, *options = (attack.partition("-")[2] or attack).split(",")
  notes = ["least budget"] if "-minimum-budget" in attack else []
  notes += ["targeted"] if "targeted" in options else []
  words = [word.upper() if word in _UPPER else word for word in name.removesuffix("-minimum-budget").split("-")]
  names = {"autoattack": "AutoAttack", "deepfool": "DeepFool", "square": "Square"}
  return ", ".join(["-".join(names.get(word, word) for word in words), *notes])
