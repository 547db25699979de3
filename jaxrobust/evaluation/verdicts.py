"""The verdicts of a cell: the arrays it is made of, what they add up to, and what a reader must know of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxrobust.engine.verdicts import VerdictArrays
from jaxrobust.evaluation.confidence import columns, has_columns, matrices

# An attack that often sees successes which the verification does not confirm is itself a finding.
DISAGREEMENT_LIMIT = 0.001
# AutoAttack's own limit for the share of images that only Square breaks, for all attacks without gradients.
BLIND_LIMIT = 0.002
BLIND = "query-beats-gradient"
BLIND_TEXT = "an attack without gradients broke what gradient attacks could not; suspect gradient masking"
_SAME = ("softmax", "stage", "queries", "flat", "label", "clean_prediction", "prediction", "confidence")


def cell_arrays(
  verdicts: VerdictArrays, minimal: bool, strengths: Sequence[str] = (), margins: bool = False
) -> dict[str, np.ndarray]:
  """Returns the arrays that go into a cell, and columns of probabilities that only its summary is made from.

  Args:
    minimal: distances are kept; they mean nothing for attacks that stop inside a budget.
    margins: how near to the goal the attacks came is kept.
    strengths: the budgets, as text, that `reached_step` and `reached_query` have columns for.
  """
  examples = {name: verdicts[name] for name in ("correct", "robust")}
  examples |= {"nan": verdicts["nan"] > 0, "disagree": verdicts["disagreements"] > 0}
  examples |= {name: verdicts[name] for name in _SAME}
  # A cell's numbers have 32 bits: it says of an example with more queries that it had at least so many.
  examples["queries"] = np.minimum(verdicts["queries"], np.iinfo(np.int32).max).astype(np.int32)
  last = "distance" if minimal else "broken_at"
  examples[last] = verdicts[last]
  if margins:
    examples["margin"] = verdicts["nearest"]
  for number, budget in enumerate(strengths):
    for name in ("reached_step", "reached_query"):
      examples[f"{name}@{budget}"] = verdicts[name][:, number]
  return examples | (columns(verdicts["probabilities"]) if "probabilities" in verdicts.arrays else {})


def summarize(examples: dict[str, np.ndarray]) -> dict[str, Any]:
  """Returns counts and fractions; from the arrays alone, so that merged shards have the same."""
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
  if "fooled" in examples:
    unseen = examples["fooled"][~examples["fitted"]]
    summary["fooling_rate"] = float(unseen.mean(dtype=np.float64)) if len(unseen) else None
  if has_columns(examples):
    summary |= matrices(examples)
  return summary


def find_issues(examples: dict[str, np.ndarray], access: Sequence[str] = ()) -> list[dict[str, Any]]:
  """Returns structured warnings: what a reader of the number must know.

  Args:
    examples: the arrays of a cell.
    access: what the attack of each stage sees: `gradient`, `score` or `decision`.
  """
  count = len(examples["correct"])
  tests = (
    ("nan", examples["nan"], 0.0, "logits or gradients were not finite; these examples do not count as robust"),
    (
      "disagreement",
      examples["disagree"],
      DISAGREEMENT_LIMIT * count,
      "successes that the verification did not confirm; suspect precision or a randomized model",
    ),
    (
      "zero-gradient",
      _flat(examples),
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
      BLIND,
      np.isin(examples["stage"], _blind_stages(examples, access)),
      BLIND_LIMIT * count,
      BLIND_TEXT,
    ),
  )
  found = [(kind, int(flags.sum()), text) for kind, flags, limit, text in tests if flags.sum() > limit]
  return [{"kind": kind, "examples": n, "fraction": n / count, "text": text} for kind, n, text in found]


def _flat(examples: dict[str, np.ndarray]) -> np.ndarray:
  """Returns where a gradient of zero is a sign of something: where the attack found nothing.

  The hinge of C&W and the margin of other minimal attacks are flat by design behind the boundary, which says nothing.
  """
  stands = np.isinf(examples["distance"]) if "distance" in examples else np.ones(len(examples["flat"]), bool)
  return (examples["flat"] > 0) & stands


def _blind_stages(examples: dict[str, np.ndarray], access: Sequence[str]) -> list[int]:
  """Returns the stages without gradients that come after one with them.

  None where the closest success counts: all stages see all examples there, and a closer image is no sign of anything.
  """
  if "distance" in examples:
    return []
  return [index for index, seen in enumerate(access) if seen != "gradient" and "gradient" in access[:index]]
