"""Where the robustness curves of two models cross: which is the more robust depends on the budget or the strength.

ARES (arXiv:1912.11852, section 5.3, first finding): a comparison at one budget says little. Curves are those in the
summaries of a suite; of two models they are compared where suite, data, seed and attack are the same.
"""

from __future__ import annotations

import itertools
import os
from typing import Any, NamedTuple

from jaxrobust.core.errors import InputError, StorageError
from jaxrobust.core.reading import loads
from jaxrobust.evaluation.metrics.curves import Curve, crossings, is_success_rate
from jaxrobust.results.folder import open_folder
from jaxrobust.results.metrics import SUMMARY


class Crossing(NamedTuple):
  """Says that `below` is the more robust of two models up to `at`, and `above` beyond it.

  Attributes:
    suite, data, curve: what was compared.
    below, above: the models.
    at: the budget, number of steps or number of queries at which the curves cross.
    unit: what `at` counts.
    accuracy: of both there.
  """

  suite: str
  data: str
  curve: str
  below: str
  above: str
  at: float
  unit: str
  accuracy: float


def find_crossings(root: str | os.PathLike) -> list[Crossing]:
  """Returns all crossings of accuracy curves between the models of a results folder, by suite and attack."""
  groups: dict[tuple[str, ...], dict[str, Curve]] = {}
  for document in _summaries(root):
    about = (str(document.get("suite")), str(document.get("data")), str(document.get("n")), str(document.get("seed")))
    for name, curve in document.get("curves", {}).items():
      if not is_success_rate(name) and {"x", "y", "unit"} <= set(curve):
        key = (*about, name, str(curve["unit"]))
        groups.setdefault(key, {})[str(document["model"])] = Curve(curve["x"], curve["y"])
  found = []
  for (suite, data, _, _, name, unit), curves in sorted(groups.items()):
    for one, other in itertools.combinations(sorted(curves), 2):
      found += [Crossing(suite, data, name, *_order(one, other, curves, at), at, unit, curves[one].at(at))
                for at in crossings(curves[one], curves[other])]  # fmt: skip
  return found


def _order(one: str, other: str, curves: dict[str, Curve], at: float) -> tuple[str, str]:
  """Returns the model that is higher before a crossing, then the one that is higher behind it."""
  before = max((x for x in {*curves[one].x, *curves[other].x} if x < at), default=at)
  return (one, other) if curves[one].at(before) >= curves[other].at(before) else (other, one)


def _summaries(root: str | os.PathLike) -> list[dict[str, Any]]:
  folder = open_folder(root)
  files = [file.path for file in folder.files() if file.path.endswith(SUMMARY)]
  found = []
  for raw in folder.read(files):
    if isinstance(raw, StorageError):
      continue
    try:
      document = loads(raw)
    except ValueError:
      continue
    if isinstance(document, dict) and "model" in document and isinstance(document.get("curves", {}), dict):
      found.append(document)
  if not found:
    raise InputError(f"{root} holds no summaries of suites; `jaxrobust evaluate --suite=ares …` writes them")
  return found
