"""Correlates any two columns of a table: parameters, frequency bias, Jacobian norms, robustness.

Pearson's r asks for a straight line, Kendall's τ only for the same order, which is what a parameter count or a norm
with a long tail can answer. Both come with bootstrap intervals over models, and with n: columns may have gaps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from jaxrobust.analysis.bootstrap import DRAWS, FEWEST_FOR_INTERVAL, LEVEL, UNKNOWN, Interval, percentile_interval
from jaxrobust.analysis.ranking import kendall, kendall_interval, multiplicities
from jaxrobust.core.errors import InputError
from jaxrobust.core.registry import unknown_name

KINDS = ("pearson", "kendall")
# Columns that number the rows of a table and measure nothing.
NUMBERING = ("rank", "index", "#", "")
FEWEST = 3


def pearson(x: np.ndarray, y: np.ndarray) -> float:
  """Measures how well a straight line joins two columns: r = cov(x, y) / (sd(x) sd(y)).

  Args:
    x: one number per model.
    y: another one; pairs with a NaN are left out.

  Returns:
    r in [-1, 1]; NaN where all x or all y are equal.

  Source: Pearson, Proceedings of the Royal Society 58, 1895.

  >>> round(pearson([1, 2, 3, np.nan], [2, 4, 7, 1]), 4), pearson([1, 1, 1], [1, 2, 3])
  (0.9934, nan)
  """
  x, y = _known(x, y)
  return float(_correlations(x, y, np.ones((1, x.size)))[0]) if x.size else float("nan")


def pearson_interval(x: np.ndarray, y: np.ndarray, draws: int = DRAWS, seed: int = 0, level: float = LEVEL) -> Interval:
  """Bounds Pearson's r by the percentile bootstrap over models; arguments and result are those of `kendall_interval`.

  >>> low, high = pearson_interval(np.arange(30), np.arange(30) + 8 * np.sin(np.arange(30)), draws=300)
  >>> 0.5 < low < high < 1
  True
  """
  x, y = _known(x, y)
  if x.size < FEWEST_FOR_INTERVAL:
    return UNKNOWN
  return percentile_interval(_correlations(x, y, multiplicities(x.size, draws, seed)), level)


def _known(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
  x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
  if x.ndim != 1 or x.shape != y.shape:
    raise InputError(f"a correlation needs two columns of the same models, got shapes {x.shape} and {y.shape}")
  known = np.isfinite(x) & np.isfinite(y)
  return x[known], y[known]


def _correlations(x: np.ndarray, y: np.ndarray, weights: np.ndarray) -> np.ndarray:
  """Computes r of resampled zoos, each given by how often it holds every model."""
  # Centered once, and in units of the spread, so that squares of large numbers leave nothing to rounding.
  x, y = (
    (values - values.mean()) / (np.ptp(values) if np.ptp(values) > 1e-12 * np.abs(values).max() else np.inf)
    for values in (x, y)
  )
  weights = weights.astype(np.float64)
  mean = lambda values: weights @ values / weights.sum(1)
  covariance = mean(x * y) - mean(x) * mean(y)
  variances = (mean(x * x) - mean(x) ** 2) * (mean(y * y) - mean(y) ** 2)
  # Rounding leaves something of the variance of equal numbers, so that they are told by themselves.
  drawn = weights > 0
  differ = lambda values: np.where(drawn, values, -np.inf).max(1) > np.where(drawn, values, np.inf).min(1)
  known = differ(x) & differ(y) & (variances > 0)
  with np.errstate(divide="ignore", invalid="ignore"):
    return np.where(known, np.clip(covariance / np.sqrt(variances), -1, 1), np.nan)


@dataclass(frozen=True, eq=False)
class Correlations:
  """A matrix of correlations.

  Attributes:
    kind: `pearson` or `kendall`.
    columns: names, of rows and columns alike.
    values: (k, k); NaN where fewer than three models have both, or one column is constant among them.
    low, high: ends of the intervals, (k, k); NaN with fewer than 8 models.
    n: models with both numbers, (k, k).
  """

  kind: str
  columns: tuple[str, ...]
  values: np.ndarray
  low: np.ndarray
  high: np.ndarray
  n: np.ndarray

  def pairs(self) -> list[dict[str, Any]]:
    """Lists each pair of different columns once, the strongest first and unknown ones last.

    >>> table = {"params": [1, 2, 3, 4], "clean": [5, 6, 8, 7], "robust": [4, 3, 2, 1]}
    >>> [(row["x"], row["y"], round(row["value"], 2)) for row in correlation_matrix(table, draws=10).pairs()]
    [('params', 'robust', -1.0), ('params', 'clean', 0.8), ('clean', 'robust', -0.8)]
    """
    found = [
      {
        "x": self.columns[row],
        "y": self.columns[column],
        "kind": self.kind,
        "value": float(self.values[row, column]),
        "low": float(self.low[row, column]),
        "high": float(self.high[row, column]),
        "n": int(self.n[row, column]),
      }
      for row in range(len(self.columns))
      for column in range(row + 1, len(self.columns))
    ]
    return sorted(found, key=lambda pair: -abs(pair["value"]) if np.isfinite(pair["value"]) else 1.0)


def correlation_matrix(
  table: Mapping[str, np.ndarray], kind: str = "pearson", draws: int = DRAWS, seed: int = 0
) -> Correlations:
  """Correlates every column of a table with every other.

  Args:
    table: columns of one number per model; NaN where there is none.
    kind: `pearson` or `kendall`.
    draws: zoos to resample for the intervals.
    seed: of the draws.

  Returns:
    The matrix, with 1 on the diagonal.

  >>> found = correlation_matrix({"a": [1, 2, 3, 4], "b": [1, 3, 2, 4]}, "kendall", draws=10)
  >>> found.values.round(4).tolist(), found.n.tolist()
  ([[1.0, 0.6667], [0.6667, 1.0]], [[4, 4], [4, 4]])
  """
  if kind not in KINDS:
    raise unknown_name("correlation", kind, list(KINDS))
  value, interval = (pearson, pearson_interval) if kind == "pearson" else (kendall, kendall_interval)
  columns = {name: np.asarray(column, np.float64) for name, column in table.items()}
  size = len(columns)
  values, low, high = (np.full((size, size), np.nan) for _ in range(3))
  n = np.zeros((size, size), int)
  for row, x in enumerate(columns.values()):
    for column, y in enumerate(columns.values()):
      if column < row:
        continue
      known, _ = _known(x, y)
      n[row, column] = n[column, row] = known.size
      if known.size < FEWEST:
        continue
      ends = Interval(1.0, 1.0) if row == column else interval(x, y, draws, seed)
      for array, number in ((values, value(x, y)), (low, ends.low), (high, ends.high)):
        array[row, column] = array[column, row] = number
  return Correlations(kind, tuple(columns), values, low, high, n)
