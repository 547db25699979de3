"""Data under noise: deterministic per (seed, id), whatever the request."""

import numpy as np
import pytest

from jaxrobust.core.errors import InputError, UnknownNameError
from jaxrobust.data import load_data
from jaxrobust.evaluation.conditions import NoisySource, parse_condition, under


def test_noise_belongs_to_the_example():
  data = load_data("digits32")
  noisy = under(data, "gaussian_noise-3", seed=5)
  assert isinstance(noisy, NoisySource) and noisy.condition == "gaussian_noise-3-t32"
  assert (noisy.name, noisy.num_classes, len(noisy)) == ("digits32", 10, 500)
  images, labels = noisy.take(np.arange(70))
  again, again_labels = noisy.subset(40).take(np.array([39, 3]))
  np.testing.assert_array_equal(images[[39, 3]], again)
  np.testing.assert_array_equal(labels[[39, 3]], again_labels)
  assert (images != data.take(np.arange(70))[0]).any() and noisy.take(np.zeros(0, int))[0].shape[0] == 0
  other = under(data, "gaussian_noise-3", seed=6)
  assert (other.take(np.array([3]))[0] != again[1]).any() and other.fingerprint() != noisy.fingerprint()


def test_conditions_by_name():
  data = load_data("digits32")
  assert under(data, "none") is data
  assert parse_condition("fog-2-t224-q85", 32).id == "fog-2-q85"
  with pytest.raises(InputError, match="of the form corruption-severity"):
    parse_condition("fog-three", 32)
  with pytest.raises(InputError, match="from 1 to 5"):
    parse_condition("fog", 32)
  with pytest.raises(UnknownNameError, match="did you mean 'fog'"):
    parse_condition("fogg-2", 32)


def test_a_cell_names_its_condition_and_keeps_apart_from_the_clean_one(tmp_path):
  from jaxrobust.core.classifier import Classifier
  from jaxrobust.evaluation.evaluate import evaluate
  from jaxrobust.evaluation.job import RunOptions

  digits = load_data("digits32").subset(20)
  classifier = Classifier.from_function(lambda x: x.mean((1, 2, 3))[:, None] * np.arange(10.0), num_classes=10)
  quiet = RunOptions(quiet=True)
  reports = [
    evaluate(classifier, digits, "clean", condition=condition, out=tmp_path, options=quiet)
    for condition in ("none", "brightness-5")
  ]
  assert [report.results[0].cell.condition for report in reports] == ["clean", "brightness-5-t32"]
  assert len(list(tmp_path.rglob("*.json"))) >= 2
