"""What the formats share: JSON files that may be damaged, norms and budgets in other people's spelling."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from jaxrobust.core.errors import CorruptFileError, InputError, StorageError
from jaxrobust.core.reading import LARGEST_TEXT, loads, read_if_there, reading
from jaxrobust.results.cell import Result

Record = dict[str, Any]

# How many test images the benchmarks use.
EXAMPLES = {"cifar10": 10_000, "cifar100": 10_000, "imagenet": 5_000, "ImageNet16-120": 6_000}
NORMS = {"Linf": "linf", "L2": "l2", "L1": "l1"}
OTHERS = {ours: theirs for theirs, ours in NORMS.items()}
# Family as our networks have it -> how others write architectures of it, the narrower first.
_FAMILIES = {
  "wide-resnet": r"wide ?resnet|wrn",
  "resnet": r"res(net|next|nest)",
  "convnext": "convnext",
  "swin": "swin",
  "xcit": "xcit",
  "vit": "vit|deit",
  "densenet": "densenet",
  "cnn": "cnn|alexnet",
}


def read_json(path: Path) -> Any:
  """Reads the value of a JSON file; an error of one line that names it where there is none."""
  raw = read_if_there(path, LARGEST_TEXT)
  if raw is None:
    raise StorageError(f"cannot read {path}: no such file")
  with reading(f"{path}: truncated or not JSON"):
    return loads(raw)


def read_objects(path: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
  """Yields every JSON object of a file, or of a folder and its folders."""
  if not path.exists():
    raise StorageError(f"cannot read {path}: no such file or folder")
  if path.suffix == ".csv":
    raise InputError(f"{path}: a table, where JSON is expected; a leaderboard's format is oodrobustbench-leaderboard")
  for file in sorted(path.rglob("*.json")) if path.is_dir() else [path]:
    value = read_json(file)
    if not isinstance(value, dict):
      raise CorruptFileError(f"{file}: not a JSON object")
    yield file, value


def as_object(value: Any, file: Path) -> Mapping[str, Any]:
  """Returns the value itself; an error of one line where it is no object."""
  if not isinstance(value, Mapping):
    raise CorruptFileError(f"{file}: expected an object, not {str(value)[:40]!r}")
  return value


def describe(result: Result) -> Mapping[str, Any]:
  """Returns what a result says about its model."""
  about = result.provenance.get("model")
  return about if isinstance(about, Mapping) else {}


def architecture(text: Any) -> dict[str, str]:
  """Returns what an architecture in other people's spelling says: it, and its family where that can be read.

  >>> [architecture(text).get("family") for text in ("RaWideResNet-70-16", "PreActResNet-18", "ViT-B + ConvStem")]
  ['wide-resnet', 'resnet', 'vit']
  >>> architecture("ResNet-152 + WideResNet-70-16")["family"], architecture("Perceiver"), architecture(None)
  ('ensembles', {'arch': 'Perceiver'}, {})
  """
  if not text:
    return {}
  parts = [part.lower() for part in str(text).split("+")]
  named = [next((f for f, pattern in _FAMILIES.items() if re.search(pattern, part)), None) for part in parts]
  found = {family for family in named if family is not None}
  return {"arch": str(text)} | ({"family": found.pop() if len(found) == 1 else "ensembles"} if found else {})


def data_of(file: Path, info: dict[str, Any]) -> str:
  """Returns the data set of a `DATASET/THREAT/MODEL.json`: its folder says so; some files name another one inside."""
  folder = file.parent.parent.name
  return folder if folder in EXAMPLES else str(info.get("dataset", "cifar10"))


def as_text(value: Any) -> str:
  """Writes JSON as those repositories do."""
  return json.dumps(value, indent=2, allow_nan=False) + "\n"


def compact_text(value: Any) -> str:
  """Writes JSON in one line, for files that hold a million numbers."""
  return json.dumps(value, separators=(",", ":"), allow_nan=False)


def plain_name(name: str) -> bool:
  """Tells whether a data set has a name that others could know: no path, no address.

  >>> plain_name("cifar10.1-v6"), plain_name("npz:/tmp/mine.npz")
  (True, False)
  """
  return re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._@-]*", name) is not None


def exact_budget(eps: float, digits: int) -> str:
  """Returns the budget a rounded decimal stands for: a multiple of 1/510 where one rounds to it, the decimal otherwise.

  >>> exact_budget(0.031373, 6), exact_budget(0.5, 6)
  ('8/255', '0.5')
  """
  doubled = round(eps * 510)
  if eps and 0 < doubled < 128 and round(doubled / 510, digits) == round(eps, digits):
    return f"{doubled / 2:g}/255"
  return repr(eps)


def fraction(value: Any, where: str, scale: float = 1.0) -> float:
  """Returns a number, or text of one, as a fraction."""
  try:
    number = float(value) / scale
  except (TypeError, ValueError):
    number = -1.0
  if not 0 <= number <= 1:
    raise CorruptFileError(f"{where} is {value!r}; expected an accuracy")
  return number
