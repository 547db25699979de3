"""The verdicts of a run as arrays, one row per example: what `attack_images` returns and what cells are made of."""

from __future__ import annotations

import numpy as np

from jaxrobust.engine.table import Verdicts

# Name and type of what is taken over from a verdict as it is.
_COPIED = {
  "correct": bool,
  "softmax": bool,
  "stage": np.int32,
  "queries": np.int64,
  "nan": np.int32,
  "flat": np.int32,
  "disagreements": np.int32,
  "label": np.int32,
  "clean_prediction": np.int32,
  "broken_at": np.int32,
  "distance": np.float32,
  "nearest": np.float32,
}
# Before there is a verdict; everything else is 0.
_UNKNOWN = {
  **dict.fromkeys(("stage", "label", "clean_prediction", "broken_at", "prediction"), -1),
  "distance": np.inf,
  "nearest": np.nan,
}


class VerdictArrays:
  """Fills in per-example arrays as verdicts arrive, in any order.

  Args:
    count: number of examples.
    eps: the budget within which a success counts; None for no bound.
    budgets: number of budgets for which it is kept when a minimal attack first reached each.
    classes: if not 0, all probabilities are kept.

  Attributes:
    arrays: by name: the fields of a verdict, `success` and `robust` within `eps`, the `prediction` and its `confidence`
      on the image that decided, `reached_step` and `reached_query` (N, budgets), `probabilities` (N, classes).
  """

  def __init__(self, count: int, eps: float | None, budgets: int = 0, classes: int = 0):
    self.eps = np.inf if eps is None else eps
    types = {**_COPIED, "success": bool, "robust": bool, "prediction": np.int32, "confidence": np.float32}
    self.arrays = {name: np.full(count, _UNKNOWN.get(name, 0), kind) for name, kind in types.items()}
    self.arrays |= {name: np.full((count, budgets), -1, np.int32) for name in ("reached_step", "reached_query")}
    if classes:
      self.arrays["probabilities"] = np.zeros((count, classes), np.float32)

  def __getitem__(self, name: str) -> np.ndarray:
    return self.arrays[name]

  def record(self, verdicts: Verdicts) -> None:
    """Writes the verdicts into their rows."""
    if not len(verdicts):
      return
    rows = verdicts["position"]
    for name in _COPIED:
      self.arrays[name][rows] = verdicts[name]
    self.arrays["success"][rows] = verdicts.broken(self.eps)
    self.arrays["robust"][rows] = verdicts.robust(self.eps)
    for name in ("reached_step", "reached_query"):
      if self.arrays[name].size:
        self.arrays[name][rows] = verdicts[name]
    self.record_logits(rows, verdicts["logits"])

  def record_logits(self, rows: np.ndarray, logits: np.ndarray) -> None:
    """Writes down what is predicted by the logits of some rows; nothing where they are not finite."""
    finite = np.isfinite(logits).all(axis=1)
    rows, logits = rows[finite], logits[finite]
    odds = np.exp(logits.astype(np.float64) - logits.max(axis=1, keepdims=True))
    probabilities = (odds / odds.sum(axis=1, keepdims=True)).astype(np.float32)
    self.arrays["prediction"][rows] = logits.argmax(axis=1)
    self.arrays["confidence"][rows] = probabilities.max(axis=1)
    if "probabilities" in self.arrays:
      self.arrays["probabilities"][rows] = probabilities

  def state(self, prefix: str = "verdicts.") -> dict[str, np.ndarray]:
    """Returns the arrays under the names that they have in a snapshot."""
    return {prefix + name: array for name, array in self.arrays.items()}

  def restore(self, arrays: dict[str, np.ndarray], prefix: str = "verdicts.") -> None:
    """Takes over the arrays of a snapshot."""
    for name, array in self.state(prefix).items():
      array[:] = arrays[name]
