"""Measures of images: what a linear classifier must have, the same in any batch, and added to cells that are there."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pytest

from jaxrobust.core.classifier import Classifier
from jaxrobust.core.errors import InputError, UnknownNameError
from jaxrobust.data.registry import load_data
from jaxrobust.engine.options import EngineOptions
from jaxrobust.evaluation import runner
from jaxrobust.evaluation.evaluate import evaluate
from jaxrobust.evaluation.job import RunOptions
from jaxrobust.evaluation.measures import find_measure, measure_images
from jaxrobust.evaluation.suites import clean_entry
from jaxrobust.evaluation.suites.summary import summarize_suite, write_summary
from jaxrobust.results import load_results, query
from tests.evaluation.digits_model import digits_classifier

OPTIONS = RunOptions(EngineOptions.for_platform(8), quiet=True)
N = 12
MEASURES = ("jacobian-16", "gradient")


@pytest.fixture(scope="module")
def classifier():
  return digits_classifier()


def run(classifier, suite, out, options=OPTIONS):
  return evaluate(classifier, "digits32", suite, n=N, name="means", out=out, options=options)


def measured(root):
  """The arrays of the clean cell."""
  (found,) = (result for result in load_results(root) if result.cell.condition == "clean")
  return found.examples


def by_hand(classifier):
  """Norms of the logits' and the loss's gradient of a linear classifier with weights W: |W|_F, |W^T (p - y)|_1."""
  images, labels = load_data("digits32").subset(N).take(np.arange(N))
  weights = float(classifier.variables["scale"]) * np.asarray(classifier.variables["means"], np.float64)
  logits = np.asarray(classifier(images), np.float64)
  shares = np.exp(logits - logits.max(1, keepdims=True))
  shares /= shares.sum(1, keepdims=True)
  return np.linalg.norm(weights), np.abs((shares - np.eye(10)[labels]) @ weights).sum(1)


def test_the_suite_measures_what_is_known_of_a_linear_classifier(classifier, tmp_path):
  report = run(classifier, "sensitivity,small", tmp_path)
  summary = summarize_suite(report)
  norm, gradients = by_hand(classifier)
  found = measured(tmp_path)
  np.testing.assert_allclose(found["jacobian-16"], norm, rtol=1e-5)
  np.testing.assert_allclose(found["gradient"], gradients, rtol=1e-4)
  metrics = summary["metrics"]
  assert metrics["Jacobian norm"]["value"] == pytest.approx(norm, rel=1e-5) and metrics["Jacobian norm"]["n"] == N
  mean, half = gradients.mean(), 1.96 * gradients.std(ddof=1) / np.sqrt(N)
  assert [metrics["gradient norm"][end] for end in ("low", "value", "high")] == pytest.approx(
    [mean - half, mean, mean + half], rel=1e-4
  )
  assert 4 <= metrics["frequency bias"] <= 16 and set(summary["units"]) == set(metrics) - {"accuracy"}
  write_summary(tmp_path, report, summary)
  rows = query(tmp_path, "SELECT metric, value, n FROM metrics WHERE suite = 'sensitivity-small'").set_index("metric")
  assert rows.loc["Jacobian norm", "value"] == pytest.approx(norm, rel=1e-5) and rows.loc["gradient norm", "n"] == N


def test_measures_are_added_to_a_stored_cell_and_never_made_twice(classifier, tmp_path, monkeypatch):
  run(classifier, "clean", tmp_path)
  before = measured(tmp_path)
  monkeypatch.setattr(runner, "run_together", lambda *_: pytest.fail("the clean pass is there"))
  entry = replace(clean_entry(), measures=MEASURES[:1])
  lines: list[str] = []
  evaluate(classifier, "digits32", [entry], n=N, name="means", out=tmp_path, options=OPTIONS, announce=lines.append)
  assert "none of them there" in lines[0], "what is not measured yet is still to be done"
  run(classifier, [replace(entry, measures=MEASURES[1:])], tmp_path)
  after = measured(tmp_path)
  assert set(after) == {*before, *MEASURES}
  assert all(np.array_equal(before[name], after[name], equal_nan=before[name].dtype.kind == "f") for name in before)
  monkeypatch.setattr("jaxrobust.evaluation.measures.measure_images", lambda *_: pytest.fail("measured already"))
  # In one run both entries are one cell.
  run(classifier, [clean_entry(), entry], tmp_path)


def test_processes_that_share_a_cell_measure_the_same(classifier, tmp_path):
  entry = [replace(clean_entry(), measures=("jacobian-4",))]
  run(classifier, entry, tmp_path / "one")
  for process in (1, 0):
    run(classifier, entry, tmp_path / "two", replace(OPTIONS, process=process, processes=2))
  np.testing.assert_array_equal(measured(tmp_path / "one")["jacobian-4"], measured(tmp_path / "two")["jacobian-4"])


def projections(rows=slice(None), **options):
  """Of digits, by a classifier as loading leaves it: on one device, where images go to all of them."""
  classifier = jax.device_put(digits_classifier(), jax.devices()[0])
  ids = np.arange(40)[rows]
  return measure_images("jacobian-4", classifier, *load_data("digits32").take(ids), ids, **options)


def test_projections_belong_to_the_example_and_are_right_on_average(classifier):
  found = projections()
  np.testing.assert_array_equal(projections(slice(None, None, -7)), found[::-7])
  assert len(set(found.tolist())) == 40, "each has projections of its own"
  assert np.mean(found**2) == pytest.approx(by_hand(classifier)[0] ** 2, rel=0.15)
  assert not np.array_equal(found, projections(seed=1))


def test_three_devices_measure_the_same_as_one():
  here = "from tests.evaluation.test_measures import jax, projections"
  done = subprocess.run(
    [sys.executable, "-c", f"{here}; print(jax.device_count(), projections().tobytes().hex())"],
    cwd=Path(__file__).parents[2],
    env={**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=3"},
    capture_output=True,
    text=True,
    timeout=300,
    check=False,
  )
  assert done.stdout.split() == ["3", projections().tobytes().hex()], done.stderr[-2000:]


def test_what_cannot_be_measured_is_refused(classifier, tmp_path):
  entry = replace(clean_entry(), measures=("jacobian",))
  with pytest.raises(UnknownNameError, match="unknown measure 'jacobian'; did you mean 'jacobian-16'"):
    run(classifier, [entry], tmp_path)
  for name in ("jacobian-016", "jacobian--1", "gradient-2"):
    with pytest.raises(UnknownNameError):
      find_measure(name)
  random = Classifier.from_function(
    lambda x, key: x.reshape(len(x), -1)[:, :10], 10, randomized=True, name="random", version="1"
  )
  with pytest.raises(InputError, match="of a randomized classifier"):
    run(random, "sensitivity,small", tmp_path)
  with pytest.raises(InputError, match="not of sequences"):
    evaluate(
      classifier, "digits32", [replace(entry, measures=MEASURES)], n=N, out=tmp_path, options=OPTIONS,
      condition="sequence-tilt",
    )  # fmt: skip
