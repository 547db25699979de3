"""Proportions with their uncertainty, also over several conditions on the same images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jaxrobust.core.proportions import Proportion as Proportion
from jaxrobust.core.proportions import proportion as proportion
from jaxrobust.core.proportions import wilson as wilson


def robust_proportion(examples: Mapping[str, np.ndarray], summary: Mapping[str, Any]) -> Proportion:
  """Returns the robust accuracy of a cell: counted from its flags, or where it was audited, as its summary says.

  >>> flags = {"robust": np.array([True, True, False, True])}
  >>> told = {"robust_accuracy": 0.6, "audit": {"low": 0.5, "high": 0.75}}
  >>> str(robust_proportion(flags, {})), str(robust_proportion(flags, told))
  ('75.0 [30.1, 95.4]', '≈60.0 [50.0, 75.0]')
  """
  found = summary.get("audit")
  if not isinstance(found, Mapping):
    return proportion(examples["robust"])
  numbers = [float(value) for value in (summary["robust_accuracy"], found["low"], found["high"])]
  return Proportion(numbers[0], numbers[1], numbers[2], len(examples["robust"]), True)


def mean_proportion(conditions: Sequence[np.ndarray]) -> Proportion:
  """Returns the mean share of true flags over conditions on the same images, in one order, perhaps fewer of them.

  What images have in common does not average out however many conditions there are, so images, not flags, are
  the sample (clusters). The variance of the mean is v = sum_i (sum_c (y_ic - p_c) / (K n_c))^2, its effective sample
  size p (1-p) / v (Kish, Survey Sampling, 1965), and the interval Wilson's for a sample of that size (as Korn and
  Graubard, Survey Methodology 24, 1998, do with the exact one). One condition gives `proportion`, copies of it too.

  >>> once = np.arange(100) % 2 == 0
  >>> str(mean_proportion([once] * 75)), str(mean_proportion([once, ~once])), mean_proportion([once]).n
  ('50.0 [40.4, 59.6]', '50.0 [43.1, 56.9]', 100)
  """
  sizes = [flags.size for flags in conditions]
  value = float(np.mean([flags.mean() for flags in conditions]))
  parts = np.zeros(max(sizes))
  for flags in conditions:
    parts[: flags.size] += (flags - flags.mean()) / (len(conditions) * flags.size)
  variance = float(np.sum(parts**2))
  # Between the images of the smallest condition and independent flags; where all are alike nothing tells which.
  most = sum(sizes) if 0 < value < 1 else min(sizes)
  size = max(value * (1 - value) / variance, min(sizes)) if variance else most
  size = min(size, most)
  return Proportion(value, *wilson(value * size, size), max(sizes))
