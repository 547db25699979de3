"""Metrics against published constants, hand-computed examples and scikit-learn."""

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

from jaxrobust.core.errors import InputError
from jaxrobust.evaluation.metrics import accuracy, calibration, corruptions, flips, outliers, stability
from jaxrobust.noises import sequences, tables

PUBLISHED_CE = {
  "gaussian_noise": 0.886428,
  "shot_noise": 0.894468,
  "impulse_noise": 0.922640,
  "defocus_blur": 0.819880,
  "glass_blur": 0.826268,
  "motion_blur": 0.785948,
  "zoom_blur": 0.798360,
  "snow": 0.866816,
  "frost": 0.826572,
  "fog": 0.819324,
  "brightness": 0.564592,
  "contrast": 0.853204,
  "elastic_transform": 0.646056,
  "pixelate": 0.717840,
  "jpeg_compression": 0.606500,
}


def test_alexnet_rows_reproduce_the_published_means():
  assert set(corruptions.ALEXNET_ERRORS) == set(tables.BENCHMARK) == set(PUBLISHED_CE)
  assert set(corruptions.ALEXNET_EXTRA) == set(tables.EXTRA)
  for name, mean in PUBLISHED_CE.items():
    assert abs(np.mean(corruptions.ALEXNET_ERRORS[name]) - mean) < 1e-6


def test_alexnet_is_exactly_one_hundred_per_cent():
  assert corruptions.mean_corruption_error(corruptions.ALEXNET_ERRORS) == 1.0
  relative = corruptions.relative_mean_corruption_error(corruptions.ALEXNET_ERRORS, corruptions.ALEXNET_CLEAN_ERROR)
  assert relative == 1.0
  assert flips.mean_flip_rate(flips.ALEXNET_FLIPS) == pytest.approx(1.0, abs=1e-12)
  assert set(flips.ALEXNET_FLIPS) == set(sequences.BENCHMARK)
  assert {name for name in sequences.BENCHMARK + sequences.EXTRA if flips.is_noise(name)} == set(sequences.NOISE_LIKE)


def test_corruption_error_by_hand():
  errors = dict.fromkeys(tables.BENCHMARK, (0.5,) * 5)
  by_hand = np.mean([2.5 / sum(corruptions.ALEXNET_ERRORS[name]) for name in tables.BENCHMARK])
  assert corruptions.mean_corruption_error(errors) == pytest.approx(by_hand)
  assert corruptions.corruption_robustness(errors) == pytest.approx(1 - by_hand)
  assert corruptions.corruption_error("saturate", (0.6583,) * 5) == pytest.approx(1)
  with pytest.raises(InputError, match="needs all fifteen corruptions; missing: fog"):
    corruptions.mean_corruption_error({name: errors[name] for name in errors if name != "fog"})
  with pytest.raises(InputError, match="fractions"):
    corruptions.mean_corruption_accuracy({"fog": (50.0,)})
  with pytest.raises(InputError, match="need all 5"):
    corruptions.corruption_error("fog", (0.5,))


def reference_top5(ranks, noise):
  """The authors' definition, frame by frame: ranks count from 1."""
  limit, total = lambda k: min(k, 5), []
  for sequence in ranks:
    before = sequence[0]
    for after in sequence[1:]:
      moved = after[np.argsort(before)]
      total.append(sum(abs(limit(i) - limit(moved[i] - 1)) for i in range(5)))
      before = before if noise else after
  return np.mean(total)


@pytest.mark.parametrize("noise", [True, False])
def test_flips_and_top5_distance(noise):
  rng = np.random.RandomState(0)
  scores = rng.rand(4, 7, 12)
  ranks = np.argsort(np.argsort(-scores, -1), -1) + 1
  assert flips.top5_distance(scores, noise) == pytest.approx(reference_top5(ranks, noise))
  assert flips.top5_distance(np.repeat(scores[:, :1], 5, 1), noise) == 0
  predictions = np.array([[3, 3, 3, 3], [1, 2, 1, 2]])
  assert flips.flip_probability(predictions, noise) == pytest.approx((0 + (2 / 3 if noise else 1)) / 2)
  assert flips.flip_probability(predictions, noise=False, step=2) == 0
  with pytest.raises(InputError, match="frames >= 2"):
    flips.flip_probability(predictions[:, :1], noise)


def test_outliers_equal_scikit_learn():
  rng = np.random.RandomState(0)
  for digits in (1, 6):  # With and without ties.
    inlier, outlier = rng.randn(300).round(digits), (rng.randn(70) + 0.7).round(digits)
    truth, scores = np.r_[np.zeros(300), np.ones(70)], np.r_[inlier, outlier]
    assert outliers.average_precision(inlier, outlier) == pytest.approx(average_precision_score(truth, scores))
    assert outliers.area_under_roc(inlier, outlier) == pytest.approx(roc_auc_score(truth, scores))
  assert outliers.average_precision(np.zeros(2), np.ones(2)) == 1
  with pytest.raises(InputError, match="both inliers and outliers"):
    outliers.average_precision(np.zeros(0), np.ones(2))


def test_calibration_by_hand():
  confidence, correct = np.full(200, 0.75), np.r_[np.ones(100), np.zeros(100)]
  assert calibration.expected_calibration_error(confidence, correct) == pytest.approx(0.25)
  assert calibration.rms_calibration_error(confidence, correct, per_bin=200) == pytest.approx(0.25)
  assert calibration.rms_calibration_error(confidence, correct) == pytest.approx(np.sqrt(0.25**2 / 2 + 0.75**2 / 2))
  assert calibration.rms_calibration_error(np.array([0.5]), np.array([1])) == 0.5
  with pytest.raises(InputError, match="in \\[0, 1\\]"):
    calibration.expected_calibration_error(np.array([1.5]), np.array([1]))


def test_stability_by_hand():
  assert stability.negative_standard_deviation(np.array([0.6, 0.8, np.nan])) == pytest.approx(-0.1)
  correct, clean = np.array([[0, 1, 1], [1, 1, 1], [1, 1, 0]]), np.array([1, 1, 0])
  np.testing.assert_allclose(stability.low_pass_curve(correct, clean), [0.5, 1, 1])
  never = np.zeros((3, 3), int)
  assert stability.frequency_bias(np.array([2, 4, 8]), never, clean) == 8
  with pytest.raises(InputError, match="rising"):
    stability.frequency_bias(np.array([2, 2, 8]), correct, clean)


def test_accuracy_over_a_subset_of_classes():
  logits = np.eye(5)[[4, 1, 2]] + 0.1 * np.eye(5)[[0, 0, 0]]
  some = accuracy.subset_accuracies(logits, np.array([0, 1, 1]), np.array([0, 1]))
  assert some == {"accuracy-5-way": pytest.approx(1 / 3), "accuracy-2-way": pytest.approx(2 / 3)}
  several = accuracy.subset_accuracies(logits, np.array([0, 1, 1]), np.array([0, 1]), [(0, 4), (1,), (2, 1)])
  assert several["accuracy-5-way"] == 1
  with pytest.raises(InputError, match="outside the 5 classes"):
    accuracy.subset_accuracies(logits, np.array([0, 1, 7]), np.array([0, 1]))
