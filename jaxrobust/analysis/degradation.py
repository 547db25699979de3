"""Measures what models lose under a shift, and which lose far more than the others.

The drop is ID minus OOD performance in points, as OODRobustBench's figures 2, 9 and 10 show it (arXiv:2310.12793).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxrobust.core.errors import InputError

# Of the boxes of Tukey's plots, and the points beyond the median that a fall must have to be called a catastrophe.
WHISKER = 1.5
LEAST_EXCESS = 10.0


class Box(NamedTuple):
  """A distribution of drops: Tukey's box plot as numbers.

  Attributes:
    n: models.
    mean: drop.
    low, high: ends of the whiskers, the outermost drops within 1.5 interquartile ranges of the box.
    q1, median, q3: quartiles, linear between models.
    outliers: indices of the models beyond the whiskers.
  """

  n: int
  mean: float
  low: float
  q1: float
  median: float
  q3: float
  high: float
  outliers: tuple[int, ...]

  def plain(self) -> dict[str, Any]:
    """Returns the box as JSON."""
    return {**self._asdict(), "outliers": list(self.outliers)}


def degradation(id_values: np.ndarray, ood_values: np.ndarray) -> np.ndarray:
  """Subtracts performance under a shift from that without: the points a model loses.

  Args:
    id_values: one number per model.
    ood_values: the same models under the shift.

  Returns:
    Drops; negative where a model gains.

  Source: OODRobustBench, section 3.2, arXiv:2310.12793.

  >>> degradation([60.0, 50.0], [38.5, 51.0]).tolist()
  [21.5, -1.0]
  """
  return np.asarray(id_values, np.float64) - np.asarray(ood_values, np.float64)


def box(drops: np.ndarray) -> Box:
  """Describes drops by the numbers of a box plot (Tukey, Exploratory Data Analysis, 1977).

  Args:
    drops: of one shift; NaN is left out.

  Returns:
    The box; outliers are indices into `drops`.

  >>> found = box([8, 9, 9, 10, 46])
  >>> found.median, found.high, found.outliers
  (9.0, 10.0, (4,))
  """
  drops = np.asarray(drops, np.float64)
  known = np.isfinite(drops)
  if not known.any():
    raise InputError("no model has both numbers: there is no degradation to describe")
  values = drops[known]
  q1, median, q3 = (float(value) for value in np.quantile(values, [0.25, 0.5, 0.75]))
  reach = WHISKER * (q3 - q1)
  outside = known & ((drops < q1 - reach) | (drops > q3 + reach))
  inner = drops[known & ~outside]
  low, high = (float(inner.min()), float(inner.max())) if inner.size else (q1, q3)
  places = tuple(int(place) for place in np.flatnonzero(outside))
  return Box(int(values.size), float(values.mean()), low, q1, median, q3, high, places)


class Catastrophe(NamedTuple):
  """A model that falls under a shift as others do not."""

  model: str
  shift: str
  drop: float
  median: float


def catastrophic(
  drops: Mapping[str, np.ndarray], models: Sequence[str], least: float = LEAST_EXCESS
) -> list[Catastrophe]:
  """Lists falls that are out of line with the zoo.

  The rule: a drop beyond the upper whisker's reach, Q3 + 1.5 (Q3 - Q1) of the shift's drops, and more than 10 points
  above their median and above 0. The second half keeps shifts on which all models do alike from naming any that lie a
  point apart, and shifts under which models gain from naming one that does not.
  OODRobustBench shows such models as outliers of its figure 2 and gives no rule; this one is ours. Its example: 46
  points under Gaussian noise where models lose 9 on average (section 3.2, arXiv:2310.12793).

  Args:
    drops: by shift, one number per model.
    models: their names.
    least: points above the median and above 0.

  Returns:
    The worst first, by the distance from the median.

  >>> catastrophic({"gaussian noise": [8.0, 9.0, 9.0, 10.0, 46.0], "fog": [30.0, 31.0, 30.5, 30.2, 33.0]}, "abcde")
  [Catastrophe(model='e', shift='gaussian noise', drop=46.0, median=9.0)]
  """
  found = []
  for shift, values in drops.items():
    values = np.asarray(values, np.float64)
    if not np.isfinite(values).any():
      continue
    shape = box(values)
    usual = max(shape.median, 0.0)
    for place in np.flatnonzero(values > max(shape.q3 + WHISKER * (shape.q3 - shape.q1), usual + least)):
      found.append(Catastrophe(models[int(place)], shift, float(values[place]), shape.median))
  return sorted(found, key=lambda item: (item.median - item.drop, item.shift, item.model))
