"""The same models in two tables, whose authors spelled them differently.

Leaderboards repeat the title of a paper for each of its networks and hang footnotes on it, so a title alone names no
network; together with the clean accuracy, which everybody measures alike, it nearly always does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from jaxrobust.core.errors import InputError

# Points of clean accuracy that two evaluations of one network may differ by: tried in this order.
TOLERANCES = (0.03, 0.06)


class Gap(NamedTuple):
  """Says how one measurement differs from another over models.

  Attributes:
    n: models with both.
    mean: of the differences.
    sd: their standard deviation, with n in the denominator.
    largest: the one furthest from 0.
  """

  n: int
  mean: float
  sd: float
  largest: float


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

  >>> gap([50.2, 60.0, np.nan], [50.0, 60.0, 40.0])._replace(mean=None, sd=None, largest=None).n
  2
  """
  difference = np.asarray(first, np.float64) - np.asarray(second, np.float64)
  difference = difference[np.isfinite(difference)]
  if not difference.size:
    raise InputError("no model has both numbers: there is no gap to describe")
  largest = difference[np.abs(difference).argmax()]
  return Gap(int(difference.size), float(difference.mean()), float(difference.std()), float(largest))
