"""Kendall's rank correlation with ties, of two columns or of all pairs of many.

  τ_b = (concordant - discordant) / sqrt((pairs - ties of x) (pairs - ties of y))

counts pairs of cells that two columns order alike, against those they order differently (Kendall 1945, Biometrika 33).
Accuracies of three digits have many ties, and at large budgets most are 0: τ_b is then about the few that are not.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jaxrobust.core.errors import InputError


def kendall(first: Sequence[float] | np.ndarray, second: Sequence[float] | np.ndarray) -> float:
  """Computes τ_b in N log² N steps.

  Args:
    first, second: numbers of the same N cells, none of them NaN.

  Returns:
    -1 to 1; NaN where a column is constant.

  >>> round(kendall([1, 2, 3, 4, 4], [1, 3, 2, 5, 4]), 4)
  0.7379
  """
  x, y = (np.unique(np.asarray(column, np.float64), return_inverse=True)[1] for column in (first, second))
  if x.shape != y.shape or x.ndim != 1 or len(x) < 2:
    raise InputError(f"a rank correlation needs two columns of equal length, got {np.shape(first)}, {np.shape(second)}")
  pairs = len(x) * (len(x) - 1) // 2
  ties_x, ties_y, ties_both = (_pairs(codes) for codes in (x, y, x * (y.max() + 1) + y))
  order = np.lexsort((y, x))
  discordant = _inversions(y[order])
  room = float(pairs - ties_x) * float(pairs - ties_y)
  if room == 0:
    return float("nan")
  return float((pairs - ties_x - ties_y + ties_both - 2 * discordant) / np.sqrt(room))


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


def _pairs(codes: np.ndarray) -> int:
  """Pairs of equal entries."""
  counts = np.unique(codes, return_counts=True)[1].astype(np.int64)
  return int((counts * (counts - 1) // 2).sum())


def _inversions(values: np.ndarray) -> int:
  """Pairs in which the earlier entry is the larger, by merging blocks of 1, 2, 4, … all at once."""
  size = 1 << max(len(values) - 1, 1).bit_length()
  # Padding at the end is larger than everything, so it inverts nothing.
  blocks: np.ndarray = np.full(size, values.max() + 1)
  total, length = 0, 1
  blocks[: len(values)] = values
  while length < size:
    blocks = blocks.reshape(-1, 2 * length)
    # Ranks within a pair of blocks: entries of the left before equal ones of the right.
    order = np.argsort(blocks, axis=1, kind="stable")
    right = order >= length
    # For each entry of the left, the entries of the right that come before it.
    total += int((np.cumsum(right, axis=1) * ~right).sum())
    blocks = np.take_along_axis(blocks, order, axis=1)
    length *= 2
  return total
