"""Simulated audits: populations of survivors with known misses, audited until the interval is narrow enough."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jaxrobust.evaluation.metrics.audit_plan import Sample, audit

WIDTHS = (0.5, 1.0, 2.0)


class Population(NamedTuple):
  """Survivors of n examples: how near each was to being broken, and which ones the full attack breaks."""

  n: int
  margins: np.ndarray
  missed: np.ndarray


class Audited(NamedTuple):
  """What came of an audit: whether the bounds hold the truth at the end and at every look, and what it took."""

  sample: Sample
  covered: bool
  always: bool
  narrow: bool
  whole: bool
  width: float


def draw_population(
  rng: np.random.Generator, sizes: tuple[int, int] = (100, 10_000), rate: float | None = None
) -> Population:
  """Returns a population with 0 to 5 % misses; margins may tell where they are, tell nothing, or mislead."""
  n = int(np.exp(rng.uniform(*np.log(sizes))))
  count = max(int(n * rng.uniform(0.1, 0.7)), 1)
  share = rng.choice([0.0, rng.uniform(0, 0.01), rng.uniform(0, 0.05)]) if rate is None else rate
  misses = min(int(rng.binomial(count, share)), count)
  place = np.arange(count) / count
  odds = (np.exp(-20 * place), np.ones(count), np.exp(5 * place))[rng.choice(3, p=(0.6, 0.2, 0.2))]
  missed = np.zeros(count, bool)
  missed[rng.choice(count, misses, replace=False, p=odds / odds.sum())] = True
  return Population(n, -place, missed)


def run(population: Population, seed: int, width: float | None = None) -> Audited:
  """Audits a population to ± `width` points, looking after each round."""
  n, margins, missed = population
  width = WIDTHS[seed % len(WIDTHS)] if width is None else width
  truth, looks = int(missed.sum()), []

  def enough(sample: Sample) -> bool:
    low, high, _ = sample.bounds
    looks.append(low <= truth <= high)
    return 50 * (high - low) / n <= width

  sample = audit(np.arange(len(margins)), margins, seed, enough, missed.__getitem__)
  low, high, _ = sample.bounds
  whole = len(sample.drawn) == len(margins)
  return Audited(sample, low <= truth <= high, all(looks), 50 * (high - low) / n <= width, whole, width)
