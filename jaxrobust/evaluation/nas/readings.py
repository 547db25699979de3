"""Two readings of "accuracy under an attack", both of which papers print under one name.

  first-success  an example counts if it is right and no point that the attack looked at is wrong: ours everywhere.
                 AutoAttack's attacks are read so in arXiv:2306.06712 too.
  foolbox        every example is attacked, right or wrong, for all steps, and the last point alone decides: how Foolbox
                 reads FGSM and PGD, and so the paper. Examples that were wrong may count, where the attack drove them
                 into the right class; points that were wrong on the way do not.

The second is a cell of a transfer attack from a network to itself (`evaluation.transfer`), which makes and keeps
exactly that: all steps on every example, and the prediction at the last one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from jaxrobust.core.budget import Budget
from jaxrobust.data.source import DataSource
from jaxrobust.evaluation.context import ModelContext
from jaxrobust.evaluation.job import RunOptions
from jaxrobust.evaluation.suites.entry import SuiteEntry
from jaxrobust.evaluation.transfer import TransferSpec, run_transfer
from jaxrobust.results import Cell, Result

FIRST_SUCCESS, FOOLBOX = "first-success", "foolbox"
READINGS = (FIRST_SUCCESS, FOOLBOX)
# Attacks that Foolbox made in the paper; the others are AutoAttack's.
BY_FOOLBOX = ("linf-fgsm", "linf-pgd")


def foolbox_specs(entries: Iterable[SuiteEntry]) -> list[TransferSpec]:
  """Gathers the attacks that Foolbox reads, each with all its budgets: one pass over the examples serves them."""
  budgets: dict[str, list[Budget]] = {}
  first: dict[str, SuiteEntry] = {}
  for entry in entries:
    if entry.eps is not None and entry.attack.startswith(BY_FOOLBOX):
      first.setdefault(entry.attack, entry)
      budgets.setdefault(entry.attack, []).append(entry.eps)
  return [TransferSpec(entry, tuple(budgets[attack])) for attack, entry in first.items()]


def run_foolbox(
  name: str, context: ModelContext, data: DataSource, specs: Sequence[TransferSpec], root: Path, options: RunOptions
) -> list[Result]:
  """Computes the cells of one network that the second reading needs; those on disk are taken."""
  found: list[Result] = []
  for spec in specs:
    found += run_transfer({name: context}, data, spec, root, options).values()
  return found


def foolbox_cell(cell: Cell) -> Cell:
  """Returns the cell of the second reading of an attack."""
  return replace(cell, attack=f"transfer:{cell.model}:{cell.attack}")


def read_as(reading: str, results: Iterable[Result]) -> list[Result]:
  """Returns the cells of networks as one reading has them, under the names of the attacks.

  Args:
    reading: one of `READINGS`.
    results: of both readings.

  Returns:
    Results without transfer cells. For `foolbox` those take the place of what they are about; their accuracy is the
    share of examples whose last point is called by its label.
  """
  plain, last = [], {}
  for result in results:
    source, _, attack = result.cell.attack.removeprefix("transfer:").partition(":")
    if not result.cell.attack.startswith("transfer:"):
      plain.append(result)
    elif source == result.cell.model:
      last[replace(result.cell, attack=attack)] = result
  if reading == FIRST_SUCCESS:
    return plain
  return [_last_point(result.cell, last[result.cell]) if result.cell in last else result for result in plain]


def _last_point(cell: Cell, result: Result) -> Result:
  right = result.examples["prediction"] == result.examples["label"]
  return replace(result, cell=cell, summary={**result.summary, "robust_accuracy": float(right.mean())})
