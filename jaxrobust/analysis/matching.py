"""The same models in two tables, whose authors spelled them differently.

Leaderboards repeat the title of a paper for each of its networks and hang footnotes on it, so a title alone names no
network; together with the clean accuracy, which everybody measures alike, it nearly always does.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from jaxrobust.analysis.bootstrap import Interval, bootstrap_interval
from jaxrobust.analysis.zoo import ACCURACY, ID, NAMES, ROBUSTNESS, Zoo, make_zoo, read_csv
from jaxrobust.core.errors import InputError
from jaxrobust.results.exchange import robustbench

# Points of clean accuracy that two evaluations of one network may differ by: tried in this order.
TOLERANCES = (0.03, 0.06)


class Gap(NamedTuple):
  """Says how one measurement differs from another over models.

  Attributes:
    n: models with both.
    mean: of the differences.
    sd: their standard deviation, with n in the denominator.
    largest: the one furthest from 0.
    interval: of the mean, 95 %, by resampling models; NaN with fewer than 8.
  """

  n: int
  mean: float
  sd: float
  largest: float
  interval: Interval


def match_models(
  titles: Sequence[str],
  accuracies: np.ndarray,
  other_titles: Sequence[str],
  other_accuracies: np.ndarray,
  tolerances: Sequence[float] = TOLERANCES,
) -> list[int | None]:
  """Finds each model of one table in another, by title and clean accuracy.

  A model is matched with the one whose title its own begins with and whose clean accuracy is nearest, if that is within
  the tolerance; no model is matched twice.

  Args:
    titles: of the models sought, perhaps with a footnote behind.
    accuracies: theirs, in percent.
    other_titles: of the models to choose from.
    other_accuracies: theirs.
    tolerances: differences of accuracy to allow; what a smaller one has matched is kept.

  Returns:
    For each model the index of its match, or None.

  >>> match_models(["AT It uses 1M images.", "AT"], [90.0, 85.02], ["at", "AT"], [85.0, 90.01])
  [1, 0]
  """
  if len(titles) != len(accuracies) or len(other_titles) != len(other_accuracies):
    raise InputError("matching needs as many accuracies as titles")
  plain = lambda text: " ".join(text.casefold().split())
  mine, theirs = [plain(title) for title in titles], [plain(title) for title in other_titles]
  found: list[int | None] = [None] * len(mine)
  taken: set[int] = set()
  for tolerance in tolerances:
    candidates = sorted(
      (abs(float(accuracies[row]) - float(other_accuracies[other])), row, other)
      for row, title in enumerate(mine)
      for other, start in enumerate(theirs)
      if start and title.startswith(start)
    )
    for distance, row, other in candidates:
      # Printed digits are decimal: what is exactly on the edge is inside.
      if found[row] is None and other not in taken and distance <= tolerance + 1e-9:
        found[row] = other
        taken.add(other)
  return found


def gap(first: np.ndarray, second: np.ndarray) -> Gap:
  """Describes first - second over the models that have both, such as a fast attack against a thorough one.

  Args:
    first: one number per model.
    second: another one.

  Returns:
    Mean, spread and largest difference.

  >>> found = gap([50.2, 60.0, np.nan], [50.0, 60.0, 40.0])
  >>> found.n, round(found.mean, 6), round(found.sd, 6), round(found.largest, 6)
  (2, 0.1, 0.1, 0.2)
  """
  difference = np.asarray(first, np.float64) - np.asarray(second, np.float64)
  difference = difference[np.isfinite(difference)]
  if not difference.size:
    raise InputError("no model has both numbers: there is no gap to describe")
  largest = difference[np.abs(difference).argmax()]
  interval = bootstrap_interval(lambda rows: float(difference[rows].mean()), difference.size)
  return Gap(int(difference.size), float(difference.mean()), float(difference.std()), float(largest), interval)


def read_beside(path: str | os.PathLike) -> Zoo:
  """Reads the table that another one is compared with: a CSV file, or a folder of RobustBench's `model_info`.

  Of RobustBench's models the titles, clean accuracies and AutoAttack's accuracies are read, as `method`, `ID accuracy`
  and `ID robustness`; those without AutoAttack are left out.
  """
  if not Path(path).is_dir():
    return read_csv(path)
  records = [record for record in robustbench.read(Path(path)) if str(record.get("attack", "")).endswith("autoattack")]
  if not records:
    raise InputError(f"{path} holds no model_info of RobustBench with AutoAttack's accuracy")
  table: dict[str, list[Any]] = {
    "method": [str(record["about"].get("name", "")) for record in records],
    f"{ID} {ACCURACY}": [100 * float(record["accuracy"]) for record in records],
    f"{ID} {ROBUSTNESS}": [100 * float(record["robust_accuracy"]) for record in records],
  }
  return make_zoo(table, f"{os.fspath(path)}: RobustBench, AutoAttack")


def same_models(zoo: Zoo, other: Zoo) -> list[tuple[int, int]]:
  """Finds the models that two zoos share, by title and ID accuracy; returns their places in both."""
  titles = [next((each.labels[name] for name in NAMES if name in each.labels), each.models) for each in (zoo, other)]
  clean = [each.column(f"{ID} {ACCURACY}") for each in (zoo, other)]
  found = match_models(titles[0], clean[0], titles[1], clean[1])
  pairs = [(row, match) for row, match in enumerate(found) if match is not None]
  if not pairs:
    raise InputError(f"none of {len(zoo)} models is among the {len(other)} of {other.source}, by title and ID accuracy")
  return pairs
