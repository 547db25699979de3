"""Accuracy without labels: where it holds, where it must warn, and from cells."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from jaxrobust.analysis.agreement_line import METHODS, cells_estimate, estimate_accuracy, pairs, pairwise_agreement
from jaxrobust.analysis.confidence_estimates import (
  average_threshold,
  cells_confidence_estimate,
  difference_of_confidences,
)
from jaxrobust.analysis.zoo_estimates import ESTIMATES, estimate_zoo
from jaxrobust.core.errors import InputError, UnknownNameError
from jaxrobust.results import Cell, Result


def networks(rng, shift, models=12, n=6000, classes=10):
  """Predictions of models of different noise on images of different difficulty, and the labels."""
  labels = rng.integers(0, classes, n)
  signal = rng.exponential(3.0, n) * (1 - shift)
  logits = rng.normal(size=(n, classes))
  logits[np.arange(n), labels] += signal
  noise = np.linspace(0.2, 1.6, models)[:, None, None]
  return (logits + noise * rng.normal(size=(models, n, classes))).argmax(2), labels


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("scale", ["raw", "probit"])
def test_agreement_predicts_better_than_no_shift_at_all(method, scale):
  rng = np.random.default_rng(0)
  (here, labels), (there, others) = networks(rng, 0.0), networks(rng, 0.4)
  accuracy, wanted = (here == labels).mean(1), (there == others).mean(1)
  found = estimate_accuracy(accuracy, here, there, method, scale)
  assert not found.warning and found.line.n == 66 and found.method == method
  assert np.abs(found.accuracy - wanted).mean() < 0.5 * np.abs(accuracy - wanted).mean()
  assert ((found.accuracy >= 0) & (found.accuracy <= 1)).all()


def test_agreement_that_does_not_fit_is_warned_of():
  rng = np.random.default_rng(0)
  here, labels = networks(rng, 0.0)
  there = rng.integers(0, 10, here.shape)
  found = estimate_accuracy((here == labels).mean(1), here, there)
  assert "agreement is not on a line (R² 0." in found.warning and "do not trust" in found.warning
  # Better models that agree less: a line, but no sensible one.
  other = here[::-1]
  found = estimate_accuracy((here == labels).mean(1), here, other, scale="raw", least_r2=-1.0)
  assert found.line.slope < 0 and "agreement falls as ID agreement rises" in found.warning


def test_agreement_counts_no_prediction_as_agreeing_with_nothing():
  assert pairwise_agreement(np.array([[0, -1], [0, -1]])).tolist() == [0.5]
  assert pairs(1).shape == (0, 2)
  with pytest.raises(InputError, match=r"\(models, examples\)"):
    pairwise_agreement(np.zeros(3, int))


def test_what_agreement_cannot_be_read_from_is_refused():
  two = np.array([[0, 1, 2], [0, 1, 1]])
  with pytest.raises(InputError, match="OOD agreement over ID agreement needs at least 3 models with both, got 1"):
    estimate_accuracy([0.5, 0.6], two, two)
  with pytest.raises(InputError, match="of the same models, got 3, 2 and 2"):
    estimate_accuracy([0.5, 0.6, 0.7], two, two)
  with pytest.raises(UnknownNameError, match="aline-s"):
    estimate_accuracy([0.5, 0.6], two, two, "aline")


def test_calibrated_confidences_predict_accuracy():
  rng = np.random.default_rng(0)
  here, there = rng.beta(8, 2, 20_000), rng.beta(4, 2, 20_000)
  right, wanted = rng.random(20_000) < here, (rng.random(20_000) < there).mean()
  assert difference_of_confidences(here, right, there) == pytest.approx(wanted, abs=0.01)
  # Without a shift both give the accuracy itself.
  assert average_threshold(here, right, here) == pytest.approx(right.mean())
  assert difference_of_confidences(here, right, here) == pytest.approx(right.mean())
  assert average_threshold(here, right, there) < right.mean()


def test_confidences_at_the_ends_and_refused():
  assert average_threshold([0.5, 0.6], [0, 0], [0.9]) == 0 and average_threshold([0.5, 0.6], [1, 1], [0.55]) == 1
  assert difference_of_confidences([0.9], [0], [0.1]) == 0
  for bad in (([0.5], [1, 0], [0.5]), ([], [], [0.5]), ([0.5], [1], []), ([np.nan], [1], [0.5])):
    with pytest.raises(InputError):
      average_threshold(*bad)


def cell(model, predictions, labels, data="digits", attack="none", fingerprint="f", **examples):
  right = predictions == labels
  arrays = {"correct": right, "robust": right, "prediction": predictions.astype(np.int32), **examples}
  name = Cell(model=model, data=data, attack=attack, eps=None if attack == "none" else "8/255", n=len(labels))
  return Result(cell=name, config={"data_fingerprint": fingerprint}, summary={}, examples=arrays)


@pytest.mark.parametrize("attack", ["none", "linf-mm5"])
def test_estimates_from_cells(attack):
  rng = np.random.default_rng(0)
  (here, labels), (there, others) = networks(rng, 0.0, 6, 2000), networks(rng, 0.4, 6, 1500)
  score = rng.random(2000).astype(np.float32)
  first = [cell(f"m{at}", row, labels, attack=attack, confidence=score) for at, row in enumerate(here)]
  second = [
    cell(f"m{at}", row, others, "shifted", attack, "g", confidence=score[:1500]) for at, row in enumerate(there)
  ]
  found = cells_estimate(first, second)
  assert np.allclose(found.accuracy, estimate_accuracy((here == labels).mean(1), here, there).accuracy)
  for method in ("atc", "doc"):
    assert 0 <= cells_confidence_estimate(first[0], second[0], method) <= 1
  with pytest.raises(InputError, match="same models"):
    cells_estimate(first, second[::-1])
  with pytest.raises(InputError, match="different data"):
    cells_estimate(first[:2], [second[0], cell("m1", there[1], others, "shifted", attack, "h")])
  with pytest.raises(InputError, match="without confidences"):
    cells_confidence_estimate(first[0], cell("m0", there[0], others))
  with pytest.raises(InputError, match="one model"):
    cells_confidence_estimate(first[0], second[1])
  with pytest.raises(InputError, match="atc or doc"):
    cells_confidence_estimate(first[0], second[0], "cot")


def test_an_image_without_a_confidence_is_never_sure():
  labels = np.zeros(4, int)
  one = cell("m", np.array([0, 0, 1, 1]), labels, confidence=np.array([0.9, 0.8, 0.3, np.nan], np.float32))
  other = cell("m", labels, labels, confidence=np.array([0.9, np.nan, np.nan, 0.7], np.float32))
  # Two of four are wrong, so that the threshold is 0.8.
  assert cells_confidence_estimate(one, other, "atc") == 0.25
  assert cells_confidence_estimate(one, other, "doc") == pytest.approx(0.5 - (2.0 - 1.6) / 4)


def zoo_cells(attack="none", conditions=(("fog-1-t32", 0.2), ("fog-2-t32", 0.4)), models=6):
  """Cells of a zoo under severities of fog."""
  rng = np.random.default_rng(0)
  cells = []
  for condition, shift in (("clean", 0.0), *conditions):
    predictions, labels = networks(rng, shift, models, 1500)
    for at, row in enumerate(predictions):
      # Confidence knows nothing of what is right.
      one = cell(
        f"m{at}", row, labels, attack=attack, fingerprint=condition, confidence=rng.random(1500).astype(np.float32)
      )
      cells.append(dataclasses.replace(one, cell=dataclasses.replace(one.cell, condition=condition)))
  return cells


@pytest.mark.parametrize(("attack", "kind"), [("none", "accuracy"), ("linf-mm5", "robustness")])
def test_a_zoo_is_estimated_shift_by_shift(attack, kind):
  cells = zoo_cells(attack)
  (found,) = estimate_zoo(cells)
  assert found[:4] == (kind, "fog", 2, 6) and tuple(found.errors) == ESTIMATES
  # By hand: the first two severities, one estimator.
  at = lambda condition: [one for one in cells if one.cell.condition == condition]
  error = []
  for condition in ("fog-1-t32", "fog-2-t32"):
    truth = np.array([one.examples["robust"].mean() for one in at(condition)])
    error.append(100 * np.abs(cells_estimate(at("clean"), at(condition)).accuracy - truth).mean())
  assert found.errors["aline-s"] == pytest.approx(np.mean(error))
  assert found.errors["aline-s"] < found.errors["id"] / 2 and found.errors["doc"] == pytest.approx(
    found.errors["id"], abs=2
  )
  assert found.r2 > 0.95 and found.warned == 0


@pytest.mark.parametrize(("alike", "warned"), [(("fog-2-t32",), 1), (("fog-1-t32", "fog-2-t32"), 2)])
def test_networks_that_all_agree_have_no_line_and_a_warning(alike, warned):
  same = lambda one: one.examples | {"prediction": np.zeros_like(one.examples["prediction"])}
  cells = [dataclasses.replace(one, examples=same(one)) if one.cell.condition in alike else one for one in zoo_cells()]
  (found,), (usual,) = estimate_zoo(cells), estimate_zoo(zoo_cells())
  assert found.warned == warned and found.errors["id"] == usual.errors["id"]
  assert np.isfinite(found.errors["aline-s"]) == np.isfinite(found.r2) == (warned == 1)
  with pytest.raises(UnknownNameError, match="unknown scale"):
    estimate_zoo(cells, scale="log")


def test_zoos_that_cannot_be_estimated_are_refused():
  cells = zoo_cells(models=4)
  two = [one for one in cells if one.cell.model in ("m0", "m1")]
  bare = [dataclasses.replace(one, examples={"robust": one.examples["robust"]}) for one in cells]
  for bad in (two, bare):
    with pytest.raises(InputError, match="of 3 models: nothing to estimate from"):
      estimate_zoo(bad)
