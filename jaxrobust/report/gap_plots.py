"""What is proved of a model and what attacks leave of it, in one plot: the gap between is neither proved nor broken.

A certificate at a radius holds at every smaller one and says nothing beyond, so its curve is drawn in steps; curves of
attacks are lines, as elsewhere. Where there are several, the best certificate and the strongest attack count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from jaxrobust.report.cell_rows import CellRow
from jaxrobust.report.documents import budget_curves, held_at

Points = Sequence[tuple[float, float]]


class ProvedGap(NamedTuple):
  """Accuracies in per cent by budget: at least `proved`, at most `attacked`."""

  budgets: np.ndarray
  proved: np.ndarray
  attacked: np.ndarray


def gap_between(proved: Sequence[Points], attacked: Sequence[Points]) -> ProvedGap:
  """Returns the bounds up to the largest budget of all attacks, budgets twice where the lower one steps.

  >>> found = gap_between([[(0, 90), (0.1, 60), (0.11, 0)]], [[(0, 90), (0.2, 50)]])
  >>> found.budgets.tolist()
  [0.0, 0.0, 0.1, 0.1, 0.11, 0.11, 0.2]
  >>> found.proved.tolist(), found.attacked.tolist()
  ([90.0, 60.0, 60.0, 0.0, 0.0, 0.0, 0.0], [90.0, 90.0, 70.0, 70.0, 68.0, 68.0, 50.0])
  """
  last = min(points[-1][0] for points in attacked)
  xs = np.unique([x for points in (*proved, *attacked) for x, _ in points if x <= last])
  above = np.min([np.interp(xs, *np.transpose(points)) for points in attacked], axis=0)
  held = [held_at(budgets, shares, xs) for budgets, shares in map(np.transpose, proved)]
  below = np.minimum(np.max(held, axis=0), above)
  return ProvedGap(np.repeat(xs, 2)[:-1], np.append(below[0], np.repeat(below[1:], 2)), np.repeat(above, 2)[:-1])


def find_gaps(models: Mapping[str, Sequence[CellRow]]) -> dict[tuple[str, str, str], dict[str, ProvedGap]]:
  """Returns by data set, threat and unit the gap of each model that has both a certificate and a curve of an attack."""
  found: dict[tuple[str, str, str], dict[str, ProvedGap]] = {}
  for model, rows in models.items():
    kinds: dict[tuple[str, str, str], tuple[list, list]] = {}
    for curve in budget_curves(rows):
      both = kinds.setdefault((curve["data"], curve["threat"], curve["unit"]), ([], []))
      both["proved" not in curve].append(curve["points"])
    for key, (proved, attacked) in kinds.items():
      if proved and attacked:
        found.setdefault(key, {})[model] = gap_between(proved, attacked)
  return found
