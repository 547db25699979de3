"""Chooses what is audited next: strata by margin, an order that the seed fixes, and rounds.

Nothing here depends on the wanted width or on who computes what: round after round follows from the survivors, their
margins, the seed and the outcomes so far. A narrower interval asks for more rounds of the same sample.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from jaxrobust.evaluation.metrics.audit import MissedBounds, Stratum, bound_missed, estimate_missed, log_evidence

# The share of survivors, those nearest to being broken, that are a stratum of their own: most that MM5 misses is here.
NEAR = 0.1
# A round is this part of the sample so far, at least this part of the survivors, and at least so many.
GROWTH, SMALLEST, FEWEST = 0.1, 0.01, 4
# In so many parts the draws of a round go to the strata.
_PARTS = 4


class Sample(NamedTuple):
  """Holds an audit as far as it has gone.

  Attributes:
    strata: their counts.
    drawn: positions among the survivors, in the order in which they were audited.
    bounds: of the number of misses.
  """

  strata: tuple[Stratum, ...]
  drawn: np.ndarray
  bounds: MissedBounds

  @property
  def estimate(self) -> float:
    """Returns how many misses there are likely to be."""
    return estimate_missed(self.strata)


def stratify(margins: np.ndarray) -> np.ndarray:
  """Returns the stratum of each survivor: 0 for the nearest tenth, 1 for the others.

  >>> stratify(np.array([-3.0, -0.1, -2.0, -4.0, -9.0, -1.0, -5.0, -6.0, -7.0, -8.0])).tolist()
  [1, 0, 1, 1, 1, 1, 1, 1, 1, 1]
  """
  rank = np.argsort(np.argsort(-np.asarray(margins), kind="stable"), kind="stable")
  return (rank >= math.ceil(NEAR * len(rank))).astype(np.int32)


def shuffle(ids: np.ndarray, seed: int) -> np.ndarray:
  """Returns a random order of examples that depends on the seed and their ids alone.

  >>> shuffle(np.arange(5), 0).tolist(), shuffle(np.arange(5), 1).tolist()
  ([0, 2, 3, 1, 4], [4, 1, 0, 3, 2])
  """
  keys = [hashlib.blake2b(f"audit/{seed}/{int(one)}".encode(), digest_size=8).digest() for one in ids]
  return np.array(sorted(range(len(keys)), key=keys.__getitem__), np.int64)


def size_of_round(strata: Sequence[Stratum]) -> int:
  """Returns how many survivors the next round audits.

  >>> size_of_round([Stratum(32), Stratum(288)]), size_of_round([Stratum(32, 20), Stratum(288, 80)])
  (4, 10)
  """
  total, sampled = sum(one.size for one in strata), sum(one.sampled for one in strata)
  return min(max(math.ceil(GROWTH * sampled), math.ceil(SMALLEST * total), FEWEST), total - sampled)


def allot(strata: Sequence[Stratum], count: int) -> list[int]:
  """Returns how many of the next draws each stratum gets.

  They go where an outcome tells most: with rate p expected of a stratum, and q in the worst case that is not yet ruled
  out, a draw raises the evidence against the latter by KL(p || q) on average.

  >>> allot([Stratum(32), Stratum(288)], 8), allot([Stratum(32, 10, 4), Stratum(288, 90)], 10)
  ([2, 6], [10, 0])
  """
  planned, shares = list(strata), log_evidence(strata)[1]
  added, part = [0.0 for _ in strata], max(1, math.ceil(count / _PARTS))
  given = [0] * len(planned)
  while sum(given) < count:
    worst = bound_missed(planned).worst
    gains = [
      -1.0 if not one.left else _divergence(share, (most - one.missed) / one.left)
      for one, share, most in zip(planned, shares, worst, strict=True)
    ]
    place = int(np.argmax(gains))
    draws = min(part, count - sum(given), planned[place].left)
    given[place] += draws
    added[place] += draws * float(shares[place])
    missed = min(strata[place].missed + round(added[place]), strata[place].sampled + given[place])
    planned[place] = Stratum(strata[place].size, strata[place].sampled + given[place], missed)
  return given


def _divergence(p: float, q: float) -> float:
  """Returns the Kullback-Leibler divergence of two coins; none where q is not the larger one."""
  q = min(q, 1 - 1e-9)
  return p * math.log(p / q) + (1 - p) * math.log((1 - p) / (1 - q)) if q > p else 0.0


def audit(
  ids: np.ndarray,
  margins: np.ndarray,
  seed: int,
  enough: Callable[[Sample], bool],
  broken: Callable[[np.ndarray], np.ndarray],
) -> Sample:
  """Audits survivors, round after round, until that is enough or there are none left.

  Args:
    ids: of the survivors, which their order follows from.
    margins: how near each came to being broken; larger is nearer.
    seed: of the order.
    enough: whether a sample will do.
    broken: positions among the survivors -> which of them the full attack breaks.

  >>> missed = np.arange(400) % 100 == 0
  >>> found = audit(np.arange(400), -np.arange(400.0), 0, lambda sample: sample.bounds.high <= 20, missed.__getitem__)
  >>> len(found.drawn), found.bounds[:2], found.strata[0].sampled > 4
  (161, (2, 19), True)
  """
  number = stratify(margins)
  queues = [np.flatnonzero(number == one) for one in range(2)]
  queues = [queue[shuffle(np.asarray(ids)[queue], seed)] for queue in queues]
  sample = _sample([Stratum(len(queue)) for queue in queues], np.zeros(0, np.int64))
  while sum(one.left for one in sample.strata) and not enough(sample):
    draws = allot(sample.strata, size_of_round(sample.strata))
    parts = [
      queue[one.sampled : one.sampled + more] for queue, one, more in zip(queues, sample.strata, draws, strict=True)
    ]
    drawn = np.concatenate(parts)
    flags = np.split(np.asarray(broken(drawn), bool), np.cumsum(draws)[:-1])
    counted = [
      Stratum(one.size, one.sampled + len(seen), one.missed + int(seen.sum()))
      for one, seen in zip(sample.strata, flags, strict=True)
    ]
    sample = _sample(counted, np.concatenate([sample.drawn, drawn]))
  return sample


def _sample(strata: Sequence[Stratum], drawn: np.ndarray) -> Sample:
  return Sample(tuple(strata), drawn, bound_missed(strata))
