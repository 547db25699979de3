"""Do two classifiers say the same? From the predictions of two cells over the same examples.

Two networks of equal accuracy may err on different images. Kappa takes out the agreement that their accuracies alone
would give (error consistency; Geirhos et al. 2020, arXiv:2006.16736).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jaxrobust.analysis.proportions import Proportion, proportion
from jaxrobust.core.errors import InputError
from jaxrobust.results import Result


class Agreement(NamedTuple):
  """Of two classifiers on the same examples.

  Attributes:
    same: predicted the same class.
    same_outcome: both right or both wrong.
    kappa: same_outcome beyond chance, 1 for identical errors, 0 for independent ones; NaN where chance leaves no room.
    same_wrong: of the examples that both get wrong, predicted the same wrong class; None where there are none.
  """

  same: Proportion
  same_outcome: Proportion
  kappa: float
  same_wrong: Proportion | None


def agreement(first: np.ndarray, second: np.ndarray, label: np.ndarray) -> Agreement:
  """Agreement of two arrays of predicted classes.

  >>> found = agreement(np.array([0, 1, 1, 2]), np.array([0, 1, 0, 0]), np.array([0, 1, 2, 1]))
  >>> found.same.value, found.same_outcome.value, found.kappa, found.same_wrong.value
  (0.5, 1.0, 1.0, 0.0)
  """
  first, second, label = (np.asarray(array) for array in (first, second, label))
  if first.shape != second.shape or first.shape != label.shape or first.size == 0:
    raise InputError(f"agreement needs predictions of the same examples, got {first.shape} and {second.shape}")
  right, other = first == label, second == label
  outcome = proportion(right == other)
  chance = right.mean() * other.mean() + (1 - right.mean()) * (1 - other.mean())
  kappa = (outcome.value - chance) / (1 - chance) if chance < 1 else float("nan")
  both = ~right & ~other
  wrong = proportion((first == second)[both]) if both.any() else None
  return Agreement(proportion(first == second), outcome, float(kappa), wrong)


def cells_agreement(first: Result, second: Result) -> Agreement:
  """Agreement of two cells, of two models on the same data or of one model under two attacks."""
  if first.config.get("data_fingerprint") != second.config.get("data_fingerprint"):
    raise InputError(f"{first.cell} and {second.cell} are about different data")
  for result in (first, second):
    if "prediction" not in result.examples:
      raise InputError(f"{result.cell} was computed without predictions; compute it again")
  return agreement(first.examples["prediction"], second.examples["prediction"], first.examples["label"])
