"""Proportions with their uncertainty: an accuracy over n examples is an estimate, and says how good a one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxrobust.core.errors import InputError


def wilson(successes: float, n: float, z: float = 1.96) -> tuple[float, float]:
  """Returns Wilson's score interval (JASA 1927) of a proportion; z = 1.96 for 95 %.

  Unlike p ± z sqrt(p (1-p) / n) it stays inside [0, 1] and does not collapse at 0 or 1, where robust accuracies
  often are.

  >>> [round(bound, 4) for bound in wilson(8, 10)], [round(bound, 4) for bound in wilson(0, 10)]
  ([0.4902, 0.9433], [0.0, 0.2775])
  """
  if n < 1 or not 0 <= successes <= n:
    raise InputError(f"a proportion needs 0 <= successes <= n and n >= 1, got {successes} of {n}")
  share = successes / n
  scale = 1 + z * z / n
  middle = (share + z * z / (2 * n)) / scale
  half = z / scale * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
  # At the ends the two terms are equal; what rounding leaves of them is not part of the interval.
  low = 0.0 if successes == 0 else max(middle - half, 0.0)
  high = 1.0 if successes == n else min(middle + half, 1.0)
  return low, high


class Proportion(NamedTuple):
  """A fraction, its Wilson interval, and what it is a fraction of."""

  value: float
  low: float
  high: float
  n: int

  def plain(self) -> dict[str, Any]:
    """Returns it as JSON."""
    return dict(self._asdict())

  def __str__(self) -> str:
    return f"{100 * self.value:.1f} [{100 * self.low:.1f}, {100 * self.high:.1f}]"


def proportion(flags: np.ndarray) -> Proportion:
  """Returns the share of true flags.

  >>> str(proportion(np.array([True, True, False, True])))
  '75.0 [30.1, 95.4]'
  """
  flags = np.asarray(flags, bool)
  count, n = int(flags.sum()), flags.size
  low, high = wilson(count, n)
  return Proportion(count / n, low, high, n)


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
