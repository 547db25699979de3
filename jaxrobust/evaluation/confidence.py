"""Confusion and confidence matrices of a cell, as the NAS robustness data has them (arXiv:2306.06712, appendix A.5).

  label       mean softmax of the examples of each true class: classes × classes
  argmax      mean softmax of the examples predicted as each class: classes × classes
  prediction  mean confidence of the right and of the wrong predictions: 2 numbers
Rows of classes that no example has are nothing (null in a file).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

# Up to so many classes every cell has matrices; beyond, only those of suites that ask for them.
ALWAYS_CLASSES = 16
# Summaries keep six digits: what a batch of another size changes lies behind them.
DIGITS = 6

_COLUMN = "_probability"


def columns(probabilities: np.ndarray) -> dict[str, np.ndarray]:
  """Returns probabilities (N, classes) as arrays of rank 1; the leading underscore keeps them out of finished cells."""
  return {f"{_COLUMN}{index}": probabilities[:, index].copy() for index in range(probabilities.shape[1])}


def has_columns(examples: Mapping[str, np.ndarray]) -> bool:
  """Tells whether there are probabilities to make matrices from."""
  return f"{_COLUMN}0" in examples


def matrices(examples: Mapping[str, np.ndarray]) -> dict[str, Any]:
  """Returns `confusion` and `confidence` of a cell's arrays, which have columns of probabilities.

  >>> rows = columns(np.array([[0.75, 0.25], [0.5, 0.5], [0.0, 1.0]], np.float32))
  >>> found = matrices({"label": np.array([0, 0, 0]), "prediction": np.array([0, 0, 1]), **rows})
  >>> found["confusion"], found["confidence"]["argmax"], found["confidence"]["prediction"]
  ([[2, 1], [0, 0]], [[0.625, 0.375], [0.0, 1.0]], [0.625, 1.0])
  """
  classes = sum(name.startswith(_COLUMN) for name in examples)
  table = np.stack([examples[f"{_COLUMN}{index}"] for index in range(classes)], 1).astype(np.float64)
  label, prediction = np.asarray(examples["label"]), np.asarray(examples["prediction"])
  known = (prediction >= 0) & (label < classes)
  confusion = np.zeros((classes, classes), int)
  np.add.at(confusion, (label[known], prediction[known]), 1)
  sure, right = table.max(1), label == prediction
  return {
    "confusion": confusion.tolist(),
    "confidence": {
      "label": [_mean(table[known & (label == index)]) for index in range(classes)],
      "argmax": [_mean(table[prediction == index]) for index in range(classes)],
      "prediction": [_mean(sure[known & flags, None])[0] for flags in (right, ~right)],
    },
  }


def _mean(rows: np.ndarray) -> list[float | None]:
  """Returns the mean over rows; None where there are none, as it is stored."""
  return np.round(rows.mean(0), DIGITS).tolist() if len(rows) else [None] * rows.shape[1]
