"""A share of n examples with its uncertainty: an accuracy is an estimate, and says how good a one."""

from __future__ import annotations

import math
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
  """A fraction, its Wilson interval, and what it is a fraction of.

  Attributes:
    audited: the fraction is estimated from a sample of these very n examples, and the interval is that of the estimate.
  """

  value: float
  low: float
  high: float
  n: int
  audited: bool = False

  def plain(self) -> dict[str, Any]:
    """Returns it as JSON."""
    return {name: value for name, value in self._asdict().items() if name != "audited" or value}

  def texts(self) -> tuple[str, str]:
    """Returns the share and its interval, in percent."""
    return f"{100 * self.value:.1f} %", f"{100 * self.low:.1f} … {100 * self.high:.1f}"

  def __str__(self) -> str:
    return f"{'≈' * self.audited}{100 * self.value:.1f} [{100 * self.low:.1f}, {100 * self.high:.1f}]"


def proportion(flags: np.ndarray) -> Proportion:
  """Returns the share of true flags.

  >>> str(proportion(np.array([True, True, False, True])))
  '75.0 [30.1, 95.4]'
  """
  flags = np.asarray(flags, bool)
  count, n = int(flags.sum()), flags.size
  low, high = wilson(count, n)
  return Proportion(count / n, low, high, n)
