"""Stability along perturbation sequences (ImageNet-P; Hendrycks and Dietterich 2019, arXiv:1903.12261).

FP is how often the prediction changes from frame to frame; for noise, from the clean first frame to each other one. FR
divides by AlexNet's FP; mFR and NmFP (RobustART: the negative mean FP) average over perturbations. Arrays are
(sequences, frames) of predictions or (sequences, frames, classes) of scores.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from jaxrobust.core.errors import InputError

# From NAVER's assembled-cnn; see `third_party/README.md`. The first ten are averaged by mFR.
ALEXNET_FLIPS = {
  "gaussian_noise": 0.23653,
  "shot_noise": 0.30062,
  "motion_blur": 0.09297,
  "zoom_blur": 0.05942,
  "snow": 0.11928,
  "brightness": 0.04889,
  "translate": 0.11007,
  "rotate": 0.13104,
  "tilt": 0.07050,
  "scale": 0.23531,
}
ALEXNET_EXTRA_FLIPS = {"speckle_noise": 0.18649, "gaussian_blur": 0.02775, "spatter": 0.05053, "shear": 0.10658}


def is_noise(name: str) -> bool:
  """Whether the frames of a perturbation are independent draws, to be compared with the first."""
  return name.endswith("_noise")


def flip_probability(predictions: np.ndarray, noise: bool, step: int = 1) -> float:
  """FP of predictions (sequences, frames).

  Args:
    noise: compare with the first frame instead of the one before.
    step: compare frames that far apart (the authors' difficulty; noise has none).

  >>> flip_probability(np.array([[1, 1, 2, 1]]), noise=False), flip_probability(np.array([[1, 1, 2, 1]]), noise=True)
  (0.6666666666666666, 0.3333333333333333)
  """
  predictions = np.asarray(predictions)
  if predictions.ndim != 2 or predictions.shape[1] < 2:
    raise InputError(f"flips need predictions (sequences, frames >= 2), got the shape {predictions.shape}")
  if noise:
    return float(np.mean(predictions[:, 1:] != predictions[:, :1]))
  return float(np.mean(predictions[:, step:] != predictions[:, :-step]))


def top5_distance(scores: np.ndarray, noise: bool) -> float:
  """How far the five best classes of a frame move in the ranking of the next (of the first's, for noise).

  d = Σ_{i≤5} |min(i-1, 5) - min(σ(i)-1, 5)|, where σ(i) is the new rank of the class that had rank i.

  >>> scores = np.array([[[6, 5, 4, 3, 2, 1.0], [5, 6, 4, 3, 2, 1.0]]])
  >>> top5_distance(scores, noise=False)
  2.0
  """
  scores = np.asarray(scores)
  order = np.argsort(-scores, axis=-1, kind="stable")
  ranks = np.argsort(order, axis=-1, kind="stable")  # Counted from 0.
  best = order[:, :1, :5] if noise else order[:, :-1, :5]
  best = np.broadcast_to(best, (*ranks[:, 1:].shape[:2], best.shape[-1]))
  moved = np.take_along_axis(ranks[:, 1:], best, axis=-1)
  return float(np.abs(np.arange(best.shape[-1]) - np.minimum(moved, 5)).sum(-1).mean())


def mean_flip_rate(flips: Mapping[str, float]) -> float:
  """mFR: the mean over the ten perturbations of FP / FP of AlexNet.

  >>> round(mean_flip_rate(ALEXNET_FLIPS), 6)
  1.0
  """
  missing = [name for name in ALEXNET_FLIPS if name not in flips]
  if missing:
    raise InputError(f"mFR needs all ten perturbations; missing: {', '.join(missing)}")
  return float(np.mean([flips[name] / ALEXNET_FLIPS[name] for name in ALEXNET_FLIPS]))


def negative_mean_flip_probability(flips: Mapping[str, float]) -> float:
  """NmFP: the negative mean of the flip probabilities given, not normalised (RobustART).

  >>> negative_mean_flip_probability({"snow": 0.25, "tilt": 0.75})
  -0.5
  """
  return -float(np.mean(list(flips.values())))
