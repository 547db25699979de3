"""A cascade from stored cells: which attacks to run, in which order, by what they have broken for what they cost.

Candidates are cells of one model on one data set within one budget, with flags of the same examples; those of minimal
attacks count with what they reach within it. `metrics.cascades` chooses; the result is the text that
`evaluate --suite=cascade --stages=…` runs.
"""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxrobust.attacks.cascade_text import cascade_text, stage_of
from jaxrobust.attacks.schedule import Stage
from jaxrobust.core.budget import Budget, inside
from jaxrobust.core.errors import InputError
from jaxrobust.evaluation.metrics.cascades import Choice, choose_stages
from jaxrobust.evaluation.yield_job import passes_per_query, queries_within
from jaxrobust.results import Cell, Result

# What cells must share for their flags to be of the same examples of the same network.
_SHARED = ("model_fingerprint", "data_fingerprint", "precision", "dtype", "samples", "judging")
# Cells with these ask another question than what an attack on this network breaks.
_OTHER = ("transfer", "oblivious", "targets", "certify")


class CellFilter(NamedTuple):
  """Says which cells are candidates; `n` 0 for any, `attacks` a shell pattern of ids without budgets."""

  model: str
  data: str
  eps: str
  norm: str = "linf"
  condition: str = "clean"
  seed: int = 0
  n: int = 0
  attacks: str = "*"

  def takes(self, result: Result) -> bool:
    """Tells whether a cell is asked for."""
    cell, config = result.cell, result.config
    same = (cell.model, cell.data, cell.condition, cell.seed) == (self.model, self.data, self.condition, self.seed)
    minimal = cell.eps is None and "distance" in result.examples
    budget = minimal or (cell.eps is not None and Budget.parse(cell.eps).value == Budget.parse(self.eps).value)
    threat = (config.get("threat") or {}).get("name") == self.norm
    other = cell.attack == "none" or any(key in config for key in _OTHER)
    sized = self.n in (0, cell.n)
    return same and budget and threat and not other and sized and fnmatch.fnmatchcase(cell.attack, self.attacks)


class CellCandidate(NamedTuple):
  """Is one cell as a part of a cascade: its stages, the examples that are right, those it breaks, and what it spent."""

  cell: Cell
  stages: tuple[Stage, ...]
  correct: np.ndarray
  broken: np.ndarray
  cost: np.ndarray


class BuiltCascade(NamedTuple):
  """Is a cascade from cells.

  Attributes:
    candidates: all that there was to choose from.
    choices: the parts, in order, and what each adds.
    text: as `--stages` takes it.
    n, correct, robust: examples; right before, and after, all parts.
    standing: what all candidates together leave standing.
  """

  candidates: tuple[CellCandidate, ...]
  choices: tuple[Choice, ...]
  text: str
  n: int
  correct: int
  robust: int
  standing: int


def find_candidates(results: Iterable[Result], wanted: CellFilter) -> tuple[list[CellCandidate], dict[str, str]]:
  """Returns the candidates, and the cells that can be none with the reason why."""
  found: list[CellCandidate] = []
  passed: dict[str, str] = {}
  kept: list[Result] = []
  for result in results:
    if not wanted.takes(result):
      continue
    try:
      candidate = _candidate(result, wanted.eps)
    except InputError as error:
      passed[result.cell.id] = str(error)
      continue
    _check_alike(kept, result)
    kept.append(result)
    found.append(candidate)
  return found, passed


def _candidate(result: Result, eps: str) -> CellCandidate:
  config: Any = result.config["attack"]
  if not config or any("schedule" in part for part in config):
    raise InputError("it is more than stages in an order")
  stages = tuple(stage_of(part) for part in config)
  weights = {passes_per_query(stage) for stage in stages}
  if len(weights) > 1:
    raise InputError("a query of one of its stages costs more than that of another")
  examples = result.examples
  queries = queries_within(examples, eps)
  budget = Budget.parse(eps).value
  near = inside(examples["distance"], budget) if result.cell.eps is None else ~examples["robust"]
  right = examples["correct"]
  return CellCandidate(result.cell, stages, right, right & near, weights.pop() * queries)


def _check_alike(kept: Sequence[Result], result: Result) -> None:
  """Refuses cells whose flags are not of the same examples of the same network."""
  for first in kept[:1]:
    names = f"{first.cell.id} and {result.cell.id}"
    if first.cell.n != result.cell.n:
      raise InputError(f"cells {names} are of {first.cell.n} and {result.cell.n} examples: choose with --n")
    for key in _SHARED:
      if first.config.get(key) != result.config.get(key):
        raise InputError(f"cells {names} differ in {key}: their flags are not of one question")
    if (first.examples["correct"] != result.examples["correct"]).any():
      raise InputError(f"cells {names} do not have the same examples right before the attack")


def build_cascade(
  results: Iterable[Result], wanted: CellFilter, budget: float = 0.0
) -> tuple[BuiltCascade, dict[str, str]]:
  """Returns the greedy cascade of stored cells, and the cells that were passed over with the reason why.

  Args:
    results: of a folder.
    wanted: which of them are candidates.
    budget: forward passes, a gradient counted as two more, of an example that stands to the end; 0 for no bound.
  """
  candidates, passed = find_candidates(results, wanted)
  if not candidates:
    why = next((f": {cell}: {reason}" for cell, reason in passed.items()), "")
    raise InputError(
      f"no cell of {wanted.model} on {wanted.data} within {wanted.norm} {wanted.eps} is a candidate{why}"
    )
  right = candidates[0].correct
  broken = np.array([one.broken for one in candidates])[:, right]
  cost = np.array([one.cost for one in candidates])[:, right]
  choices = choose_stages(broken, cost, budget or math.inf)
  if not choices:
    raise InputError(f"none of {len(candidates)} cells breaks an example within the budget: there is nothing to build")
  stages = [stage for choice in choices for stage in candidates[choice.candidate].stages]
  left = choices[-1].standing - choices[-1].newly
  built = BuiltCascade(
    tuple(candidates), tuple(choices), cascade_text(stages), len(right), int(right.sum()), left,
    int((~broken.any(axis=0)).sum()),
  )  # fmt: skip
  return built, passed
