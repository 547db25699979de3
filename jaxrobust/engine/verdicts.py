"""The verdicts of a run as arrays, one row per example: what `attack_images` returns and what cells are made of."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from jaxrobust.engine.example import Verdict

# Name and type of what is taken over from a verdict as it is.
_COPIED = {
  "correct": bool,
  "softmax": bool,
  "stage": np.int32,
  "queries": np.int32,
  "nan": np.int32,
  "flat": np.int32,
  "disagreements": np.int32,
  "label": np.int32,
  "clean_prediction": np.int32,
  "broken_at": np.int32,
  "distance": np.float32,
}
# Before there is a verdict; everything else is 0.
_UNKNOWN = {"stage": -1, "label": -1, "clean_prediction": -1, "broken_at": -1, "prediction": -1, "distance": np.inf}


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

  def record(self, verdicts: Iterable[Verdict]) -> None:
    """Writes the verdicts into their rows."""
    batch = list(verdicts)
    if not batch:
      return
    rows = [verdict.position for verdict in batch]
    columns = dict(zip(Verdict._fields, zip(*batch, strict=True), strict=True))
    for name in _COPIED:
      self.arrays[name][rows] = columns[name]
    self.arrays["success"][rows] = [verdict.broken(self.eps) for verdict in batch]
    self.arrays["robust"][rows] = [verdict.robust(self.eps) for verdict in batch]
    for name in ("reached_step", "reached_query"):
      for row, found in zip(rows, columns[name], strict=True):
        if found is not None:
          self.arrays[name][row] = found
    known = {verdict.position: verdict.logits for verdict in batch if verdict.logits is not None}
    if known:
      self._record_logits(np.array(list(known)), np.stack(list(known.values())))

  def _record_logits(self, rows: np.ndarray, logits: np.ndarray) -> None:
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
