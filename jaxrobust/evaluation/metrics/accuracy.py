"""Accuracy over all classes and over the classes of a subset, which are different numbers and have different names.

ImageNet-A, -R and ObjectNet hold some of the 1,000 classes. Their papers let a classifier choose among those only (the
logits of the others are left out); OODRobustBench lets it choose among all. Attacks on such a set must use the
same logits as the accuracy they lower.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jaxrobust.core.errors import InputError


def subset_accuracies(
  logits: np.ndarray,
  labels: np.ndarray,
  classes: np.ndarray,
  label_sets: Sequence[tuple[int, ...]] | None = None,
) -> dict[str, float]:
  """Top-1 accuracy by the number of classes there are to choose from.

  Args:
    logits: (N, all classes).
    labels: (N,) among all classes.
    classes: the classes of the subset.
    label_sets: all acceptable classes of each example, where there are several.

  >>> subset_accuracies(np.array([[0.0, 1, 2], [3, 1, 0]]), np.array([1, 0]), np.array([0, 1]))
  {'accuracy-3-way': 0.5, 'accuracy-2-way': 1.0}
  """
  logits, classes = np.asarray(logits), np.unique(classes)
  accepted = [(int(label),) for label in labels] if label_sets is None else label_sets
  if len(accepted) != len(logits):
    raise InputError(f"there are logits for {len(logits)} examples but labels for {len(accepted)}")
  if not {c for sets in accepted for c in sets} <= set(range(logits.shape[1])):
    raise InputError(f"labels are outside the {logits.shape[1]} classes of the logits")
  among_all = logits.argmax(1)
  among_some = classes[logits[:, classes].argmax(1)]
  right = lambda chosen: float(np.mean([c in sets for c, sets in zip(chosen, accepted, strict=True)]))
  return {f"accuracy-{logits.shape[1]}-way": right(among_all), f"accuracy-{len(classes)}-way": right(among_some)}
