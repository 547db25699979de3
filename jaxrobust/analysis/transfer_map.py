"""Source × target maps: how often images made against one network fool another."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from jaxrobust.core.errors import InputError
from jaxrobust.evaluation.metrics.adversarial import transferred_success_rate
from jaxrobust.evaluation.metrics.proportions import Proportion, proportion
from jaxrobust.results import Cell, Result
from jaxrobust.results.ids import is_targeted, threat_name, transfer_source


def source_and_attack(cell: Cell) -> tuple[str, str] | None:
  """Returns (source, attack) of a transfer cell, None of any other.

  >>> source_and_attack(Cell(model="b", data="d", attack="transfer:a:linf-pgd-20", eps="8/255", n=4))
  ('a', 'linf-pgd-20')
  """
  source = transfer_source(cell.attack)
  return None if source is None else (source, cell.attack.rpartition(":")[2])


@dataclass(frozen=True, eq=False)
class TransferMap:
  """A matrix of source (row) × target (column).

  Attributes:
    success: of the examples a target has right, the share that it has wrong after the attack; of targeted images, the
      share of all that are taken for their target. NaN where not measured.
    accuracy: right before and after the attack, of all examples, with its interval.
    threat: within which the images were made.
  """

  sources: tuple[str, ...]
  targets: tuple[str, ...]
  success: np.ndarray
  accuracy: dict[tuple[str, str], Proportion]
  threat: str | None = None


def transfer_map(results: Iterable[Result]) -> TransferMap:
  """Returns the map of transfer cells of one attack, budget and data set; other cells are passed over."""
  found: dict[tuple[str, str], Result] = {}
  asked, threat = set(), None
  for result in results:
    pair = source_and_attack(result.cell)
    if pair is not None:
      found[pair[0], result.cell.model] = result
      cell, threat = result.cell, threat_name(result.config, result.cell.attack)
      asked.add((pair[1], threat, cell.eps, cell.data, cell.condition, cell.n, cell.seed))
  if len(asked) > 1:
    raise InputError(
      f"a transfer map is about one attack and data set, not {len(asked)}: {sorted(map(str, asked))[:2]}"
    )
  sources, targets = (tuple(dict.fromkeys(pair[side] for pair in found)) for side in (0, 1))
  success = np.full((len(sources), len(targets)), np.nan)
  accuracy = {}
  for (source, target), result in found.items():
    place = sources.index(source), targets.index(target)
    success[place] = transferred_success_rate(result.examples, is_targeted(result.cell.attack))
    accuracy[source, target] = proportion(result.examples["robust"])
  return TransferMap(sources, targets, success, accuracy, threat)
