"""Outlier detection (ImageNet-O; Hendrycks et al. 2021, arXiv:1907.07174): AUPR and AUROC of an anomaly score.

The score is the negative of the largest softmax probability; outliers are the positive class. AUPR is average
precision, the step-wise area under the precision-recall curve.
"""

from __future__ import annotations

import numpy as np

from jaxrobust.core.errors import InputError


def anomaly_score(logits: np.ndarray) -> np.ndarray:
  """-max softmax of logits (N, classes): the surer, the less of an outlier.

  >>> anomaly_score(np.array([[0.0, 0.0], [10.0, -10.0]])).round(3).tolist()
  [-0.5, -1.0]
  """
  logits = np.asarray(logits, np.float64)
  return -1.0 / np.exp(logits - logits.max(-1, keepdims=True)).sum(-1)


def average_precision(inlier: np.ndarray, outlier: np.ndarray) -> float:
  """AUPR from the scores of inliers and of outliers; equal scores share a threshold.

  >>> average_precision(np.array([0.1, 0.4]), np.array([0.35, 0.8]))
  0.8333333333333333
  """
  hits, count = _cumulative(inlier, outlier)
  precision = hits / count
  recall = hits / hits[-1]
  return float(np.sum(np.diff(recall, prepend=0.0) * precision))


def area_under_roc(inlier: np.ndarray, outlier: np.ndarray) -> float:
  """The probability that an outlier scores higher than an inlier; ties count half.

  >>> area_under_roc(np.array([0.1, 0.4]), np.array([0.35, 0.8]))
  0.75
  """
  hits, count = _cumulative(inlier, outlier)
  recall = np.concatenate([[0.0], hits / hits[-1]])
  alarms = np.concatenate([[0.0], (count - hits) / (count - hits)[-1]])
  return float(np.sum(np.diff(alarms) * (recall[1:] + recall[:-1]) / 2))


def _cumulative(inlier: np.ndarray, outlier: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
  """Outliers found and examples flagged at each distinct score, from the highest down."""
  if np.size(inlier) == 0 or np.size(outlier) == 0:
    raise InputError("outlier detection needs scores of both inliers and outliers")
  scores = np.concatenate([inlier, outlier]).astype(np.float64)
  if not np.isfinite(scores).all():
    raise InputError("anomaly scores hold NaN or infinity")
  truth = np.concatenate([np.zeros(len(inlier)), np.ones(len(outlier))])
  order = np.argsort(-scores, kind="stable")
  last = np.append(np.flatnonzero(np.diff(scores[order])), len(scores) - 1)
  return np.cumsum(truth[order])[last], last + 1.0
