"""Audits: their bounds hold however the sample is stopped, in populations of any size, rate and order of margins."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from jaxrobust.evaluation.metrics.audit import Scenario, Stratum, bound_missed, estimate_missed, log_evidence
from jaxrobust.evaluation.metrics.audit_plan import Sample, allot, audit, shuffle, size_of_round, stratify
from tests.evaluation.metrics.auditing import Population, draw_population, run


@pytest.mark.parametrize("seed", range(2))
def test_bounds_hold_in_simulated_populations(seed):
  rng = np.random.default_rng(seed)
  populations = [draw_population(rng, (100, 1000)) for _ in range(150)]
  found = [run(population, trial) for trial, population in enumerate(populations)]
  assert np.mean([one.covered for one in found]) >= 0.95
  assert all(one.narrow or one.whole for one in found)


@pytest.mark.slow
def test_bounds_hold_in_ten_thousand_populations():
  rng = np.random.default_rng(7)
  found = [run(draw_population(rng), trial) for trial in range(10_000)]
  assert np.mean([one.covered for one in found]) >= 0.95
  assert np.mean([one.always for one in found]) >= 0.95


def test_bounds_hold_where_they_are_hardest_to_hold():
  """As many misses as the interval must just shut out, spread evenly: the likeliest to stay unseen until it stops."""
  rng, found = np.random.default_rng(0), []
  for trial in range(200):
    missed = np.zeros(320, bool)
    missed[rng.choice(320, 21, replace=False)] = True
    found.append(run(Population(1000, -np.arange(320.0), missed), trial, 1.0).covered)
  assert 0.95 <= np.mean(found) < 1.0


def test_bounds_are_those_of_every_assignment_of_misses_to_strata():
  strata = [Stratum(6, 3, 1), Stratum(9, 4, 0), Stratum(3, 3, 1)]
  expected = (Scenario(0.6, (0.2, 0.05, 0.3)), Scenario(0.4, (0.5, 0.3, 0.5)))
  evidence = log_evidence(strata, expected)[0]

  def log_probability(one: Stratum, k: int) -> float:
    rest, clean = one.size - k, one.sampled - one.missed
    if not one.missed <= k <= one.size - clean:
      return -math.inf
    ways = math.perm(k, one.missed) * math.perm(rest, clean) / math.perm(one.size, one.sampled)
    return math.log(ways)

  sums: dict[float, set[int]] = {0.045: set(), 0.005: set()}
  for assigned in itertools.product(*(range(one.size + 1) for one in strata)):
    ratio = evidence - sum(log_probability(one, k) for one, k in zip(strata, assigned, strict=True))
    for alpha, allowed in sums.items():
      if ratio < -math.log(alpha):
        allowed.add(sum(assigned))
  low, high, worst = bound_missed(strata, expected)
  assert (low, high) == (min(sums[0.005]), max(sums[0.045]))
  assert sum(worst) >= high


def test_the_evidence_is_a_martingale():
  """Over all outcomes of the next draw, given the true number of misses, the ratio keeps its mean."""
  size, misses, sampled, missed = 12, 4, 5, 2
  here = [Stratum(size, sampled, missed), Stratum(20)]
  chance = (misses - missed) / (size - sampled)
  later = [
    chance_of * math.exp(log_evidence([Stratum(size, sampled + 1, missed + hit), Stratum(20)])[0]) / chance_of
    for hit, chance_of in ((1, chance), (0, 1 - chance))
  ]
  # Q of the next outcome over its probability, weighted by that probability, adds up to Q so far.
  assert sum(later) == pytest.approx(math.exp(log_evidence(here)[0]), rel=1e-12)


def test_a_whole_audit_is_exact_and_an_empty_one_needs_none():
  missed = np.random.default_rng(0).random(57) < 0.3
  sample = audit(np.arange(57), np.zeros(57), 3, lambda sample: False, missed.__getitem__)
  assert sorted(sample.drawn.tolist()) == list(range(57))
  assert sample.bounds[:2] == (missed.sum(), missed.sum()) and sample.estimate == missed.sum()
  none = audit(np.zeros(0, int), np.zeros(0), 0, lambda sample: False, lambda places: places == places)
  assert none.bounds[:2] == (0, 0) and len(none.drawn) == 0


def test_a_narrower_interval_continues_the_sample():
  population = draw_population(np.random.default_rng(5), (2000, 2001))
  few, many = (run(population, 1, width=width).sample for width in (2.0, 0.5))
  assert len(few.drawn) < len(many.drawn)
  assert (many.drawn[: len(few.drawn)] == few.drawn).all()


def test_small_margins_are_audited_more_densely_where_misses_are():
  margins, missed = -np.arange(2000.0), np.arange(2000) % 5 == 0
  missed[200:] = False
  sample = audit(np.arange(2000), margins, 0, lambda sample: len(sample.drawn) >= 300, missed.__getitem__)
  near, far = sample.strata
  assert near.size == 200 and near.sampled / near.size > 2 * far.sampled / far.size


def test_sampling_depends_on_ids_and_seed_alone():
  assert sorted(shuffle(np.arange(50), 1).tolist()) == list(range(50))
  assert shuffle(np.arange(50), 1).tolist() != shuffle(np.arange(50), 2).tolist()
  ids = np.array([40, 7, 19, 3])
  assert ids[shuffle(ids, 4)].tolist() == ids[::-1][shuffle(ids[::-1], 4)].tolist()
  assert stratify(np.array([])).tolist() == [] and stratify(np.array([-1.0])).tolist() == [0]
  strata = [Stratum(10, 10, 2), Stratum(90, 85, 1)]
  assert size_of_round(strata) == 5 and allot(strata, 5) == [0, 5]
  assert estimate_missed([Stratum(10), Stratum(90)]) == 0.0
  assert isinstance(run(Population(100, -np.ones(30), np.zeros(30, bool)), 0).sample, Sample)
