"""Kendall's rank correlation with ties, of two columns or of all pairs of many.

  τ_b = (concordant - discordant) / sqrt((pairs - ties of x) (pairs - ties of y))

counts pairs of cells that two columns order alike, against those they order differently (Kendall 1945, Biometrika 33).
Accuracies of three digits have many ties, and at large budgets most are 0: τ_b is then about the few that are not.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import stats

from jaxrobust.core.errors import InputError


def kendall(first: Sequence[float] | np.ndarray, second: Sequence[float] | np.ndarray) -> float:
  """Computes τ_b by SciPy, in N log N steps.

  Args:
    first, second: numbers of the same N cells, none of them NaN.

  Returns:
    -1 to 1; NaN where a column is constant.

  >>> round(kendall([1, 2, 3, 4, 4], [1, 3, 2, 5, 4]), 4)
  0.7379
  """
  if np.shape(first) != np.shape(second) or np.ndim(first) != 1 or len(first) < 2:
    raise InputError(f"a rank correlation needs two columns of equal length, got {np.shape(first)}, {np.shape(second)}")
  return float(stats.kendalltau(first, second).statistic)


def kendall_map(columns: Sequence[np.ndarray], others: Sequence[np.ndarray] | None = None) -> np.ndarray:
  """Computes τ_b of every pair of columns.

  Args:
    columns: K arrays of N numbers.
    others: L arrays to correlate them with; themselves by default.

  Returns:
    (K, L) matrix.
  """
  if others is not None:
    return np.array([[kendall(column, other) for other in others] for column in columns])
  matrix = np.eye(len(columns))
  for row in range(len(columns)):
    matrix[row, row] = kendall(columns[row], columns[row])
    for column in range(row):
      matrix[row, column] = matrix[column, row] = kendall(columns[row], columns[column])
  return matrix
