"""What the tests of all minimal-distance attacks share: a linear classifier with known distances, and peers' runs."""

from __future__ import annotations

import functools

import jax.numpy as jnp
import numpy as np

from jaxrobust.attacks.schedule import Cascade, Stage
from jaxrobust.core.classifier import Classifier
from jaxrobust.engine.api import attack_images
from jaxrobust.engine.options import EngineOptions
from jaxrobust.engine.slots import advance
from jaxrobust.testing import CLASSES, examples, fixture
from tests import realdata

SHAPE = (4, 4, 2)
DUAL = {"l1": np.inf, "l2": 2, "linf": 1}
WEIGHTS = np.random.default_rng(0).normal(size=(32, 2)).astype(np.float32)


def _linear(weights, images):
  return (images - 0.5).reshape(len(images), -1) @ weights


def linear(gain: float = 1.0) -> Classifier:
  return Classifier.from_function(_linear, 2, variables=jnp.asarray(gain * WEIGHTS), input_shape=SHAPE)


def gray(count: int = 12):
  """Images far from the box's sides, and not too near to the boundary; with their labels."""
  images = np.random.default_rng(1).uniform(0.35, 0.65, (4 * count, *SHAPE)).astype(np.float32)
  logits = np.asarray(linear()(images))
  chosen = np.argsort(-np.abs(logits[:, 0] - logits[:, 1]))[:count]
  return images[chosen], logits[chosen].argmax(1)


def closed_form(norm: str, images, labels):
  """The distance to the nearest decision boundary: the least gap_j / |w_y - w_j|_dual."""
  logits = (images.astype(np.float64) - 0.5).reshape(len(images), -1) @ WEIGHTS
  rows = np.arange(len(images))
  gaps = logits[rows, labels][:, None] - logits
  slopes = np.linalg.norm(WEIGHTS[:, labels].T[:, :, None] - WEIGHTS[None], DUAL[norm], axis=1)
  ratio = gaps / np.where(slopes > 0, slopes, 1)
  ratio[rows, labels] = np.inf
  return ratio.min(1)


def slots(count: int) -> EngineOptions:
  return EngineOptions.for_platform(count, shrink=False)


def excess(attack, gain: float = 1.0):
  """How much farther than necessary each image was moved, on the linear classifier."""
  images, labels = gray()
  result = attack_images(attack, linear(gain), images, labels, options=slots(12))
  assert result.success.all() and result.correct.all()
  wanted = closed_form(attack.norm, images, labels)
  moved = (result.images.astype(np.float64) - images).reshape(len(images), -1)
  order = {"l1": 1, "l2": 2, "linf": np.inf}[attack.norm]
  np.testing.assert_allclose(result.distance, np.linalg.norm(moved, order, axis=1), rtol=1e-4)
  return result.distance / wanted - 1


def check_layouts(attack):
  """Distances do not depend on the batch, and every goal and budget shares one program."""
  classifier = fixture()
  images, labels = examples(classifier)
  alone = attack_images(attack, classifier, images, labels, options=slots(16))
  programs = advance._cache_size()
  assert alone.success.all()
  attack_images(attack, classifier, images[:3], labels[:3], eps=0.1, options=slots(16))
  cascade = Cascade((Stage(attack, rank=1), Stage(attack, rank=2)))
  steered = attack_images(cascade, classifier, images, labels, options=slots(16))
  assert steered.success.all()
  assert advance._cache_size() == programs
  order = np.random.default_rng(0).permutation(len(images))
  shuffled = attack_images(attack, classifier, images[order], labels[order], ids=order, options=slots(8))
  # Another slot count is another program, whose sums may be rounded otherwise.
  np.testing.assert_allclose(shuffled.distance, alone.distance[order], rtol=1e-2)
  assert np.median(np.abs(shuffled.distance / alone.distance[order] - 1)) < 1e-4
  return alone


def check_targeted(attack):
  """Every target is reached, never nearer than the nearest class at all."""
  classifier = fixture()
  images, labels = examples(classifier)
  targets = (labels + 1) % CLASSES
  result = attack_images(attack, classifier, images, labels, targets=targets, options=slots(16))
  assert result.success.all()
  np.testing.assert_array_equal(np.asarray(classifier(jnp.asarray(result.images))).argmax(1), targets)
  return result


@functools.cache
def ours(attack, count: int):
  """Our run on the first images of the reference network."""
  images, labels = realdata.fmnist_test(count)
  return attack_images(attack, realdata.fmnist_network(), images, labels)


def peer(name: str, count: int):
  """A peer's distances, infinity where it failed.

  foolbox hands back the image itself or an all-black image where it found nothing; the latter may happen to
  be misclassified, but is no answer of the method.
  """
  run = realdata.reference_runs()[name]
  count = min(count, run["n"])
  distance = np.array([np.inf if value is None else value for value in run["norm_per_example"][:count]])
  images, _ = realdata.fmnist_test(count)
  black = np.linalg.norm(images.reshape(count, -1), {"L1": 1, "L2": 2, "Linf": np.inf}[run["norm"]], axis=1)
  failed = realdata.reference_flags(name)[:count] | np.isclose(distance, black, rtol=1e-4)
  return np.where(failed, np.inf, distance)


def compare(attack, name: str, count: int):
  """Distances (ours, theirs) of the images that were correctly classified."""
  theirs = peer(name, count)
  result = ours(attack, len(theirs))
  assert result.images.min() >= 0 and result.images.max() <= 1
  return result.distance[result.correct], theirs[result.correct]
