"""Verdicts of a cell as arrays, and what they add up to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from jaxrobust.engine.verdict import Verdict
from jaxrobust.evaluation.confidence import columns, has_columns, matrices

# An attack that often sees successes which the verification does not confirm is itself a finding.
DISAGREEMENT_LIMIT = 0.001
# AutoAttack's own limit for the share of images that only Square breaks.
SQUARE_LIMIT = 0.002
# What a verdict says of an example goes into the cell under the same name.
_COPIED = ("correct", "softmax", "stage", "queries", "flat", "label", "clean_prediction")


class VerdictBook:
  """Fills in per-example arrays as verdicts arrive, in any order.

  Args:
    count: number of examples.
    minimal: whether the distances are kept (they mean nothing for attacks that stop inside a budget).
    eps: the budget within which a success counts; None for no bound.
    classes: if not 0, all probabilities are kept, for confidence matrices.
  """

  def __init__(self, count: int, minimal: bool, eps: float | None, classes: int = 0):
    self.minimal = minimal
    self.eps = np.inf if eps is None else eps
    self.arrays: dict[str, np.ndarray] = {
      "done": np.zeros(count, bool),
      "correct": np.zeros(count, bool),
      "robust": np.zeros(count, bool),
      "nan": np.zeros(count, bool),
      "disagree": np.zeros(count, bool),
      "softmax": np.zeros(count, bool),
      "stage": np.full(count, -1, np.int32),
      "queries": np.zeros(count, np.int32),
      "flat": np.zeros(count, np.int32),
      "label": np.full(count, -1, np.int32),
      "clean_prediction": np.full(count, -1, np.int32),
      "prediction": np.full(count, -1, np.int32),
      "confidence": np.zeros(count, np.float32),
    }
    if minimal:
      self.arrays["distance"] = np.full(count, np.inf, np.float32)
    else:
      self.arrays["broken_at"] = np.full(count, -1, np.int32)
    if classes:
      self.arrays["probabilities"] = np.zeros((count, classes), np.float32)

  def record(self, verdicts: Iterable[Verdict]) -> None:
    """Writes the verdicts down."""
    batch = list(verdicts)
    if not batch:
      return
    rows = [verdict.position for verdict in batch]
    self.arrays["done"][rows] = True
    self.arrays["robust"][rows] = [verdict.robust(self.eps) for verdict in batch]
    self.arrays["nan"][rows] = [verdict.nan > 0 for verdict in batch]
    self.arrays["disagree"][rows] = [verdict.disagreements > 0 for verdict in batch]
    for name in (*_COPIED, "distance" if self.minimal else "broken_at"):
      self.arrays[name][rows] = [getattr(verdict, name) for verdict in batch]
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

  def examples(self) -> dict[str, np.ndarray]:
    """The arrays that go into the cell, and columns of probabilities that only its summary is made from."""
    examples = {name: array for name, array in self.arrays.items() if name not in ("done", "probabilities")}
    return examples | (columns(self.arrays["probabilities"]) if "probabilities" in self.arrays else {})


def summarise(examples: dict[str, np.ndarray]) -> dict[str, Any]:
  """Counts and fractions; a function of the arrays alone, so that merged shards summarise alike."""
  count = len(examples["correct"])
  correct, robust = int(examples["correct"].sum()), int(examples["robust"].sum())
  summary: dict[str, Any] = {
    "n": count,
    "correct": correct,
    "robust": robust,
    "accuracy": correct / count,
    "robust_accuracy": robust / count,
    "nan": int(examples["nan"].sum()),
    "disagree": int(examples["disagree"].sum()),
    "queries": int(examples["queries"].sum()),
  }
  if "distance" in examples:
    found = examples["distance"][examples["correct"] & np.isfinite(examples["distance"])]
    summary["median_distance"] = float(np.median(found)) if len(found) else None
  if "flips" in examples:
    summary["flip_probability"] = float(examples["flips"].mean(dtype=np.float64))
  if has_columns(examples):
    summary |= matrices(examples)
  return summary


def find_issues(examples: dict[str, np.ndarray], stages: Sequence[str] = ()) -> list[dict[str, Any]]:
  """Structured warnings: what a reader of the number must know.

  Args:
    examples: the arrays of a cell.
    stages: the attack of each stage, by name.
  """
  count = len(examples["correct"])
  attacked = max(int((examples["queries"] > 0).sum()), 1)
  square = [index for index, name in enumerate(stages) if name == "square"] if len(set(stages)) > 1 else []
  tests = (
    ("nan", examples["nan"], 0.0, "logits or gradients were not finite; these examples do not count as robust"),
    (
      "disagreement",
      examples["disagree"],
      DISAGREEMENT_LIMIT * count,
      "successes that the verification did not confirm; suspect precision or a randomised model",
    ),
    (
      "zero-gradient",
      examples["flat"] > 0,
      0.0,
      "the input gradient was exactly zero somewhere; suspect gradient masking",
    ),
    (
      "softmax-output",
      examples["softmax"],
      0.5 * count,
      "the model returns probabilities, not logits; gradients vanish and attacks look weak",
    ),
    (
      "square-beats-white-box",
      np.isin(examples["stage"], square),
      SQUARE_LIMIT * count,
      "random search broke what gradients could not; suspect gradient masking",
    ),
  )
  found = [(kind, int(flags.sum()), text) for kind, flags, limit, text in tests if flags.sum() > limit]
  return [{"kind": kind, "examples": n, "fraction": n / attacked, "text": text} for kind, n, text in found]
