"""Correlates any two columns of a table: parameters, frequency bias, Jacobian norms, robustness.

Pearson's r asks for a straight line, Kendall's τ only for the same order, which is what a parameter count or a norm
with a long tail can answer. Both come with bootstrap intervals over models, and with n: columns may have gaps.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jaxrobust.analysis.bootstrap import DRAWS, FEWEST_FOR_INTERVAL, LEVEL, UNKNOWN, Interval, percentile_interval
from jaxrobust.analysis.ranking import Orders, multiplicities
from jaxrobust.core.errors import InputError
from jaxrobust.core.registry import unknown_name

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
  return float(Spreads(np.stack([x, y]), np.ones((1, x.size))).between(0, [1])[0, 0]) if x.size else float("nan")


def pearson_interval(x: np.ndarray, y: np.ndarray, draws: int = DRAWS, seed: int = 0, level: float = LEVEL) -> Interval:
  """Bounds Pearson's r by the percentile bootstrap over models; arguments and result are those of `kendall_interval`.

  >>> low, high = pearson_interval(np.arange(30), np.arange(30) + 8 * np.sin(np.arange(30)), draws=300)
  >>> 0.5 < low < high < 1
  True
  """
  x, y = _known(x, y)
  if x.size < FEWEST_FOR_INTERVAL:
    return UNKNOWN
  return percentile_interval(Spreads(np.stack([x, y]), multiplicities(x.size, draws, seed)).between(0, [1])[0], level)


def _known(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
  x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
  if x.ndim != 1 or x.shape != y.shape:
    raise InputError(f"a correlation needs two columns of the same models, got shapes {x.shape} and {y.shape}")
  known = np.isfinite(x) & np.isfinite(y)
  return x[known], y[known]


class Spreads:
  """Pearson's r between any two of several columns, in many resampled zoos at once; arguments are those of `Orders`."""

  def __init__(self, columns: np.ndarray, weights: np.ndarray):
    # Centered once, and in units of the spread, so that squares of large numbers leave nothing to rounding.
    spread = np.ptp(columns, axis=1, keepdims=True)
    flat = spread <= 1e-12 * np.abs(columns).max(axis=1, keepdims=True)
    self._columns = (columns - columns.mean(axis=1, keepdims=True)) / np.where(flat, np.inf, spread)
    self._weights = weights.astype(np.float64) / weights.sum(1, keepdims=True)
    self._means = self._columns @ self._weights.T
    self._variances = self._columns**2 @ self._weights.T - self._means**2
    # Rounding leaves something of the variance of equal numbers, so that they are told by themselves.
    self._differ = np.stack([_differ(column, weights > 0) for column in self._columns])

  @staticmethod
  def draws(n: int, draws: int) -> int:
    """Returns how many zoos are resampled: all that are asked for."""
    return draws

  def between(self, at: int, others: Sequence[int]) -> np.ndarray:
    """Returns r of one column and of each of the others, (others, zoos); NaN where all are equal."""
    others = list(others)
    products = (self._columns[at] * self._columns[others]) @ self._weights.T
    covariances = products - self._means[at] * self._means[others]
    variances = self._variances[at] * self._variances[others]
    known = self._differ[at] & self._differ[others] & (variances > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
      return np.where(known, np.clip(covariances / np.sqrt(variances), -1, 1), np.nan)


def _differ(column: np.ndarray, drawn: np.ndarray) -> np.ndarray:
  """Tells in which zoos the models drawn, (zoos, models), have different numbers."""
  order = np.argsort(column)
  drawn = drawn[:, order]
  return column[order][drawn.argmax(1)] < column[order][::-1][drawn[:, ::-1].argmax(1)]


KINDS: dict[str, type[Spreads] | type[Orders]] = {"pearson": Spreads, "kendall": Orders}


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
  columns = np.array([np.asarray(column, np.float64) for column in table.values()])
  size = len(columns)
  values, low, high = (np.full((size, size), np.nan) for _ in range(3))
  n = np.zeros((size, size), int)
  for known, pairs in _by_models(columns).items():
    rows = np.frombuffer(known, bool)
    count = int(rows.sum())
    for row, column in pairs:
      n[row, column] = n[column, row] = count
    if count < FEWEST:
      continue
    weights = np.ones((1, count))
    if count >= FEWEST_FOR_INTERVAL:
      weights = np.concatenate([weights, multiplicities(count, KINDS[kind].draws(count, draws), seed)])
    names = sorted({name for pair in pairs for name in pair})
    resampled = KINDS[kind](columns[names][:, rows], weights)
    for row, others in itertools.groupby(pairs, key=lambda pair: pair[0]):
      there = [column for _, column in others]
      found = resampled.between(names.index(row), [names.index(column) for column in there])
      for column, draw in zip(there, found, strict=True):
        ends = Interval(1.0, 1.0) if row == column else percentile_interval(draw[1:])
        for array, number in ((values, draw[0]), (low, ends.low), (high, ends.high)):
          array[row, column] = array[column, row] = number
  return Correlations(kind, tuple(table), values, low, high, n)


def _by_models(columns: np.ndarray) -> dict[bytes, list[tuple[int, int]]]:
  """Sorts pairs of columns by the models that have both numbers: all pairs of a table without gaps have the same."""
  known = np.isfinite(columns)
  found: dict[bytes, list[tuple[int, int]]] = {}
  for pair in itertools.combinations_with_replacement(range(len(columns)), 2):
    found.setdefault((known[pair[0]] & known[pair[1]]).tobytes(), []).append(pair)
  return found
