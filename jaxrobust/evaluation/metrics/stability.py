"""Stability over decoders and resizes (NSD), and how low a frequency suffices (ACC-LPB, frequency bias)."""

from __future__ import annotations

import numpy as np

from jaxrobust.core.errors import InputError


def negative_standard_deviation(accuracies: np.ndarray) -> float:
  """Returns NSD (RobustART, arXiv:2109.05211): minus the deviation of accuracy over the decoder x resize grid.

  The population's deviation, because the grid is all there is; cells that are NaN (no such decoder) do not count.

  >>> negative_standard_deviation(np.array([[0.5, 0.7], [0.5, 0.7]]))
  -0.1
  """
  known = np.asarray(accuracies, np.float64)
  known = known[~np.isnan(known)]
  if known.size == 0:
    raise InputError("NSD needs at least one accuracy")
  return -float(np.round(known.std(), 12))


def low_pass_curve(correct: np.ndarray, clean: np.ndarray) -> np.ndarray:
  """Returns the ACC-LPB curve of ARES-Bench (arXiv:2302.14301): accuracy at each bandwidth over the clean accuracy.

  Args:
    correct: (bandwidths, N), whether example i is right at that bandwidth.
    clean: (N,), whether it is right unfiltered.
  """
  clean = np.asarray(clean, bool)
  if not clean.any():
    raise InputError("no example is classified correctly without a filter")
  return np.asarray(correct, np.float64)[:, clean].mean(1)


def frequency_bias(bandwidths: np.ndarray, correct: np.ndarray, clean: np.ndarray) -> float:
  """Returns the mean, over examples right unfiltered, of the least bandwidth that suffices (ARES-Bench, Eq. 4).

  An example that no bandwidth suffices for counts with the largest one.

  >>> frequency_bias(np.array([2, 4, 8]), np.array([[0, 1, 0], [1, 1, 0], [1, 1, 0]]), np.array([1, 1, 0]))
  3.0
  """
  bandwidths, correct = np.asarray(bandwidths), np.asarray(correct, bool)
  if correct.shape[0] != len(bandwidths) or (np.diff(bandwidths) <= 0).any():
    raise InputError("frequency bias needs rising bandwidths, and a row of flags for each")
  right = correct[:, np.asarray(clean, bool)]
  if right.shape[1] == 0:
    raise InputError("no example is classified correctly without a filter")
  first = np.where(right.any(0), right.argmax(0), len(bandwidths) - 1)
  return float(bandwidths[first].mean())
