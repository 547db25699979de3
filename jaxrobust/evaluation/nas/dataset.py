"""Writes a run over cells in the layout of the NAS robustness data set, once for each reading.

  OUT/dataset/first-success/meta.json, …/cifar10/pgd@Linf_accuracy.json, …_confidence.json, …_cm.json
  OUT/dataset/foolbox/…                the same, FGSM and PGD read as the paper does

Keys are the paper's where the attack is the paper's, and say their steps where it is not (`pgd-4@Linf`). `meta.json`
has all ids, the budgets of each key and, beyond the published one, `protocol`: reading, attacks by key, number of
examples, network and training.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from jaxrobust.core.files import atomic_write
from jaxrobust.evaluation.nas.readings import READINGS, read_as
from jaxrobust.results import Cell, Result
from jaxrobust.results.exchange.nas import ATTACKS, DATA, NasProtocol, write_nas
from jaxrobust.results.rows import budget_value

DATASET_FOLDER = "dataset"


def folder_name(data: str) -> str:
  """Names the folder of a data set.

  >>> folder_name("cifar10"), folder_name("npz:/data/cifar10_test.npz"), folder_name("cifar10@1000")
  ('cifar10', 'cifar10_test', 'cifar10')
  """
  plain = data.partition("@")[0]
  if plain.startswith(("npz:", "folder:")):
    plain = Path(plain.partition(":")[2]).name.removesuffix(".npz")
  return next((theirs for theirs, (ours, _) in DATA.items() if ours == plain), plain.replace(":", "-"))


def key_of(attack: str) -> str:
  """Names the key of an attack: the paper's for the paper's attacks, one that says its steps for others.

  >>> key_of("linf-fgsm"), key_of("linf-pgd-4,step_size=0.3")
  ('fgsm@Linf', 'pgd-4@Linf')
  """
  published = next((key for key, ours in ATTACKS.items() if ours == attack), None)
  return published or f"{attack.removeprefix('linf-').partition(',')[0]}@Linf"


def protocol_of(cells: Iterable[Cell], about: Mapping[str, Any]) -> NasProtocol:
  """Returns what a data set of these cells holds.

  Args:
    cells: of one architecture, of the first reading.
    about: of the run, for `meta.json`.
  """
  attacks: dict[str, str] = {}
  epsilons: dict[str, list[float]] = {}
  folders: dict[tuple[str, int], str] = {}
  for cell in cells:
    folders[cell.data, cell.n] = folder_name(cell.data)
    if cell.eps is not None:
      key = key_of(cell.attack)
      attacks[key] = cell.attack
      epsilons.setdefault(key, []).append(round(255 * (budget_value(cell.eps) or 0.0), 6))
  more = {"attacks": attacks, "n": max(n for _, n in folders), **about}
  return NasProtocol(folders, attacks, {key: sorted(set(found)) for key, found in epsilons.items()}, {"protocol": more})


def write_dataset(out: str | Path, results: Sequence[Result], about: Mapping[str, Any]) -> list[Path]:
  """Writes the data set of a run, under each reading that its cells allow.

  Args:
    out: the folder of the run.
    results: of all architectures and readings.
    about: of the run: network and training.

  Returns:
    The folder of each reading.
  """
  folders = []
  transferred = any(result.cell.attack.startswith("transfer:") for result in results)
  for reading in READINGS if transferred else READINGS[:1]:
    read = read_as(reading, results)
    protocol = protocol_of((one.cell for one in read if one.cell.model == read[0].cell.model), about)
    protocol.about["protocol"]["reading"] = reading
    folder = Path(out) / DATASET_FOLDER / reading
    for relative, text in write_nas(read, protocol=protocol):
      atomic_write(folder / relative, text)
    folders.append(folder)
  return folders
