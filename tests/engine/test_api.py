"""`attack_images`: what it counts, and what it hands back."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrobust import testing
from jaxrobust.attacks.registry import make_attack
from jaxrobust.attacks.schedule import CleanPass
from jaxrobust.core.budget import BALL_ATOL, BALL_RTOL
from jaxrobust.core.classifier import Classifier
from jaxrobust.core.compilation import count_compilations
from jaxrobust.core.errors import JaxrobustError
from jaxrobust.engine.api import ExampleArrays, attack_images
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
  source, kept = ExampleArrays(np.arange(12), images, labels, np.full(12, -1)), {}
  for _ in range(2):
    engine = Engine(constant(0.0), CleanPass(), source, eps=0.0, options=SLOTS, clean=kept)
    right = {verdict.position: (verdict.correct, not verdict.success) for verdict in engine.run()}
    assert all(right[row] == (label == 0, label == 0) for row, label in enumerate(labels))
  assert engine.stats.judged == 0


def stripes(images):
  """Gray images are class 0, by little; the nearest of class 1 have a stripe pattern that moves all pixels alike."""
  columns = images.mean((1, 3))
  pattern = columns[:, ::2].sum(1) - columns[:, 1::2].sum(1)
  return jnp.stack([jnp.full(len(images), 1e-4), pattern], 1)


def test_a_verified_success_counts_as_broken_however_large_the_image():
  """Pixels are rounded alike here, which carries them further beyond a small ball than one pixel could be."""
  images = np.full((4, 96, 96, 3), 0.75, np.float32)
  attack, model = make_attack("fgsm", norm="l2"), Classifier.from_function(stripes, 2)
  result = attack_images(attack, model, images, np.zeros(4, int), eps=0.001, options=SLOTS)
  assert (result.distance > 0.001 * (1 + BALL_RTOL) + BALL_ATOL).all() and np.isfinite(result.distance).all()
  assert result.success.all() and not result.robust.any()


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_images_of_other_float_types_are_attacked_and_handed_back_in_float32(kind):
  classifier = testing.fixture()
  images = testing.examples(classifier, 12)[0].astype(kind)
  single = images.astype(np.float32)
  labels = np.asarray(classifier(jnp.asarray(single))).argmax(1)
  result = attack_images(PGD, classifier, images, labels, eps=0.015, options=SLOTS)
  assert result.images.dtype == np.float32 and result.success.any()
  assert np.abs(result.images - single).max() <= 0.015 + 1e-7
  np.testing.assert_array_equal(np.asarray(classifier(jnp.asarray(result.images))).argmax(1) != labels, result.success)


@pytest.mark.parametrize(("given", "traced"), [({}, "highest"), ({"precision": "bfloat16"}, "bfloat16")])
def test_products_are_traced_in_the_precision_asked_for(given, traced):
  """By default in full float32, which a TPU does not use unless told."""
  seen = []

  def logits(images):
    seen.append(jax.config.jax_default_matmul_precision)
    return images.mean((1, 2))

  images = testing.examples(testing.fixture(), 4)[0]
  attack_images(PGD, Classifier.from_function(logits, 3), images, np.zeros(4, int), eps=0.1, options=SLOTS, **given)
  # The first look at the classifier is for shapes alone.
  assert len(seen) > 2 and set(seen[1:]) == {traced}


def test_the_distance_of_a_minimal_attack_is_kept_beyond_the_budget():
  classifier = testing.fixture()
  images, labels = testing.examples(classifier, 8)
  free = attack_images(make_attack("deepfool"), classifier, images, labels, options=SLOTS)
  bound = attack_images(make_attack("deepfool"), classifier, images, labels, eps=1e-4, options=SLOTS)
  np.testing.assert_array_equal(bound.distance, free.distance)
  np.testing.assert_array_equal(bound.images, images)
  assert free.success.any() and not bound.success.any() and bound.robust.all()


def test_calls_that_are_no_calls_are_refused_in_one_line():
  classifier = testing.fixture()
  images, labels = testing.examples(classifier, 4)
  good = {"attack": PGD, "classifier": classifier, "images": images, "labels": labels, "eps": 0.1, "options": SLOTS}
  cases = [
    ({"attack": "pgd"}, r"'pgd' is a name; pass make_attack\('pgd'\)"),
    ({"attack": 7}, "attack is a int"),
    ({"attack": type(PGD)}, r"attack is the class PGD; pass one of it: PGD\(\)"),
    ({"classifier": lambda x: x}, "classifier is a function; wrap it with Classifier.from_function"),
    ({"ids": np.arange(3)}, "4 images but 3 ids"),
    ({"ids": np.arange(4.0)}, "ids are float64; expected integers"),
    ({"ids": 5}, r"ids have the shape \(\)"),
    ({"samples": 0}, "samples must be at least 1, got 0"),
    ({"precision": "higest"}, "did you mean 'highest'"),
  ]
  for change, text in cases:
    with count_compilations() as count, pytest.raises(JaxrobustError, match=text) as error:
      attack_images(**{**good, **change})
    assert count.programs == 0 and "\n" not in str(error.value), change
