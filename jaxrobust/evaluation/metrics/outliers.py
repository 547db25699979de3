"""Outlier detection (ImageNet-O; Hendrycks et al. 2021, arXiv:1907.07174): AUPR and AUROC of an anomaly score.

The score is the negative of the largest softmax probability; outliers are the positive class. AUPR is average
precision, the step-wise area under the precision-recall curve.
"""

from __future__ import annotations

import numpy as np

from jaxrobust.core.errors import InputError


def average_precision(inlier: np.ndarray, outlier: np.ndarray) -> float:
  """Returns AUPR from the scores of inliers and of outliers; equal scores share a threshold.

  >>> average_precision(np.array([0.1, 0.4]), np.array([0.35, 0.8]))
  0.8333333333333333
  """
  from sklearn.metrics import average_precision_score

  return float(average_precision_score(*_truth_and_scores(inlier, outlier)))


def area_under_roc(inlier: np.ndarray, outlier: np.ndarray) -> float:
  """Returns the probability that an outlier scores higher than an inlier; ties count half.

  >>> area_under_roc(np.array([0.1, 0.4]), np.array([0.35, 0.8]))
  0.75
  """
  from sklearn.metrics import roc_auc_score

  return float(roc_auc_score(*_truth_and_scores(inlier, outlier)))


def _truth_and_scores(inlier: np.ndarray, outlier: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
  if np.size(inlier) == 0 or np.size(outlier) == 0:
    raise InputError("outlier detection needs scores of both inliers and outliers")
  scores = np.concatenate([inlier, outlier]).astype(np.float64)
  if not np.isfinite(scores).all():
    raise InputError("anomaly scores hold NaN or infinity")
  return np.repeat([0, 1], [len(inlier), len(outlier)]), scores
