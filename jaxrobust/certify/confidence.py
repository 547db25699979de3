"""How sure votes make one: Clopper-Pearson bounds of a probability, and bounds that hold at every number of votes.

Clopper and Pearson 1934: the lower bound at level alpha of k successes in n is the p at which k or more of n have the
probability alpha. It holds for one n that was fixed before. A *confidence sequence* holds at all n together, so one may
look after every batch and stop when enough is known. Here by betting (Waudby-Smith and Ramdas 2023, arXiv:2010.09686):
against p <= p0, for any weights w over probabilities q > p0,

  W_n = sum_q w(q) (q / p0)^k ((1 - q) / (1 - p0))^(n - k)

is a nonnegative supermartingale that begins at 1, so it ever exceeds 1 / alpha with a probability of alpha at the most
(Ville's inequality).
"""

from __future__ import annotations

import functools
import math

import numpy as np

from jaxrobust.core.errors import InputError


def clopper_pearson(successes: int, trials: int, alpha: float) -> float:
  """Returns a lower bound of a probability that is wrong with probability alpha at the most.

  By bisection on the tail of the binomial: P[X >= k] at the bound is alpha.

  >>> round(clopper_pearson(100_000, 100_000, 0.001), 6), round(clopper_pearson(90, 100, 0.05), 4)
  (0.999931, 0.8363)
  """
  if not 0 <= successes <= trials or not 0 < alpha < 1:
    raise InputError(f"{successes} of {trials} votes at level {alpha} say nothing")
  if successes == 0:
    return 0.0
  if successes == trials:
    return float(alpha ** (1 / trials))
  low, high = 0.0, successes / trials
  for _ in range(60):
    middle = (low + high) / 2
    low, high = (middle, high) if _tail(successes, trials, middle) < alpha else (low, middle)
  return low


def _tail(successes: int, trials: int, probability: float) -> float:
  """Returns P[X >= successes] of a binomial, summed from the largest term down."""
  if probability <= 0:
    return 0.0
  counts = np.arange(successes, trials + 1)
  logs = _log_factorials(trials)
  terms = logs[trials] - logs[counts] - logs[trials - counts]
  terms = terms + counts * math.log(probability) + (trials - counts) * math.log1p(-probability)
  return float(np.exp(terms).sum())


@functools.lru_cache(8)
def _log_factorials(most: int) -> np.ndarray:
  return np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, most + 1)))])


class ProbabilityTest:
  """Tells, at any time, whether votes prove that a probability is above, or below, a value.

  It bets on both sides, on `GRID` probabilities of equal weight each, which lie denser near the value.

  Args:
    value: p0.
    alpha: probability of ever proving what is not so; half of it for each side.

  >>> test = ProbabilityTest(0.5, 0.01)
  >>> test.proves(20, 20), test.proves(11, 20), test.proves(0, 20)
  (1, 0, -1)
  """

  GRID = 256

  def __init__(self, value: float, alpha: float):
    if not 0 < value < 1 or not 0 < alpha < 1:
      raise InputError(f"a test needs a probability and a level in (0, 1), got {value} and {alpha}")
    share = (np.arange(self.GRID) + 0.5) / self.GRID
    # Denser near the value: what is nearly true is the hardest to tell.
    sides = value + (1 - value) * share**2, value * (1 - share**2)
    self._ratios = [(np.log(side / value), np.log((1 - side) / (1 - value))) for side in sides]
    self._enough = math.log(2 / alpha)

  def proves(self, successes: int, trials: int) -> int:
    """Returns 1 where the probability is above the value, -1 where it is below, 0 where that is open."""
    for sign, (won, lost) in zip((1, -1), self._ratios, strict=True):
      wealth = successes * won + (trials - successes) * lost
      top = float(wealth.max())
      if top + math.log(float(np.exp(wealth - top).mean())) >= self._enough:
        return sign
    return 0
