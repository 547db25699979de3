"""Stability along perturbation sequences (ImageNet-P; Hendrycks and Dietterich 2019, arXiv:1903.12261).

FP is how often the prediction changes from frame to frame; for noise, from the clean first frame to each other one.
NmFP (RobustART, arXiv:2109.05211) is its negative mean over perturbations, not relative to another network's.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from jaxrobust.core.errors import InputError


def is_noise(name: str) -> bool:
  """Tells whether the frames of a perturbation are independent draws, to be compared with the first.

  >>> is_noise("shot_noise"), is_noise("gaussian_noise_2"), is_noise("tilt")
  (True, True, False)
  """
  return "_noise" in name


def flips_per_sequence(name: str, predictions: np.ndarray) -> np.ndarray:
  """Returns FP of each sequence of a perturbation, from predictions (sequences, frames).

  >>> flips_per_sequence("tilt", np.array([[1, 1, 2], [0, 0, 0]])).tolist()
  [0.5, 0.0]
  """
  if predictions.ndim != 2 or predictions.shape[1] < 2:
    raise InputError(f"flips need predictions (sequences, frames >= 2), got the shape {predictions.shape}")
  reference = predictions[:, :1] if is_noise(name) else predictions[:, :-1]
  return np.mean(predictions[:, 1:] != reference, axis=1).astype(np.float32)


def negative_mean_flip_probability(flips: Mapping[str, float]) -> float:
  """Returns NmFP from the flip probabilities of perturbations.

  >>> negative_mean_flip_probability({"snow": 0.25, "tilt": 0.75})
  -0.5
  """
  return -float(np.mean(list(flips.values())))
