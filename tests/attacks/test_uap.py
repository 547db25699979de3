"""Universal perturbations: by hand on a linear classifier, and as any other attack once they are trained."""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

from jaxrobust import testing
from jaxrobust.attacks.registry import attack_config, make_attack
from jaxrobust.core.classifier import Classifier
from jaxrobust.core.errors import InputError
from jaxrobust.engine.api import attack_images
from jaxrobust.engine.options import EngineOptions
from jaxrobust.engine.universal import fit

SHAPE = (4, 4, 3)
DIRECTION = np.random.default_rng(0).normal(size=SHAPE).astype(np.float32)
LINEAR = Classifier.from_function(
  lambda w, x: jnp.stack([-(x * w).sum((1, 2, 3)), (x * w).sum((1, 2, 3))], 1), 2, variables=jnp.asarray(DIRECTION)
)
IMAGES = np.random.default_rng(1).uniform(0.3, 0.7, (30, *SHAPE)).astype(np.float32)


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_on_a_linear_classifier_it_is_the_steepest_direction(norm):
  labels = np.zeros(30, int)
  unit = np.sign(DIRECTION) if norm == "linf" else DIRECTION / np.linalg.norm(DIRECTION)
  attack = fit(make_attack("uap", norm=norm, batch=10), LINEAR, IMAGES, labels, 0.1)
  np.testing.assert_allclose(attack.perturbation.values, 0.1 * unit, atol=2e-6)
  towards = fit(attack, LINEAR, IMAGES, labels, 0.1, targets=labels)
  np.testing.assert_allclose(towards.perturbation.values, -0.1 * unit, atol=2e-6)
  assert hash(attack) != hash(towards) and attack_config(attack) == attack_config(towards)


def test_once_trained_it_keeps_the_contract():
  classifier = testing.fixture()
  images, labels = testing.examples(classifier, 64)
  attack = make_attack("uap", batch=16, epochs=5)
  trained = fit(attack, classifier, images, labels, 0.015)
  assert np.abs(trained.perturbation.values).max() <= 0.015 + 1e-7
  assert trained == fit(attack, classifier, images, labels, 0.015) == dataclasses.replace(trained)
  testing.check_attack(trained, 0.015)


def test_untrained_and_without_images_it_is_refused():
  attack, options = make_attack("uap"), EngineOptions.for_platform(8)
  with pytest.raises(InputError, match="uap is trained before it is shown"):
    attack_images(attack, LINEAR, IMAGES, np.zeros(30, int), eps=0.1, options=options)
  with pytest.raises(InputError, match="needs images to be trained on"):
    fit(attack, LINEAR, IMAGES[:0], np.zeros(0, int), 0.1)
