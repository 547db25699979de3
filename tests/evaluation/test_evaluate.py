"""`evaluate`: what data a classifier can be evaluated on, and what its targets are."""

from __future__ import annotations

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest

from jaxrobust import testing
from jaxrobust.core.classifier import Classifier
from jaxrobust.core.compilation import count_compilations
from jaxrobust.core.errors import InputError
from jaxrobust.data.source import ArraySource
from jaxrobust.engine.options import EngineOptions
from jaxrobust.evaluation.context import ModelContext
from jaxrobust.evaluation.evaluate import evaluate
from jaxrobust.evaluation.job import RunOptions, ShareSource
from jaxrobust.evaluation.kinds import make_job
from jaxrobust.evaluation.suites import attack_entry, clean_entry, targeted
from jaxrobust.evaluation.targets import random_targets
from jaxrobust.evaluation.transfer import run_transfer

OPTIONS = RunOptions(EngineOptions.for_platform(8), quiet=True)
PGD = attack_entry("pgd", "0.1", num_steps=2)
COUNT = 12


def source(labels: np.ndarray, num_classes: int) -> ArraySource:
  return ArraySource("made", testing.examples(testing.fixture(), COUNT)[0], labels, num_classes)


class Liar(ArraySource):
  """Hands out labels that it has no classes for."""

  def take(self, ids):
    images, labels = super().take(ids)
    return images, labels + 12


def test_labels_that_the_classifier_has_no_class_for_are_refused(tmp_path):
  labels = np.where(np.arange(COUNT) == 7, 12, 0)
  data = source(labels, 13)
  np.savez(tmp_path / "far.npz", images=data.images, labels=labels)
  np.savez(tmp_path / "told.npz", images=data.images, labels=labels % 5, num_classes=np.array(13))
  classes = r"has 13 classes, labels 0 to 12; the classifier has 5, 0 to 4"
  cases = [
    (data, classes),
    (f"npz:{tmp_path / 'far.npz'}", classes),
    (f"npz:{tmp_path / 'told.npz'}", classes),
    ((data.images, labels), "labels range from 0 to 12; expected 0 to 4"),
    (Liar("liar", data.images, labels % 5, 5), "labels range from 12 to 14; expected 0 to 4"),
  ]
  for given, text in cases:
    with count_compilations() as count, pytest.raises(InputError, match=text) as error:
      evaluate(testing.fixture(), given, [clean_entry(), PGD], options=OPTIONS)
    assert count.programs == 0 and "\n" not in str(error.value)
  models = {name: ModelContext(testing.fixture()) for name in "ab"}
  with pytest.raises(InputError, match=classes):
    run_transfer(models, data, PGD, tmp_path, OPTIONS)


def test_data_may_have_some_of_the_classes_only():
  report = evaluate(testing.fixture(), source(np.arange(COUNT) % 2, 2), [clean_entry(), PGD], options=OPTIONS)
  assert len(report.results) == 2


def test_random_targets_are_drawn_from_the_classes_of_the_classifier(tmp_path):
  entry, classifier = targeted(PGD), testing.fixture()
  few, all_of_them = (source(np.arange(COUNT) % 2, classes) for classes in (2, testing.CLASSES))
  jobs = [make_job(ModelContext(classifier), "m", data, entry, tmp_path, OPTIONS) for data in (few, all_of_them)]
  drawn = [ShareSource(job.data, np.arange(COUNT), testing.SHAPE, 0).take(np.arange(COUNT)) for job in jobs]
  np.testing.assert_array_equal(drawn[0].targets, drawn[1].targets)
  assert drawn[0].targets.max() > 1 and (drawn[0].targets != drawn[0].labels).all()
  assert jobs[1].config["data_fingerprint"] == all_of_them.fingerprint() != jobs[0].config["data_fingerprint"]
  plain = make_job(ModelContext(classifier), "m", few, PGD, tmp_path, OPTIONS)
  assert plain.config["data_fingerprint"] == few.fingerprint()
  # One class in the data, which has no other to be a target, is enough too.
  (result,) = evaluate(classifier, source(np.zeros(COUNT, int), 1), [entry], n=6, options=OPTIONS).results
  assert result.cell.n == 6 and result.cell.condition == "clean"


def test_a_classifier_of_one_class_has_no_targets():
  with pytest.raises(InputError, match="at least 2 classes, got 1"):
    random_targets(0, np.arange(3), np.zeros(3, int), 1)


def test_calls_that_are_no_calls_are_refused_in_one_line():
  classifier = testing.fixture()
  images, labels = testing.examples(classifier, 4)
  cases = [
    ((classifier, [labels, images]), r"images have the shape \(4,\); expected \(N, H, W, C\)"),
    ((classifier, (images, labels, labels)), r"an example is a ndarray; pass .* \(images, labels\)"),
    ((classifier, images), "an example is a ndarray"),
    ((classifier, 3.5), r"data is a float; pass .* \(images, labels\)"),
    ((lambda x: x, (images, labels)), "classifier is a function; wrap it with Classifier.from_function"),
    ((classifier, (images, labels[:2])), "4 images but 2 labels"),
  ]
  for arguments, text in cases:
    with pytest.raises(InputError, match=text) as error:
      evaluate(*arguments)
    assert "\n" not in str(error.value)
  with pytest.raises(InputError, match="samples must be at least 1, got 0"):
    RunOptions(samples=0)


def test_transfer_refuses_images_that_a_classifier_does_not_take_before_any_are_made(tmp_path):
  fits = testing.fixture()
  other = replace(Classifier.from_function(lambda x: jnp.zeros((len(x), 5)), 5), input_shape=(32, 32, 3))
  data = source(np.arange(COUNT) % 5, 5)
  with count_compilations() as count, pytest.raises(InputError, match=r"the classifier takes \(32, 32, 3\)"):
    run_transfer({"a": ModelContext(fits), "b": ModelContext(other)}, data, PGD, tmp_path, OPTIONS)
  assert count.programs == 0 and not list(tmp_path.rglob("*.json"))
