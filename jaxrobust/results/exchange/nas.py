"""The NAS robustness data set: `DATASET/KEY_MEASUREMENT.json` and `meta.json` (arXiv:2306.06712, appendix A.4).

  cifar10/pgd@Linf_accuracy.json   {"cifar10": {"pgd@Linf": {"accuracy": {"21": [0.81, 0.58, …]}}}}
  meta.json   {"ids": {"21": {"nb201-string": "|…|", "isomorph": "21"}}, "epsilons": {"pgd@Linf": [0.1, 0.5, …]}}

Lists run over the budgets of `meta.json`, in 255ths, or over severities 1 to 5. Measurements are `accuracy`,
`confidence` and `cm` (confusion matrices); the last two come from cells that hold such matrices. The paper's keys have
no norm, its files (github.com/steffen-jung/robustness-dataset) have; both are read, the files' are written.
Architecture 21 is the model `nb201-21`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from jaxrobust.core.errors import CorruptFileError, InputError
from jaxrobust.results.cell import Result
from jaxrobust.results.exchange.common import EXAMPLES, Record, as_object, as_text, describe, fraction, read_json
from jaxrobust.results.rows import budget_value, parse_corruption

SOURCE = "NAS robustness data set"
PREFIX = "nb201-"
# Their keys, and ids of the attacks their paper describes (section 3.2).
ATTACKS = {
  "aa_apgd-ce": "linf-apgd-ce-100",
  "aa_square": "linf-square-5000",
  "fgsm": "linf-fgsm",
  "pgd": "linf-pgd-40",
}
SEVERITIES = range(1, 6)
MEASUREMENTS = {"accuracy": "robust_accuracy", "confidence": "confidence", "cm": "confusion"}


def read(path: Path) -> Iterator[Record]:
  """Records of the accuracies in a folder that has a `meta.json`."""
  meta = read_json(path / "meta.json")
  ids, epsilons = (_object(meta, name, path / "meta.json") for name in ("ids", "epsilons"))
  for file in sorted(path.glob("*/*_accuracy.json")):
    data, key = file.parent.name, file.name.removesuffix("_accuracy.json")
    values: Any = read_json(file)
    for name in (data, key, "accuracy"):
      values = _object(values, name, file)
    for uid, found in values.items():
      arch = as_object(ids.get(uid, {}), file).get("nb201-string")
      base: Record = {
        "schema": 0,
        "model": f"{PREFIX}{uid}",
        "data": data.lower(),
        "n": EXAMPLES.get(data, 10_000),
        "source": SOURCE,
        "about": {"arch": arch, "family": "nas-bench-201"},
      }
      yield from _records(base, key, found, epsilons, file)


def _object(value: Any, name: str, file: Path) -> Mapping[str, Any]:
  if not isinstance(value, Mapping) or not isinstance(value.get(name), Mapping):
    raise CorruptFileError(f"{file}: no object {name!r}")
  return value[name]


def _records(base: Record, key: str, found: Any, epsilons: Mapping[str, Any], file: Path) -> Iterator[Record]:
  if key == "clean":
    yield {**base, "accuracy": fraction(found, f"{file}: {base['model']}")}
    return
  attack = ATTACKS.get(key.removesuffix("@Linf"))
  places = epsilons.get(key, epsilons.get(key.removesuffix("@Linf"), ())) if attack else SEVERITIES
  known = isinstance(places, list | range) and all(type(place) in (int, float) for place in places)
  if not known:
    raise CorruptFileError(f"{file}: meta.json has no budgets for {key}")
  if not isinstance(found, list) or len(found) != len(places):
    raise CorruptFileError(f"{file}: {base['model']} has no list of {len(places)} accuracies")
  for place, value in zip(places, found, strict=True):
    if value is None:
      continue
    accuracy = fraction(value, f"{file}: {base['model']}")
    if attack:
      yield {**base, "attack": attack, "eps": f"{place:g}/255", "robust_accuracy": accuracy}
    else:
      yield {**base, "condition": f"{key}-{place}-t32", "accuracy": accuracy}


def write(results: Sequence[Result]) -> Iterator[tuple[str, str]]:
  """Path and text of every file of the data set; a place without a cell holds null."""
  found: dict[tuple[str, str], dict[str, dict[float, Result]]] = {}
  ids: dict[str, dict[str, str]] = {}
  for result in results:
    uid = re.fullmatch(rf"{PREFIX}(\d+)", result.cell.model)
    place = _place(result)
    if uid is None or place is None:
      continue
    key, position = place
    found.setdefault((_their_name(result.cell.data), key), {}).setdefault(uid[1], {})[position] = result
    ids[uid[1]] = {"nb201-string": str(describe(result).get("arch") or ""), "isomorph": uid[1]}
  if not ids:
    raise InputError(f"no results of NAS-Bench-201 cells here (models called {PREFIX}NUMBER)")
  epsilons: dict[str, list[float]] = {}
  for (_, key), models in found.items():
    if "@" in key:
      epsilons[key] = sorted({*epsilons.get(key, ()), *(place for values in models.values() for place in values)})
  for (data, key), models in sorted(found.items()):
    places: list[float] = [0] if key == "clean" else epsilons.get(key, list(SEVERITIES))
    for measurement, entry in MEASUREMENTS.items():
      rows = {uid: [_entry(values.get(place), entry) for place in places] for uid, values in sorted(models.items())}
      if any(value is not None for row in rows.values() for value in row):
        shown = {uid: row[0] for uid, row in rows.items()} if key == "clean" else rows
        yield f"{data}/{key}_{measurement}.json", as_text({data: {key: {measurement: shown}}})
  yield "meta.json", as_text({"ids": dict(sorted(ids.items())), "epsilons": epsilons})


def _entry(result: Result | None, name: str) -> Any:
  return None if result is None else result.summary.get(name)


def _their_name(data: str) -> str:
  return "ImageNet16-120" if data == "imagenet16-120" else data


def _place(result: Result) -> tuple[str, float] | None:
  """The key of a cell and its place in the list; None for what the data set does not hold."""
  cell, corruption = result.cell, parse_corruption(result.cell.condition)
  if cell.attack == "none":
    if corruption is not None:
      return corruption[0], corruption[1]
    return ("clean", 0) if cell.condition == "clean" else None
  names = {re.sub(r"-\d+$", "", ours): f"{theirs}@Linf" for theirs, ours in ATTACKS.items()}
  # Options behind a comma are the protocol's step sizes.
  key = names.get(re.sub(r"-\d+$", "", cell.attack.partition(",")[0]))
  budget = budget_value(cell.eps)
  if key is None or budget is None or cell.condition != "clean":
    return None
  return key, round(255 * budget, 6)
