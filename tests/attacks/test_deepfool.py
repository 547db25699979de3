"""DeepFool: closed-form minima of a linear classifier, and foolbox's distances on a real network."""

from __future__ import annotations

import numpy as np
import pytest

from jaxrobust.attacks.deepfool import DeepFool
from jaxrobust.attacks.registry import make_attack
from jaxrobust.core.errors import InputError, UnknownNameError
from jaxrobust.core.types import Cost
from jaxrobust.engine.api import attack_images
from tests import realdata
from tests.attacks.test_fab import SLOTS, closed_form, linear
from tests.realdata import needs_data


@pytest.fixture(scope="module")
def problem():
  classifier, weights, offset = linear(0)
  x = np.random.default_rng(1).uniform(0.45, 0.55, (24, 4, 4, 1)).astype(np.float32)
  labels = np.asarray(classifier(x)).argmax(1)
  return classifier, x, labels, weights, offset


@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_linear_minimum(problem, norm):
  classifier, x, labels, weights, offset = problem
  best = closed_form(norm, x, labels, weights, offset)
  result = attack_images(DeepFool(norm), classifier, x, labels, options=SLOTS)
  assert result.success.all() and (result.queries == 3).all()
  np.testing.assert_array_less(best, result.distance)
  np.testing.assert_array_less(result.distance, 1.01 * best + 2e-4)


@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_without_refinement_the_overshoot_stays(problem, norm):
  classifier, x, labels, weights, offset = problem
  best = closed_form(norm, x, labels, weights, offset)
  result = attack_images(DeepFool(norm, refine=False), classifier, x, labels, options=SLOTS)
  np.testing.assert_allclose(result.distance, 1.02 * (best + 1e-4), rtol=1e-4)


def test_targets_are_reached(problem):
  classifier, x, labels, *_ = problem
  targets = (labels + 1) % 4
  result = attack_images(DeepFool("l2"), classifier, x, labels, targets=targets, options=SLOTS)
  assert result.success.all()
  assert np.array_equal(np.asarray(classifier(result.images)).argmax(1), targets)


def test_settings():
  assert DeepFool(candidates=4).cost == Cost(1, 3)
  with pytest.raises(InputError, match="candidates"):
    DeepFool(candidates=1)
  with pytest.raises(UnknownNameError):
    make_attack("deepfool", norm="l1")


@needs_data
@pytest.mark.slow
@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_distances_of_foolbox(norm):
  x, y = realdata.fmnist_test(300)
  theirs = np.array(realdata.reference_runs()[f"foolbox-torch/deepfool_{norm}"]["norm_per_example"])[:300]
  plain = attack_images(DeepFool(norm, refine=False), realdata.fmnist_network(), x, y)
  correct = plain.correct
  # The recorded distances have five decimals.
  assert np.isclose(plain.distance, theirs, rtol=1e-3, atol=1e-5)[correct].mean() >= 0.99
  refined = attack_images(DeepFool(norm), realdata.fmnist_network(), x, y)
  assert refined.success.mean() >= 0.99
  assert np.median(refined.distance[correct]) <= np.median(theirs[correct])
