"""Calibration: does a confidence of 80 % mean right in 80 % of the cases?

ECE is the mean gap between confidence and accuracy over bins (Guo et al. 2017, arXiv:1706.04599); the RMS error
(Hendrycks et al., arXiv:1907.07174) squares the gaps and fills bins with equally many examples.
"""

from __future__ import annotations

import numpy as np

from jaxrobust.core.errors import InputError


def expected_calibration_error(confidence: np.ndarray, correct: np.ndarray, bins: int = 15) -> float:
  """ECE with bins of equal width.

  >>> expected_calibration_error(np.array([0.9, 0.9, 0.6, 0.6]), np.array([1, 1, 0, 1]), bins=2)
  0.0
  >>> round(expected_calibration_error(np.array([0.9, 0.9, 0.6, 0.6]), np.array([1, 1, 0, 1]), bins=5), 3)
  0.1
  """
  confidence, correct = _checked(confidence, correct)
  index = np.clip(np.ceil(confidence * bins).astype(int) - 1, 0, bins - 1)
  gap = np.bincount(index, confidence - correct, bins)
  return float(np.abs(gap).sum() / len(confidence))


def rms_calibration_error(confidence: np.ndarray, correct: np.ndarray, per_bin: int = 100) -> float:
  """The root of the mean squared gap, over bins of `per_bin` examples in the order of confidence."""
  confidence, correct = _checked(confidence, correct)
  order = np.argsort(confidence, kind="stable")
  total = 0.0
  # A short rest joins the last bin.
  starts = list(range(0, max(len(order) - per_bin + 1, 1), per_bin))
  for start, stop in zip(starts, [*starts[1:], len(order)], strict=True):
    part = order[start:stop]
    total += len(part) / len(order) * np.square(np.mean(confidence[part]) - np.mean(correct[part]))
  return float(np.sqrt(total))


def _checked(confidence: np.ndarray, correct: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
  confidence, correct = np.asarray(confidence, np.float64), np.asarray(correct, np.float64)
  if confidence.ndim != 1 or confidence.shape != correct.shape or confidence.size == 0:
    raise InputError(f"calibration needs as many flags as confidences, got {correct.shape} and {confidence.shape}")
  if not ((confidence >= 0) & (confidence <= 1)).all():
    raise InputError("confidences must lie in [0, 1]")
  return confidence, correct
