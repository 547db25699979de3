"""Minimum-budget search: the rule alone against made-up attacks, then with real ones against known answers."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxrobust import testing
from jaxrobust.attacks.minimum_budget import START, MinimumBudget
from jaxrobust.attacks.registry import make_attack
from jaxrobust.attacks.schedule import Example, Outcome
from jaxrobust.core.errors import InputError
from jaxrobust.engine.api import attack_images
from tests.attacks import minimal_distance as md

BIM = make_attack("bim", num_steps=20, step_size=0.15)


def _example(margin: float) -> Example:
  return Example(0, -1, math.inf, np.zeros(0), margin)


def _follow(
  search: MinimumBudget, threshold: float, margin_at, steps_at
) -> tuple[float, list[tuple[int, float, bool]]]:
  """Runs the rule against an attack that succeeds from `threshold` on; returns the least success and all tries."""
  case = _example(margin_at(0.0))
  item, tried, best = search.first(case), [], math.inf
  while item is not None:
    success = item.eps >= threshold * (2 if item.stage else 1)  # A scout is weaker.
    tried.append((item.stage, item.eps, success))
    best = min(best, item.eps) if success else best
    distance = item.eps if success else math.inf
    outcome = Outcome(success, distance, margin_at(item.eps), min(steps_at(item.eps), 20))
    item = search.follow(case, item, outcome)
  return best, tried


@settings(max_examples=200, deadline=None)
@given(
  ratio=st.floats(0.01, 40.0),
  bend=st.floats(0.3, 3.0),
  haste=st.floats(0.0, 1.0),
  lies=st.sampled_from([None, 0.0, math.nan, -math.inf, -1e30]),
)
def test_bounds_close_to_the_tolerance_whatever_the_margins_say(ratio, bend, haste, lies):
  search, threshold = MinimumBudget(BIM, max_items=60), ratio * START["linf"]

  def margin(eps):
    return (eps / threshold) ** bend - 1 if lies is None or not eps else lies

  best, tried = _follow(search, threshold, margin, lambda eps: 2 + int(18 * haste))
  failed = max((eps for stage, eps, success in tried if not success and stage == 0), default=0.0)
  assert best - failed <= search.tolerance * best
  assert threshold <= best <= threshold / (1 - search.tolerance)
  assert len({eps for stage, eps, _ in tried if stage == 0}) == sum(stage == 0 for stage, _, _ in tried)


def test_a_straight_margin_takes_few_attacks():
  counts = []
  for ratio in np.geomspace(0.05, 30, 60):
    threshold = ratio * START["linf"]
    spare = lambda eps: 20 if eps < 1.02 * threshold else 8  # noqa: B023
    _, tried = _follow(MinimumBudget(BIM), threshold, lambda eps: eps / threshold - 1, spare)  # noqa: B023
    counts.append(sum(stage == 0 for stage, _, _ in tried))
  assert np.mean(counts) < 4 and max(counts) <= 8  # Five doublings and ten bisections are 15.


def test_it_gives_up_beyond_the_largest_budget_and_after_the_most_items():
  never, flat = math.inf, lambda eps: -1.0
  best, tried = _follow(MinimumBudget(BIM, largest=8.0), never, flat, lambda eps: 20)
  assert best == math.inf and 8.0 <= max(eps for _, eps, _ in tried) / START["linf"] <= 32.0
  _, tried = _follow(MinimumBudget(BIM, max_items=3), never, flat, lambda eps: 20)
  assert sum(stage == 0 for stage, _, _ in tried) == 3


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_it_finds_the_closed_form_minimum(norm):
  excess = md.excess(MinimumBudget(make_attack("bim", num_steps=20, step_size=0.15, norm=norm)))
  assert excess.min() > -1e-3 and excess.max() < 0.0102


def test_it_finds_what_bisection_finds_in_any_layout():
  classifier = testing.fixture()
  images, labels = testing.examples(classifier, 24)
  result = attack_images(MinimumBudget(BIM), classifier, images, labels, options=md.slots(16))
  assert result.success.all()

  def alone(i: int, scale: float) -> bool:
    part, eps = slice(i, i + 1), float(scale * result.distance[i])
    return attack_images(BIM, classifier, images[part], labels[part], ids=[i], eps=eps).robust[0]

  for scale, robust in ((0.985, True), (1.001, False)):
    at = np.array([alone(i, scale) for i in range(8)])
    assert np.mean(at == robust) > 0.8  # Budget attacks are not quite monotone in eps.
  order = np.random.default_rng(0).permutation(len(images))
  shuffled = attack_images(MinimumBudget(BIM), classifier, images[order], labels[order], ids=order, options=md.slots(8))
  np.testing.assert_allclose(shuffled.distance, result.distance[order], rtol=0.011)


@pytest.mark.parametrize("bad", [{"start": -1.0}, {"tolerance": 0.0}, {"tolerance": 1.0}, {"max_items": 0}])
def test_misuse_is_named(bad):
  with pytest.raises(InputError, match="a search needs"):
    MinimumBudget(BIM, **bad)


def test_minimal_attacks_are_refused():
  with pytest.raises(InputError, match="by itself"):
    MinimumBudget(make_attack("ddn"))
