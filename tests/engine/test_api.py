"""`attack_images`: what it counts, and what it hands back."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from jaxrobust import testing
from jaxrobust.attacks.registry import make_attack
from jaxrobust.attacks.schedule import CleanPass
from jaxrobust.core.classifier import Classifier
from jaxrobust.engine.api import ArraySource, attack_images
from jaxrobust.engine.options import EngineOptions
from jaxrobust.engine.scheduler import Engine

PGD = make_attack("pgd", num_steps=3)
SLOTS = EngineOptions.for_platform(8)


def constant(level: float) -> Classifier:
  return Classifier.from_function(lambda x: jnp.full((len(x), 4), level), 4)


@pytest.mark.parametrize("level", [0.0, 3.0])
def test_a_tie_is_right_only_for_the_class_that_is_predicted(level):
  images, labels = testing.examples(testing.fixture(), 12)[0], np.arange(12) % 4
  result = attack_images(PGD, constant(level), images, labels, eps=0.1, options=SLOTS)
  for flags in (result.correct, result.robust, ~result.success):
    np.testing.assert_array_equal(flags, labels == 0)
  assert (result.distance[labels > 0] == 0).all() and (result.queries[labels > 0] == 0).all()
  np.testing.assert_array_equal(result.images, images)


def test_kept_clean_logits_say_the_same_of_a_tie():
  images, labels = testing.examples(testing.fixture(), 12)[0], np.arange(12) % 4
  source, kept = ArraySource(np.arange(12), images, labels, np.full(12, -1)), {}
  for _ in range(2):
    engine = Engine(constant(0.0), CleanPass(), source, eps=0.0, options=SLOTS, clean=kept)
    right = {verdict.position: (verdict.correct, not verdict.success) for verdict in engine.run()}
    assert all(right[row] == (label == 0, label == 0) for row, label in enumerate(labels))
  assert engine.stats.judged == 0
