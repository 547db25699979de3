"""Accuracies of all cells as columns: the robustness data set of arXiv:2306.06712, or any table in its layout.

The files are `DATA/KEY_accuracy.json` beside `meta.json` (`results.exchange.nas` describes them). Columns are called
`clean`, `pgd@1` (key and budget in 255ths) and `fog@3` (corruption and severity), as fractions.

  table = load_table("published/nas201", "cifar10")
  table["fgsm@1"]                 # (6466,), by table.ids
  table.spread(table["clean"])    # (15625,), isomorphic cells share a value
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from jaxrobust.core.errors import CorruptFileError, InputError, first_line
from jaxrobust.core.nas_cells import NUM_CELLS, all_cells, isomorphs
from jaxrobust.core.reading import read_json, reading
from jaxrobust.core.registry import unknown_name
from jaxrobust.results.exchange.nas import CORRUPTIONS

SUFFIX = "_accuracy.json"
# The order of their columns; other attacks come after them.
ATTACKS = ("fgsm", "pgd", "aa_apgd-ce", "aa_square")

USUAL = "cifar10"
CLASSES = {USUAL: 10, "cifar100": 100, "ImageNet16-120": 120}


@dataclasses.dataclass(frozen=True)
class Table:
  """Numbers of cells.

  Attributes:
    data: what they were evaluated on.
    ids: (N,) cells, sorted.
    columns: name to (N,) numbers; NaN where there is none.
    num_classes: of the data set; None where that is not known.
  """

  data: str
  ids: np.ndarray
  columns: Mapping[str, np.ndarray]
  num_classes: int | None = None

  def __getitem__(self, name: str) -> np.ndarray:
    if name == "adversarial":
      return self.mean(self.attacks())
    if name == "corruption":
      return self.mean(self.corruptions())
    if name not in self.columns:
      raise unknown_name("column", name, ["adversarial", "corruption", *self.columns])
    return self.columns[name]

  @property
  def operations(self) -> np.ndarray:
    """(N, 6) operations of the cells."""
    return all_cells()[self.ids]

  def take(self, chosen: np.ndarray) -> Table:
    """Keeps some cells.

    Args:
      chosen: (N,) flags.
    """
    columns = {name: values[chosen] for name, values in self.columns.items()}
    return dataclasses.replace(self, ids=self.ids[chosen], columns=columns)

  def beside(self, columns: Mapping[str, np.ndarray]) -> Table:
    """Adds columns, such as measures or sizes.

    Args:
      columns: name to (N,) numbers, by `ids`.
    """
    return dataclasses.replace(self, columns={**self.columns, **columns})

  def complete(self) -> Table:
    """Keeps the cells that have a number in every column."""
    return self.take(~np.any([np.isnan(values) for values in self.columns.values()], axis=0))

  def attacks(self) -> list[str]:
    """Returns the columns of attacks, by attack and budget."""
    return [name for name in self.columns if "@" in name and name.partition("@")[0] not in CORRUPTIONS]

  def corruptions(self) -> list[str]:
    """Returns the columns of corruptions, by name and severity."""
    return [name for name in self.columns if name.partition("@")[0] in CORRUPTIONS]

  def mean(self, names: list[str]) -> np.ndarray:
    """Averages columns; `adversarial` and `corruption` are the means of the paper's figures 26 to 30.

    Args:
      names: of at least one column.

    Returns:
      (N,) means, each column counted once.
    """
    if not names:
      raise InputError(f"the table of {self.data} has no such columns")
    return np.mean([self[name] for name in names], axis=0)

  def spread(self, values: np.ndarray) -> np.ndarray:
    """Gives all 15,625 ids the value of their representative, or of another cell of its class; NaN where there is none.

    Args:
      values: (N,) or (N, K), by `ids`.

    Returns:
      (15625,) or (15625, K).
    """
    by_id = np.full((NUM_CELLS, *np.shape(values)[1:]), np.nan)
    own = isomorphs()[self.ids] == self.ids
    for chosen in (~own, own):
      by_id[isomorphs()[self.ids[chosen]]] = values[chosen]
    return by_id[isomorphs()]

  def at(self, uid: int, name: str) -> float:
    """Looks up one number; isomorphic cells share it."""
    return float(self.spread(self[name])[uid])


def data_sets(folder: Path) -> list[str]:
  """Lists the data sets of a folder in the layout of the NAS robustness data set; none where it is no such folder."""
  if not (folder / "meta.json").is_file():
    return []
  return sorted(path.parent.name for path in folder.glob(f"*/clean{SUFFIX}"))


def usual_set(folder: str | Path, name: str = "") -> str:
  """Returns the data set asked for; where none is, CIFAR-10, or the only one in a folder."""
  known = data_sets(Path(folder))
  if name or not known or USUAL in known:
    return name or USUAL
  if len(known) > 1:
    raise InputError(f"{folder} has several data sets; say which: --table={known[0]} (or {', '.join(known[1:])})")
  return known[0]


def load_table(path: str | Path, data: str = USUAL) -> Table:
  """Reads the accuracies of one data set.

  Args:
    path: the folder with `meta.json`.
    data: the folder inside it.

  Returns:
    A table with the columns of every `KEY_accuracy.json`.
  """
  path = Path(path)
  files = {file.name.removesuffix(SUFFIX): file for file in sorted((path / data).glob(f"*{SUFFIX}"))}
  if "clean" not in files:
    others = f"; it has {', '.join(data_sets(path))}" if data_sets(path) else f": clean{SUFFIX} is missing"
    raise InputError(f"no accuracies of {data} in {path}{others}")
  with reading(f"{path}: not a data set of NAS-Bench-201's cells"):
    return _table(path, data, files)


def _table(path: Path, data: str, files: dict[str, Path]) -> Table:
  """Reads a table from files by key."""
  epsilons = {key.removesuffix("@Linf"): value for key, value in _read(path / "meta.json", "epsilons").items()}
  clean = _read(files.pop("clean"), data, "clean", "accuracy")
  ids = np.array(sorted(map(int, clean)))
  outside = ids[(ids < 0) | (ids >= NUM_CELLS)]
  if outside.size:
    raise CorruptFileError(f"{path}: there is no cell {outside[0]}")
  columns = {"clean": np.array([clean[str(uid)] for uid in ids], np.float64)}
  order = {key: place for place, key in enumerate(ATTACKS)}
  for key in sorted(files, key=lambda key: (order.get(key.removesuffix("@Linf"), len(order)), key)):
    name, values = key.removesuffix("@Linf"), _read(files[key], data, key, "accuracy")
    places = epsilons.get(name, range(1, 6))
    rows = [values.get(str(uid), []) for uid in ids]
    if any(len(row) != len(places) for row in rows):
      raise CorruptFileError(f"{files[key]}: not every cell has {len(places)} accuracies")
    for place, column in zip(places, np.array(rows, np.float64).T, strict=True):
      columns[f"{name}@{place:g}"] = column
  return Table(data, ids, columns, _classes(read_json(path / "meta.json"), data))


def _classes(meta: Any, data: str) -> int | None:
  """Returns the number of classes: what a data set of one's own says, or that of the published ones."""
  said = meta.get("protocol", {}).get("network", {}).get("num_classes")
  return said if isinstance(said, int) and said > 0 else CLASSES.get(data)


def _read(file: Path, *names: str) -> Any:
  """Returns the object at a place in a file."""
  try:
    found = read_json(file)
    for name in names:
      found = found[name]
    return found
  except (OSError, ValueError, KeyError, TypeError) as error:
    raise CorruptFileError(f"{file}: no {'/'.join(names)} ({first_line(error)})") from error
