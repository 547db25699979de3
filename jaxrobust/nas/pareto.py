"""Several objectives at once: dominance, fronts, scalarization, hypervolume. Larger is better throughout.

With one objective a front is the set of the best and a score is the value itself, so that search methods need no second
form.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


def dominates(first: np.ndarray, second: np.ndarray) -> np.ndarray:
  """Tells where one is at least as good in all objectives and better in one; broadcasts over rows.

  >>> bool(dominates(np.array([2, 2]), np.array([2, 1]))), bool(dominates(np.array([2, 0]), np.array([2, 1])))
  (True, False)
  """
  return np.all(first >= second, axis=-1) & np.any(first > second, axis=-1)


def front(values: np.ndarray) -> np.ndarray:
  """Finds the rows that no other row dominates.

  Args:
    values: (N, K).

  Returns:
    (N,) flags; equal rows are all on the front.
  """
  flags = np.zeros(len(values), bool)
  kept = np.empty((0, values.shape[1]))
  # By the sum, largest first, a row can only be dominated by rows before it.
  for row in np.argsort(-values.sum(axis=1), kind="stable"):
    if not dominates(kept, values[row]).any():
      flags[row] = True
      kept = np.vstack([kept, values[row]])
  return flags


class Scale(NamedTuple):
  """Turns several objectives into one: the augmented Chebyshev scalarization of ParEGO (Knowles 2006).

  Of objectives u_k scaled to [0, 1]: min_k u_k / w_k + 0.05 Σ_k u_k / w_k. Each w leads to another place of the front,
  dents included, where weighted sums do not reach.

  Attributes:
    weights: (K,) positive.
    low, high: (K,) range that is scaled to [0, 1].
  """

  weights: np.ndarray
  low: np.ndarray
  high: np.ndarray

  @classmethod
  def draw(cls, rng: np.random.Generator, seen: np.ndarray) -> Scale:
    """Draws weights uniformly from the simplex; ranges are those of the (N, K) values seen."""
    count = seen.shape[1]
    # One objective needs no draw, so that its searches do not depend on this.
    weights = rng.dirichlet(np.ones(count)) if count > 1 else np.ones(1)
    return cls(np.maximum(weights, 0.01), seen.min(axis=0), seen.max(axis=0))

  def __call__(self, values: np.ndarray) -> np.ndarray:
    """Scores (N, K) values; one objective is its own score."""
    if values.shape[-1] == 1:
      return values[..., 0]
    scaled = (values - self.low) / np.where(self.high > self.low, self.high - self.low, 1.0) / self.weights
    return scaled.min(axis=-1) + 0.05 * scaled.sum(axis=-1)


def hypervolume(values: np.ndarray, reference: np.ndarray) -> float:
  """Measures the space between a reference point and the front of some rows (Zitzler & Thiele 1998), exactly.

  Slices along the last objective; meant for two or three of them.

  Args:
    values: (N, K).
    reference: (K,), worse than all that counts; what is not better than it adds nothing.

  Returns:
    The volume dominated; the best value less the reference where K is 1.

  >>> hypervolume(np.array([[2.0, 1.0], [1.0, 2.0]]), np.zeros(2))
  3.0
  """
  values = values[np.all(values > reference, axis=1)]
  if not len(values):
    return 0.0
  if values.shape[1] == 1:
    return float(values.max() - reference[0])
  if values.shape[1] > 2:  # A slice for each row is the cost, and rows below the front add nothing.
    values = np.unique(values[front(values)], axis=0)
  values = values[np.argsort(-values[:, -1], kind="stable")]
  heights = values[:, -1] - np.append(values[1:, -1], reference[-1])
  if values.shape[1] == 2:
    return float(heights @ (np.maximum.accumulate(values[:, 0]) - reference[0]))
  areas = [hypervolume(values[: row + 1, :-1], reference[:-1]) if heights[row] else 0.0 for row in range(len(values))]
  return float(heights @ np.array(areas))
