"""The share of work done: rises to one, and counts what is left of those that stand."""

import numpy as np
import pytest

from jaxrobust import testing
from jaxrobust.attacks.minimum_budget import MinimumBudget
from jaxrobust.attacks.registry import make_attack
from jaxrobust.attacks.schedule import Cascade, CleanPass, Stage
from jaxrobust.data.source import ArraySource
from jaxrobust.engine.options import EngineOptions
from jaxrobust.engine.scheduler import Engine
from jaxrobust.engine.workload import passes_to_the_end, share_done
from jaxrobust.evaluation.job import ShareSource

pytestmark = pytest.mark.smoke

COUNT = 24


def engine(schedule, eps: float) -> Engine:
  classifier = testing.fixture()
  images, labels = testing.examples(classifier, COUNT)
  source = ShareSource(ArraySource("few", images, labels, testing.CLASSES), np.arange(COUNT), testing.SHAPE)
  return Engine(classifier, schedule, source, eps=eps, options=EngineOptions.for_platform(8, shrink=False))


def test_each_stage_counts_itself_and_what_follows():
  pgd, square = make_attack("pgd", num_steps=4), make_attack("square", num_steps=5)
  assert passes_to_the_end(Cascade((Stage(pgd), Stage(square)))) == [17, 5, 0]
  assert passes_to_the_end(MinimumBudget(square, max_items=7))[0] >= 7 * 5
  assert passes_to_the_end(CleanPass()) == [0]


@pytest.mark.parametrize("eps", [1e-6, 1.0])
def test_the_share_rises_to_one(eps):
  cascade = Cascade.restarts(make_attack("pgd", num_steps=4), 2)
  run = engine(cascade, eps)
  shares = []
  while run.turn():
    shares.append(share_done(run))
  assert shares[0] == 0.0 and share_done(run) == 1.0
  if eps < 1e-3:  # Nothing breaks: the estimate is exact, and equal turns add equal shares.
    worked = np.array([share for share in shares if 0 < share < 1])
    np.testing.assert_allclose(np.diff(np.unique(worked)), np.diff(np.unique(worked))[0], rtol=1e-6)


def test_without_work_it_is_the_examples_read():
  run = engine(CleanPass(), 0.0)
  run.turn()
  assert share_done(run) == 0.0, "sent off, not taken in"
  run.turn()
  assert share_done(run) == pytest.approx(8 / COUNT)
