"""Accuracy under a shift without its labels, from confidences: the baselines of agreement on the line.

Both look at one model alone. They trust confidence to fall where accuracy falls, which adversarial images are made to
prevent: for robustness they are here to be compared with, not to be believed.
"""

from __future__ import annotations

import numpy as np

from jaxrobust.core.errors import InputError
from jaxrobust.results import Result


def average_threshold(id_confidence: np.ndarray, id_correct: np.ndarray, ood_confidence: np.ndarray) -> float:
  """Estimates accuracy as the share of confidences above a threshold: average thresholded confidence (ATC).

  The threshold t is where, with labels, as many examples lie below as are wrong: P_id(s < t) = P_id(wrong). The
  estimate is P_ood(s >= t).

  Args:
    id_confidence: the score of each example without the shift, such as its largest probability.
    id_correct: whether the prediction is right.
    ood_confidence: the scores under the shift.

  Returns:
    A fraction.

  Source: Garg et al. 2022, arXiv:2201.04234, with the largest probability as score (ATC-MC).

  >>> average_threshold([0.5, 0.6, 0.9, 0.99], [0, 1, 1, 1], [0.4, 0.55, 0.7, 0.95])
  0.5
  """
  id_confidence, id_correct, ood_confidence = _checked(id_confidence, id_correct, ood_confidence)
  wrong = int((~id_correct).sum())
  # All wrong: nothing that was seen is above the threshold.
  threshold = np.sort(id_confidence)[wrong] if wrong < id_confidence.size else np.inf
  return float(np.mean(ood_confidence >= threshold))


def difference_of_confidences(id_confidence: np.ndarray, id_correct: np.ndarray, ood_confidence: np.ndarray) -> float:
  """Estimates accuracy as ID accuracy less the fall of the mean confidence (DoC).

  acc_ood = acc_id - (mean s_id - mean s_ood), in [0, 1].

  Args:
    id_confidence: the score of each example without the shift, such as its largest probability.
    id_correct: whether the prediction is right.
    ood_confidence: the scores under the shift.

  Returns:
    A fraction.

  Source: Guillory et al. 2021, arXiv:2107.03315: the plain difference, without a regression over shifts.

  >>> round(difference_of_confidences([0.8, 0.9], [1, 1], [0.6, 0.7]), 6)
  0.8
  """
  id_confidence, id_correct, ood_confidence = _checked(id_confidence, id_correct, ood_confidence)
  fall = id_confidence.mean() - ood_confidence.mean()
  return float(np.clip(id_correct.mean() - fall, 0.0, 1.0))


def _checked(
  id_confidence: np.ndarray, id_correct: np.ndarray, ood_confidence: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  here, there = np.asarray(id_confidence, np.float64), np.asarray(ood_confidence, np.float64)
  correct = np.asarray(id_correct, bool)
  if here.ndim != 1 or here.shape != correct.shape or here.size == 0 or there.ndim != 1 or there.size == 0:
    shapes = f"{here.shape} for {correct.shape}, and {there.shape}"
    raise InputError(f"an estimate from confidences needs one per example with and without the shift, got {shapes}")
  if not (np.isfinite(here).all() and np.isfinite(there).all()):
    raise InputError("confidences must be numbers")
  return here, correct, there


ESTIMATORS = {"atc": average_threshold, "doc": difference_of_confidences}


def cells_confidence_estimate(id_cell: Result, ood_cell: Result, method: str = "atc") -> float:
  """Estimates what a cell on shifted data would say, from the confidences of two cells of one model.

  An image whose logits are not numbers is never right; its confidence is taken as 0.

  Args:
    id_cell: with verdicts.
    ood_cell: under the shift, with the same attack or, like the first, without one; its labels are not looked at.
    method: `atc` or `doc`.

  Returns:
    A fraction: accuracy for cells without an attack, robustness for those with one.
  """
  for result in (id_cell, ood_cell):
    if "confidence" not in result.examples:
      raise InputError(f"{result.cell} was computed without confidences; compute it again")
  if id_cell.cell.model != ood_cell.cell.model:
    raise InputError(f"confidences of one model are needed, got {id_cell.cell} beside {ood_cell.cell}")
  if method not in ESTIMATORS:
    raise InputError(f"an estimate from confidences is atc or doc, not {method!r}")
  here, there = (np.nan_to_num(cell.examples["confidence"], nan=0.0) for cell in (id_cell, ood_cell))
  return ESTIMATORS[method](here, id_cell.examples["robust"], there)
