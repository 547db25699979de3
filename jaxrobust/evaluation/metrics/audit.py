"""MissedBounds what a full attack would still break of what a cheap one left standing, from an audited sample.

A cheap attack leaves S of N examples standing; the full attack would break M more, so the robust accuracy is (S - M)/N.
M is bounded from a sample without replacement, within strata. Of stratum h, with K_h misses among S_h survivors, m_h
have been audited and k_h of them were misses. The probability of that very sequence of outcomes is

  P_h(K) = K!/(K - k_h)! (S_h - K)!/(S_h - K - m_h + k_h)! (S_h - m_h)!/S_h!

Let Q be the probability that some expectation gives to all outcomes; here a mixture over a few scenarios, in each of
which the misses of a stratum are beta-binomial. At the true K the ratio R = Q / prod_h P_h(K_h) is a martingale that
starts at 1, however the outcomes so far choose the stratum of the next draw. So by Ville's inequality it ever reaches
1/alpha with probability alpha at the most. This is the prior-posterior ratio of Waudby-Smith and Ramdas (2020,
arXiv:2006.04347) for draws without replacement, over several strata at once.

The upper bound is the largest sum of K with R < 1/alpha_up, the lower one the smallest with R < 1/alpha_low, and both
alphas add up to 5 %. The bounds hold at all sample sizes together: whoever looks after each round, stops once they are
narrow enough, and goes on later, still has them. They are exact for finite populations, and those of a whole audit are
equal. What is expected decides how narrow they are, never whether they hold. Nearly all of alpha goes to the upper one,
because the misses found are a lower bound that is sure.

-log P_h is convex in K, so the likeliest K with a given sum takes the smallest increments of all strata: one sort.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

# Chances to miss the truth: above and below, 5 % in all.
ALPHA_UP, ALPHA_LOW = 0.045, 0.005
# Pseudo-counts of misses in each scenario (Jeffreys' for a proportion).
_HITS = 0.5


class Stratum(NamedTuple):
  """Counts the survivors of one range of margins.

  Attributes:
    size: how many there are.
    sampled: how many have been audited.
    missed: how many of these the full attack broke.
  """

  size: int
  sampled: int = 0
  missed: int = 0

  @property
  def left(self) -> int:
    return self.size - self.sampled


class Scenario(NamedTuple):
  """Says what may be expected.

  Attributes:
    weight: how likely it is.
    rates: the mean share of misses in each stratum.
  """

  weight: float
  rates: tuple[float, ...]


# Of the survivors that were nearest to being broken, and of the others. A good cheap attack misses .2 to 2 % of all
# (MM5 beside AutoAttack on 80 networks: .17 points of accuracy on average, 1.4 at the most); a poor one a quarter.
EXPECTED = (Scenario(0.5, (0.1, 0.003)), Scenario(0.35, (0.3, 0.03)), Scenario(0.15, (0.6, 0.3)))


class MissedBounds(NamedTuple):
  """MissedBounds the number of misses, those found included.

  Attributes:
    low, high: of their sum.
    worst: the misses of each stratum at `high`, where they are likeliest.
  """

  low: int
  high: int
  worst: tuple[int, ...]


def bound_missed(strata: Sequence[Stratum], expected: Sequence[Scenario] = EXPECTED) -> MissedBounds:
  """Returns what is known of the number of misses with 95 % confidence.

  >>> bound_missed([Stratum(32), Stratum(288)])
  MissedBounds(low=0, high=320, worst=(32, 288))
  >>> bound_missed([Stratum(32, 6), Stratum(288, 56)])[:2], bound_missed([Stratum(32, 32, 3), Stratum(288, 288, 1)])[:2]
  ((0, 18), (4, 4))
  """
  found = sum(one.missed for one in strata)
  steps = [_increments(one) for one in strata]
  rising = np.sort(np.concatenate(steps))
  start = log_evidence(strata, expected)[0] + sum(_log_choose(one.size, one.missed) for one in strata)
  ratio = start + np.concatenate([[0.0], np.cumsum(rising)])
  likeliest = int(np.searchsorted(rising, 0.0))
  # Rounding must not shut out what meets a bound exactly.
  above = np.flatnonzero(ratio < -math.log(ALPHA_UP) + 1e-9)
  below = np.flatnonzero(ratio < -math.log(ALPHA_LOW) + 1e-9)
  high = max(int(above[-1]) if len(above) else 0, likeliest)
  low = min(int(below[0]) if len(below) else likeliest, likeliest)
  last = rising[high - 1] if high else -math.inf
  worst = tuple(one.missed + int(np.searchsorted(each, last, "right")) for one, each in zip(strata, steps, strict=True))
  return MissedBounds(found + low, found + high, worst)


def _increments(stratum: Stratum) -> np.ndarray:
  """Returns log P(K) - log P(K + 1), from the misses found to as many as there can be."""
  size, sampled, missed = stratum
  k = np.arange(missed, size - sampled + missed, dtype=np.float64)
  return np.log1p(-missed / (k + 1)) - np.log((size - sampled + missed - k) / (size - k))


def log_evidence(strata: Sequence[Stratum], expected: Sequence[Scenario] = EXPECTED) -> tuple[float, np.ndarray]:
  """Returns log Q, and the share of misses that is to be expected of each stratum's next draws.

  >>> value, rates = log_evidence([Stratum(32), Stratum(288)])
  >>> abs(round(value, 6)), rates.round(4).tolist()
  (0.0, [0.245, 0.057])
  """
  logs, rates = [], []
  for scenario in expected:
    value, means = math.log(scenario.weight), []
    for one, rate in zip(strata, scenario.rates, strict=True):
      a, b = _HITS, _HITS * (1 - rate) / rate
      value += _log_beta(a + one.missed, b + one.sampled - one.missed) - _log_beta(a, b)
      means.append((a + one.missed) / (a + b + one.sampled))
    logs.append(value)
    rates.append(means)
  top = max(logs)
  shares = np.exp(np.array(logs) - top)
  return top + math.log(shares.sum()), shares @ np.array(rates) / shares.sum()


def _log_beta(a: float, b: float) -> float:
  return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


def _log_choose(n: int, k: int) -> float:
  return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def estimate_missed(strata: Sequence[Stratum]) -> float:
  """Returns the stratified estimate, the sum of S_h k_h / m_h, within the bounds; a stratum without draws counts none.

  Without early stopping it is unbiased.

  >>> estimate_missed([Stratum(20, 20, 3), Stratum(300, 150, 1)])
  5.0
  """
  expanded = sum(one.size * one.missed / one.sampled for one in strata if one.sampled)
  low, high, _ = bound_missed(strata)
  return float(min(max(expanded, low), high))
