"""The rows of a report, one per cell: one accuracy with its interval, the flags behind it, and its curves.

The flags are the truth: where a cell has them, the accuracy is counted from them, not read from its summary.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from jaxrobust.core.budget import inside
from jaxrobust.core.errors import CorruptFileError, JaxrobustError
from jaxrobust.evaluation.metrics.adversarial import success_among_both
from jaxrobust.evaluation.metrics.curves import Curve, accuracy_vs_budget, accuracy_vs_strength
from jaxrobust.evaluation.metrics.proportions import Proportion, proportion, robust_proportion, wilson
from jaxrobust.results.cell import Cell, Result
from jaxrobust.results.folder import Folder
from jaxrobust.results.ids import (
  attack_norm,
  is_certificate,
  is_targeted,
  oblivious_by,
  threat_name,
  threat_unit,
  transfer_source,
)
from jaxrobust.results.reader import find_items, read_results
from jaxrobust.results.rows import budget_value, describe_model, parse_corruption, published_as

CURVE_POINTS = 60
MOST_STEPS = 10**7


@dataclass(frozen=True, eq=False)
class CellRow:
  """Holds of one cell what a report needs.

  Attributes:
    robust: packed flags of the examples that stayed right; None where only a number is known, as of audited cells.
    distance: of the closest adversarial images, for attacks without a budget.
    right: how many examples were right before the attack; None where nobody says.
    reached: how many images of a targeted attack by transfer are taken for their target; None of others.
    both: of an untargeted one, its success among the examples that the source has right too, in per cent.
    strength: accuracy after a number of attack steps.
    threat: the name of what perturbations were measured by; None where there is no attack, or where nobody says.
    unit: what its distances are in; None where a number is all.
    certified: accuracy that is proved against budget, of certificates and where examples were certified first.
    judged: what its configuration says of how answers are judged; empty for one right class among all.
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
  right: int | None = None
  reached: int | None = None
  both: float | None = None
  threat: str | None = None
  unit: str | None = None
  judged: str = ""
  certified: Curve | None = None

  @property
  def norm(self) -> str | None:
    return attack_norm(self.cell.attack)

  @property
  def source(self) -> str | None:
    return transfer_source(self.cell.attack)

  @property
  def oblivious(self) -> str | None:
    return oblivious_by(self.cell.attack)

  @property
  def adaptive(self) -> bool:
    """Tells whether the attack was made on this very model, by somebody who knew it; a certificate is no attack."""
    return self.source is None and self.oblivious is None and not self.certificate

  @property
  def certificate(self) -> bool:
    """Tells whether its accuracy is what was proved, a lower bound of that under any attack."""
    return is_certificate(self.cell.attack)

  @property
  def corruption(self) -> tuple[str, int] | None:
    return parse_corruption(self.cell.condition)

  @property
  def budget(self) -> float | None:
    return budget_value(self.cell.eps)

  def success(self) -> float | None:
    """Returns how often the attack succeeded in per cent: of the examples right before it, or, targeted, of all."""
    if is_targeted(self.cell.attack):
      return None if self.reached is None else round(100 * self.reached / self.number.n, 4)
    if not self.right:
      return None
    return round(100 * (1 - self.number.value * self.number.n / self.right), 4)

  def flags(self) -> np.ndarray | None:
    """Tells which examples stayed right, where that is known."""
    return None if self.robust is None else np.unpackbits(self.robust, count=self.cell.n).astype(bool)

  def flags_at(self, eps: float) -> np.ndarray | None:
    """Tells which examples are right within a budget, from the distances of an attack that has none."""
    if self.distance is None or self.correct is None or not has_distances(self.distance, self.correct):
      return None
    return self.correct & ~np.isnan(self.distance) & ~inside(self.distance, eps)

  def curve(self) -> Curve | None:
    """Returns accuracy against budget, from the distances of an attack that has none."""
    if self.distance is None or self.correct is None:
      return None
    found = np.sort(self.distance[self.correct & np.isfinite(self.distance)])
    if not found.size:
      return None
    budgets = np.quantile(found, np.linspace(0, 1, CURVE_POINTS))
    return accuracy_vs_budget(self.distance, self.correct, [0.0, *budgets.astype(float)])


@dataclass
class CellRows:
  """All rows of a results folder, and what could not be read."""

  rows: list[CellRow] = field(default_factory=list)
  problems: list[str] = field(default_factory=list)

  def by_model(self) -> dict[str, list[CellRow]]:
    found: dict[str, list[CellRow]] = {}
    for row in self.rows:
      found.setdefault(row.cell.model, []).append(row)
    return dict(sorted(found.items()))


def read_cell_rows(folder: Folder) -> CellRows:
  """Reads every cell of a folder; damaged files become problems."""
  found = CellRows()
  on_error: Callable[[JaxrobustError], object] = lambda error: found.problems.append(str(error))
  for item, result in read_results(folder, find_items(folder), on_error):
    try:
      found.rows.append(make_cell_row(item.path, result))
    except (JaxrobustError, ValueError, TypeError, OverflowError) as error:
      found.problems.append(f"{folder.show(item.path)}: {error}")
  found.rows = largest(found.rows)
  return found


def make_cell_row(path: str, result: Result) -> CellRow:
  """Returns the row of a result; CorruptFileError where it holds no accuracy."""
  cell, examples = result.cell, result.examples
  robust, correct = (_flags(examples.get(name)) for name in ("robust", "correct"))
  if robust is not None and "audit" in result.summary:
    number, robust = _audited(result), None
  elif robust is not None:
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
    last = max(int(broken_at.max()), _all_steps(result.config))
    # As many early steps as late ones: most examples break early, and the axis of a long attack is logarithmic.
    even, early = np.linspace(0, last, CURVE_POINTS), np.geomspace(1, last, CURVE_POINTS)
    steps = np.unique(np.concatenate([even, early]).astype(int))
    strength = accuracy_vs_strength(broken_at, correct, steps, robust)
  return CellRow(
    cell=cell,
    path=path,
    number=number,
    robust=None if robust is None else np.packbits(robust),
    distance=distance if distance is not None and distance.dtype == np.float32 else None,
    correct=correct if distance is not None else None,
    strength=strength,
    about={**describe_model(result.config, result.provenance), **published_as(result.provenance)},
    command=_command(result.provenance),
    findings=tuple(_finding(finding) for finding in result.findings),
    reached=None if (reached := _flags(examples.get("reached"))) is None else int(reached.sum()),
    both=_both(cell, examples),
    right=int(correct.sum()) if correct is not None else _count(result.summary.get("correct")),
    threat=threat_name(result.config, cell.attack),
    unit=threat_unit(result.config),
    judged=str(result.config.get("judging") or ""),
    certified=_certified(examples),
  )


def _both(cell: Cell, examples: Mapping[str, np.ndarray]) -> float | None:
  """Returns the success of images made on another network among what both have right, in per cent."""
  flags = {
    name: found for name in ("correct", "robust", "source_correct") if (found := _flags(examples.get(name))) is not None
  }
  if transfer_source(cell.attack) is None or is_targeted(cell.attack) or len(flags) < 3:
    return None
  share = success_among_both(flags)
  return None if np.isnan(share) else round(100 * share, 4)


def _certified(examples: Mapping[str, np.ndarray]) -> Curve | None:
  """Returns the accuracy that is proved against budget, from certified radii; None without any.

  >>> curve = _certified({"certified_radius": np.array([0.5, 0, 0.25], np.float32), "correct": np.array([True] * 3)})
  >>> [round(curve.at(eps), 2) for eps in (0, 0.25, 0.5, 1)]
  [1.0, 0.67, 0.33, 0.0]
  """
  radius, correct = examples.get("certified_radius"), _flags(examples.get("correct"))
  if radius is None or radius.dtype != np.float32 or correct is None or not (correct & (radius > 0)).any():
    return None
  found = np.sort(radius[correct & (radius > 0) & np.isfinite(radius)]).astype(np.float64)
  budgets = np.unique(np.quantile(found, np.linspace(0, 1, CURVE_POINTS), method="lower"))
  held = [(correct & (radius >= budget)).mean() for budget in budgets]
  return Curve(np.array([0.0, *budgets, 1.001 * budgets[-1]]), np.array([correct.mean(), *held, 0.0]))


def _audited(result: Result) -> Proportion:
  """Returns the estimate of an audited cell; CorruptFileError where it says none."""
  try:
    number = robust_proportion(result.examples, result.summary)
  except (KeyError, TypeError, ValueError) as error:
    raise CorruptFileError(f"the audited cell holds no estimate ({error})") from None
  if not 0 <= number.low <= number.value <= number.high <= 1:
    raise CorruptFileError("the estimate of the audited cell lies outside its interval")
  return number


def has_distances(distance: np.ndarray, correct: np.ndarray) -> bool:
  """Tells whether a threat defines distances at all: NaN for every adversarial image found is none.

  >>> right = np.array([True, True])
  >>> has_distances(np.array([np.nan, np.inf]), right), has_distances(np.array([np.nan, 0.1]), right)
  (False, True)
  """
  found = distance[correct & (distance != np.inf)]
  return not found.size or not np.isnan(found).all()


def _all_steps(config: Mapping[str, Any]) -> int:
  """Returns how many steps an example takes that nothing breaks; 0 where the configuration does not say.

  >>> _all_steps({"attack": [{"num_steps": 20}, {"num_steps": 100}]}), _all_steps({"attack": "unknown"})
  (120, 0)
  """
  stages = config.get("attack")
  counts = (
    [stage.get("num_steps") for stage in stages if isinstance(stage, Mapping)] if isinstance(stages, list) else []
  )
  known = [count for count in counts if type(count) is int and 0 < count < MOST_STEPS]
  return sum(known) if len(known) == len(counts) else 0


def _flags(array: np.ndarray | None) -> np.ndarray | None:
  return array if array is not None and array.dtype == bool and array.size else None


def _count(value: Any) -> int | None:
  return value if type(value) is int and value > 0 else None


def _command(provenance: Mapping[str, Any]) -> str | None:
  """Says what computed the cell, or where it was taken from, where that is known."""
  command, source = provenance.get("command"), provenance.get("source")
  if isinstance(command, str):
    return command
  return f"imported: {source}" if isinstance(source, str) else None


def _finding(finding: Mapping[str, Any]) -> str:
  return f"{finding.get('kind', 'finding')}: {finding.get('text', '')}"


def largest(rows: Sequence[CellRow]) -> list[CellRow]:
  """Returns a row per question: of cells that differ in n and seed alone the largest, then that of the first seed."""
  best: dict[tuple, CellRow] = {}
  for row in rows:
    cell = row.cell
    key = (cell.model, cell.data, cell.condition, cell.attack, cell.eps)
    rank = lambda row: (-row.cell.n, row.cell.seed, row.path)
    if key not in best or rank(row) < rank(best[key]):
      best[key] = row
  return list(best.values())
