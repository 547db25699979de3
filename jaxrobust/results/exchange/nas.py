"""The NAS robustness data set: `DATASET/KEY_MEASUREMENT.json` and `meta.json` (arXiv:2306.06712, appendix A.4).

  cifar10/pgd@Linf_accuracy.json   {"cifar10": {"pgd@Linf": {"accuracy": {"21": [0.81, 0.58, …]}}}}
  meta.json   {"ids": {"21": {"nb201-string": "|…|", "isomorph": "21"}}, "epsilons": {"pgd@Linf": [0.1, 0.5, …]}}

Lists run over the budgets of `meta.json`, in 255ths, or over severities 1 to 5. Measurements are `accuracy`,
`confidence` and `cm` (confusion matrices). The paper's keys have no norm, its files
(github.com/steffen-jung/robustness-dataset) have; both are read, the files' are written. Architecture 21 is the model
`nb201-21`. A key becomes one table of all its models (`results.tables`), and a table one key again.

Cells of one's own are written only where they are what a protocol says. `PUBLISHED` is the paper's: its attacks with
its steps and budgets, on the whole test set; others are counted in an error where nothing else is left. A data set of
one's own (`jaxrobust nas run`) has its own keys for attacks with other steps; its `meta.json` says what they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jaxrobust.core.errors import CorruptFileError, InputError
from jaxrobust.core.nas_cells import NUM_CELLS, all_cells, cell_string, isomorphs
from jaxrobust.results.cell import Result
from jaxrobust.results.exchange.common import as_object, compact_text, fraction, read_json
from jaxrobust.results.rows import budget_value, parse_corruption
from jaxrobust.results.tables import ACCURACY, ResultTable

SOURCE = "NAS robustness data set"
PREFIX = "nb201-"
# Their keys, and ids of the attacks their paper describes (section 3.2), as the suite `nas-cell` makes them.
ATTACKS = {
  "aa_apgd-ce@Linf": "linf-apgd-ce-100",
  "aa_square@Linf": "linf-square-5000",
  "fgsm@Linf": "linf-fgsm",
  "pgd@Linf": "linf-pgd-40,step_size=0.0333333",
}
# Budgets in 255ths, as in the published meta.json; table 2 of the paper has one more (255) for the last three.
FEW = [0.1, 0.5, 1.0, 2.0, 3.0, 4.0, 8.0]
EPSILONS = {
  "aa_apgd-ce@Linf": FEW,
  "aa_square@Linf": FEW,
  "fgsm@Linf": [0.1, 0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 255.0],
  "pgd@Linf": FEW,
}
CLEAN = "clean"
CORRUPTIONS = (
  "brightness", "contrast", "defocus_blur", "elastic_transform", "fog", "frost", "gaussian_noise", "glass_blur",
  "impulse_noise", "jpeg_compression", "motion_blur", "pixelate", "shot_noise", "snow", "zoom_blur",
)  # fmt: skip
SEVERITIES = range(1, 6)
MEASUREMENTS = {"accuracy": ACCURACY, "confidence": "confidence", "cm": "confusion"}
# Their folders, our data sets, and how many test images these have.
DATA = {"cifar10": ("cifar10", 10_000), "cifar100": ("cifar100", 10_000), "ImageNet16-120": ("imagenet16-120", 6_000)}
_STORED = re.compile(r"(cifar100?)-c:(.+)")


@dataclass(frozen=True)
class NasProtocol:
  """Says which cells a data set in this layout holds, and where.

  Attributes:
    folders: (data set, number of examples) of ours to the name of a folder.
    attacks: key to the id of the attack that it stands for.
    epsilons: key to budgets in 255ths.
    about: more entries of `meta.json`, by name.
  """

  folders: Mapping[tuple[str, int], str]
  attacks: Mapping[str, str]
  epsilons: Mapping[str, Sequence[float]]
  about: Mapping[str, Any] = field(default_factory=dict)

  def key(self, attack: str) -> str | None:
    """Returns the key of an attack's id; None where there is none."""
    return next((key for key, ours in self.attacks.items() if ours == attack), None)


PUBLISHED = NasProtocol({place: theirs for theirs, place in DATA.items()}, ATTACKS, EPSILONS)


def read_nas(path: Path) -> Iterator[ResultTable]:
  """Reads every key of a folder that has a `meta.json` as a table, with all its measurements."""
  meta = read_json(path / "meta.json")
  ids, epsilons = (_object(meta, name, path / "meta.json") for name in ("ids", "epsilons"))
  keys: dict[tuple[str, str], list[Path]] = {}
  for file in sorted(path.glob("*/*.json")):
    key, _, measurement = file.name.removesuffix(".json").rpartition("_")
    if key and measurement in MEASUREMENTS:
      keys.setdefault((file.parent.name, key), []).append(file)
  for (folder, key), files in keys.items():
    yield _read_key(folder, key, files, ids, epsilons)


def _read_key(
  folder: str, key: str, files: Sequence[Path], ids: Mapping[str, Any], epsilons: Mapping[str, Any]
) -> ResultTable:
  if folder not in DATA:
    raise CorruptFileError(f"{files[0]}: unknown data set {folder!r}; known are {', '.join(DATA)}")
  cells = _columns(key, epsilons, files[0])
  found: dict[str, Mapping[str, Any]] = {}
  for file in files:
    measurement = file.name.removesuffix(".json").rpartition("_")[2]
    values: Any = read_json(file)
    for name in (folder, key, measurement):
      values = _object(values, name, file)
    found[measurement] = values
  models = sorted({uid for values in found.values() for uid in values}, key=_order)
  measures: dict[str, list[list[Any]]] = {}
  for file in files:
    measurement = file.name.removesuffix(".json").rpartition("_")[2]
    values = found[measurement]
    rows = [_row(values.get(uid), len(cells), key, f"{file}: {PREFIX}{uid}") for uid in models]
    if measurement == "accuracy":
      for uid, row in zip(models, rows, strict=True):
        for value in row:
          if value is not None and (type(value) not in (int, float) or not 0 <= value <= 1):
            fraction(value if type(value) in (int, float) else None, f"{file}: {PREFIX}{uid}")
    measures[MEASUREMENTS[measurement]] = rows
  strings = [as_object(ids.get(uid, {}), files[0]).get("nb201-string") for uid in models]
  arch = [text if isinstance(text, str) else None for text in strings]
  data, n = DATA[folder]
  names = tuple(f"{PREFIX}{uid}" for uid in models)
  about = {"family": "nas-bench-201"}
  return ResultTable(f"nas/{data}/{key}", data, n, SOURCE, cells, names, measures, about, {"arch": arch})


def _order(uid: str) -> tuple[bool, int, str]:
  return (False, int(uid), "") if uid.isascii() and uid.isdigit() and len(uid) < 10 else (True, 0, uid)


def _columns(key: str, epsilons: Mapping[str, Any], file: Path) -> tuple[tuple[str, str, str | None], ...]:
  """Returns what each entry of a key's lists is about."""
  if key == CLEAN:
    return ((CLEAN, "none", None),)
  attack = ATTACKS.get(key if key.endswith("@Linf") else f"{key}@Linf")
  if attack is None:
    return tuple((f"{key}-{severity}-t32", "none", None) for severity in SEVERITIES)
  places = epsilons.get(key, epsilons.get(key.removesuffix("@Linf")))
  if not isinstance(places, list) or not places or not all(type(place) in (int, float) for place in places):
    raise CorruptFileError(f"{file}: meta.json has no budgets for {key}")
  return tuple((CLEAN, attack, f"{place:g}/255") for place in places)


def _row(found: Any, length: int, key: str, where: str) -> list[Any]:
  if found is None:
    return [None] * length
  if key == CLEAN:
    return [found]
  if not isinstance(found, list) or len(found) != length:
    raise CorruptFileError(f"{where} has no list of {length} entries")
  return found


def _object(value: Any, name: str, file: Path) -> Mapping[str, Any]:
  if not isinstance(value, Mapping) or not isinstance(value.get(name), Mapping):
    raise CorruptFileError(f"{file}: no object {name!r}")
  return value[name]


NasRows = dict[tuple[str, str], dict[str, dict[str, list[Any]]]]
"""(folder, key) to id to measure (by our names) to its list."""


def write_nas(
  results: Iterable[Result], tables: Iterable[ResultTable] = (), protocol: NasProtocol = PUBLISHED
) -> Iterator[tuple[str, str]]:
  """Returns path and text of every file of the data set; a place without a number holds null.

  Args:
    results: cells of any models; those that are no cells of the benchmark under its protocol are passed over.
    tables: of many models.
    protocol: what the data set holds.
  """
  found: NasRows = {}
  epsilons = {key: list(places) for key, places in protocol.epsilons.items()}
  for table in tables:
    _add_table(found, epsilons, table)
  others = 0
  for result in results:
    uid = re.fullmatch(rf"{PREFIX}(\d+)", result.cell.model)
    if uid is not None and int(uid[1]) < NUM_CELLS:
      place = _place(result, protocol, epsilons)
      others += place is None
      if place is not None:
        folder, key, at = place
        values = found.setdefault((folder, key), {}).setdefault(uid[1], {})
        for name in MEASUREMENTS.values():
          values.setdefault(name, [None] * _size(key, epsilons))[at] = result.summary.get(name)
  if not found:
    why = f"{others} cells are not under the data set's protocol" if others else f"no models called {PREFIX}NUMBER"
    raise InputError(f"no results of NAS-Bench-201 that the data set could hold: {why}")
  for (folder, key), models in sorted(found.items()):
    for measurement, name in MEASUREMENTS.items():
      rows = {uid: models[uid].get(name, [None]) for uid in sorted(models, key=int)}
      shown = {uid: row[0] if key == CLEAN else row for uid, row in rows.items() if set(map(type, row)) != {type(None)}}
      if shown:
        yield f"{folder}/{key}_{measurement}.json", compact_text({folder: {key: {measurement: shown}}})
  yield "meta.json", compact_text({"ids": _ids(), "epsilons": epsilons, **protocol.about})


def _size(key: str, epsilons: Mapping[str, Sequence[float]]) -> int:
  return 1 if key == CLEAN else len(epsilons.get(key, SEVERITIES))


def _add_table(found: NasRows, epsilons: dict[str, list[float]], table: ResultTable) -> None:
  kind, _, rest = table.name.partition("/")
  data, _, key = rest.partition("/")
  folder = next((theirs for theirs, (ours, _) in DATA.items() if ours == data), None)
  if kind != "nas" or folder is None:
    return
  key = f"{key}@Linf" if f"{key}@Linf" in ATTACKS else key
  if key in ATTACKS:
    epsilons[key] = [round(255 * (budget_value(eps) or 0), 6) for _, _, eps in table.cells]
  models = found.setdefault((folder, key), {})
  for at, model in enumerate(table.models):
    uid = model.removeprefix(PREFIX)
    if uid.isascii() and uid.isdigit():
      models[uid] = {name: list(rows[at]) for name, rows in table.measures.items()}


def _ids() -> dict[str, dict[str, str]]:
  """Describes all cells of the space, as the published meta.json does."""
  strings, same = map(cell_string, all_cells().tolist()), isomorphs().tolist()
  return {str(uid): {"nb201-string": next(strings), "isomorph": str(same[uid])} for uid in range(NUM_CELLS)}


def _place(
  result: Result, protocol: NasProtocol, epsilons: Mapping[str, Sequence[float]]
) -> tuple[str, str, int] | None:
  """Returns folder, key and place in the list of a cell; None for what the data set does not hold."""
  cell = result.cell
  stored = _STORED.fullmatch(cell.data)
  data, condition = (stored[1], stored[2]) if stored else (cell.data, cell.condition)
  folder = protocol.folders.get((data, cell.n))
  if folder is None:
    return None
  if cell.attack == "none":
    corruption = parse_corruption(condition)
    if corruption is None:
      return (folder, CLEAN, 0) if condition == CLEAN else None
    name, severity = corruption
    made = stored or condition == f"{name}-{severity}-t32"
    return (folder, name, severity - 1) if name in CORRUPTIONS and severity in SEVERITIES and made else None
  key = protocol.key(cell.attack)
  budget = round(255 * (budget_value(cell.eps) or -1), 6)
  if key is None or condition != CLEAN or stored or budget not in epsilons[key]:
    return None
  return folder, key, epsilons[key].index(budget)
