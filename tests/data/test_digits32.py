"""The embedded digits are the same bytes everywhere, for ever."""

import hashlib

import numpy as np
import pytest
from sklearn.datasets import load_digits

from jaxrobust.data.digits32 import CLASSES, _stored_digits, bilinear_weights, load_test, load_train, split_ids

pytestmark = pytest.mark.smoke

TEST, TRAIN = load_test(), load_train()


def sha(array):
  return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()


def test_shapes_range_and_counts():
  for source, n in ((TEST, 500), (TRAIN, 1297)):
    assert source.images.shape == (n, 32, 32, 3) and source.images.dtype == np.float32
    assert source.images.min() == 0 and source.images.max() == 1
    assert source.num_classes == 10 and source.class_names[3] == "3"
    assert (source.images[..., 0] == source.images[..., 2]).all()
  assert (np.bincount(TEST.labels) == 50).all()
  assert (TEST.subset(30).labels == np.tile(np.arange(10), 3)).all()
  assert np.bincount(TRAIN.labels).tolist() == [128, 132, 127, 133, 131, 132, 131, 129, 124, 130]


def test_split_is_a_partition():
  test, train = split_ids(load_digits().target)
  assert sorted([*test, *train]) == list(range(1797))
  assert test[:5].tolist() == [1667, 70, 1427, 1347, 1777]


@pytest.mark.parametrize(
  ("source", "images", "labels", "fingerprint"),
  [
    (
      TEST,
      "ca6a741fe8273805613d4a383159f5370b068c6da8ec83032c372f645507893a",
      "f36a0c8489c1c3d0e5dac91f6050147fd98954ce2b24ccb66269cda2cae9a934",
      "97e535728eccae7f",
    ),
    (
      TRAIN,
      "5dce11deda1b119961bc458fad321465aa2d98675ea3c15a4eb24bda78c6cdbc",
      "1c9bc2628e572852c4837e20332a657b3669d82ae153e144c722b2b9d60f52ec",
      "0a1fc98b525c35f6",
    ),
  ],
  ids=["test", "train"],
)
def test_golden_bytes(source, images, labels, fingerprint):
  assert sha(source.images) == images
  assert sha(source.labels) == labels
  assert source.fingerprint() == fingerprint


def test_interpolation():
  weights = bilinear_weights(8, 32)
  np.testing.assert_array_equal(weights.sum(1), 1)
  assert (weights * 8 == np.round(weights * 8)).all()
  np.testing.assert_array_equal(weights[::-1, ::-1], weights)
  np.testing.assert_array_equal(bilinear_weights(5, 5), np.eye(5))
  # Away from the clamped edges a linear ramp stays linear.
  np.testing.assert_allclose(np.diff(weights @ np.arange(8))[2:-2], 0.25)


def test_the_file_is_read_as_scikit_learn_reads_it(monkeypatch):
  read = _stored_digits()
  monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
  for ours, theirs in zip(read, _stored_digits(), strict=True):
    np.testing.assert_array_equal(ours, theirs)


def test_every_value_is_exact():
  levels = TEST.images.astype(np.float64) * 1024
  assert (levels == np.round(levels)).all()


def test_images_still_show_their_digit():
  """Block means of the enlarged image recover the original well enough to name the class."""
  digits = load_digits()
  means = np.stack([digits.images[digits.target == c].mean(0) for c in range(CLASSES)]) / 16
  small = TEST.images[..., 0].reshape(-1, 8, 4, 8, 4).mean((2, 4))
  nearest = ((small[:, None] - means) ** 2).sum((2, 3)).argmin(1)
  assert (nearest == TEST.labels).mean() > 0.85
