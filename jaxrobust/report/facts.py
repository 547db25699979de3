"""What a report knows of each cell: one accuracy with its interval, the flags behind it, and its curves.

The flags are the truth: where a cell has them, the accuracy is counted from them, not read from its summary.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from jaxrobust.analysis.curves import Curve, accuracy_vs_budget, accuracy_vs_strength
from jaxrobust.analysis.proportions import Proportion, proportion, wilson
from jaxrobust.core.errors import CorruptFileError, JaxrobustError
from jaxrobust.core.threat import inside
from jaxrobust.results.cell import Cell, Result
from jaxrobust.results.folder import Folder
from jaxrobust.results.reader import find_items, read_results
from jaxrobust.results.rows import attack_norm, budget_value, describe_model, parse_corruption, transfer_source

CURVE_POINTS = 60


@dataclass(frozen=True, eq=False)
class Fact:
  """One cell, as far as a report needs it.

  Attributes:
    robust: packed flags of the examples that stayed right; None where only the count is known.
    distance: of the closest adversarial images, for attacks without a budget.
    strength: accuracy after a number of attack steps.
  """

  cell: Cell
  path: str
  number: Proportion
  robust: np.ndarray | None
  distance: np.ndarray | None
  correct: np.ndarray | None
  strength: Curve | None
  about: Mapping[str, Any]
  command: str | None
  findings: tuple[str, ...] = ()

  @property
  def norm(self) -> str | None:
    return attack_norm(self.cell.attack)

  @property
  def source(self) -> str | None:
    return transfer_source(self.cell.attack)

  @property
  def corruption(self) -> tuple[str, int] | None:
    return parse_corruption(self.cell.condition)

  @property
  def budget(self) -> float | None:
    return budget_value(self.cell.eps)

  def flags(self) -> np.ndarray | None:
    """Which examples stayed right, where that is known."""
    return None if self.robust is None else np.unpackbits(self.robust, count=self.cell.n).astype(bool)

  def flags_at(self, eps: float) -> np.ndarray | None:
    """Which examples are right within a budget, from the distances of an attack that has none."""
    if self.distance is None or self.correct is None:
      return None
    return self.correct & ~np.isnan(self.distance) & ~inside(self.distance, eps)

  def curve(self) -> Curve | None:
    """Accuracy against budget, from the distances of an attack that has none."""
    if self.distance is None or self.correct is None:
      return None
    found = np.sort(self.distance[self.correct & np.isfinite(self.distance)])
    if not found.size:
      return None
    budgets = np.quantile(found, np.linspace(0, 1, CURVE_POINTS))
    return accuracy_vs_budget(self.distance, self.correct, [0.0, *budgets.astype(float)])


@dataclass
class Facts:
  """All facts of a results folder, and what could not be read."""

  facts: list[Fact] = field(default_factory=list)
  problems: list[str] = field(default_factory=list)

  def by_model(self) -> dict[str, list[Fact]]:
    found: dict[str, list[Fact]] = {}
    for fact in self.facts:
      found.setdefault(fact.cell.model, []).append(fact)
    return dict(sorted(found.items()))


def read_facts(folder: Folder) -> Facts:
  """Facts of every cell of a folder; damaged files become problems."""
  facts = Facts()
  on_error: Callable[[JaxrobustError], object] = lambda error: facts.problems.append(str(error))
  for item, result in read_results(folder, find_items(folder), on_error):
    try:
      facts.facts.append(make_fact(item.path, result))
    except (JaxrobustError, ValueError, TypeError, OverflowError) as error:
      facts.problems.append(f"{folder.show(item.path)}: {error}")
  facts.facts = largest(facts.facts)
  return facts


def make_fact(path: str, result: Result) -> Fact:
  """The fact of a result; CorruptFileError where it holds no accuracy."""
  cell, examples = result.cell, result.examples
  robust, correct = (_flags(examples.get(name)) for name in ("robust", "correct"))
  if robust is not None:
    number = proportion(robust)
  else:
    value: Any = result.summary.get("robust_accuracy")
    if type(value) not in (int, float) or not 0 <= value <= 1 or cell.n > 2**53:
      raise CorruptFileError("the cell holds neither flags nor a robust_accuracy")
    number = Proportion(float(value), *wilson(round(value * cell.n), cell.n), cell.n)
  distance = examples.get("distance") if cell.eps is None and cell.attack != "none" else None
  broken_at = examples.get("broken_at")
  strength = None
  if broken_at is not None and broken_at.dtype == np.int32 and correct is not None and (broken_at > 0).any():
    last = int(broken_at.max())
    steps = np.unique(np.linspace(0, last, min(last + 1, CURVE_POINTS)).astype(int))
    strength = accuracy_vs_strength(broken_at, correct, steps, robust)
  return Fact(
    cell=cell,
    path=path,
    number=number,
    robust=None if robust is None else np.packbits(robust),
    distance=distance if distance is not None and distance.dtype == np.float32 else None,
    correct=correct if distance is not None else None,
    strength=strength,
    about=describe_model(result.config, result.provenance),
    command=_command(result.provenance),
    findings=tuple(_finding(finding) for finding in result.findings),
  )


def _flags(array: np.ndarray | None) -> np.ndarray | None:
  return array if array is not None and array.dtype == bool and array.size else None


def _command(provenance: Mapping[str, Any]) -> str | None:
  """What computed the cell, or where it was taken from, where that is known."""
  command, source = provenance.get("command"), provenance.get("source")
  if isinstance(command, str):
    return command
  return f"imported: {source}" if isinstance(source, str) else None


def _finding(finding: Mapping[str, Any]) -> str:
  return f"{finding.get('kind', 'finding')}: {finding.get('text', '')}"


def largest(facts: Sequence[Fact]) -> list[Fact]:
  """One fact per question: of cells that differ only in n and seed, the one with most examples, then the first seed."""
  best: dict[tuple, Fact] = {}
  for fact in facts:
    cell = fact.cell
    key = (cell.model, cell.data, cell.condition, cell.attack, cell.eps)
    rank = lambda fact: (-fact.cell.n, fact.cell.seed, fact.path)
    if key not in best or rank(fact) < rank(best[key]):
      best[key] = fact
  return list(best.values())
