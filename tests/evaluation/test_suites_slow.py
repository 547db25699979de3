"""Suites on a convolutional network, in full form where that is affordable, and killed in the middle."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from jaxrobust.engine.options import EngineOptions
from jaxrobust.evaluation.evaluate import evaluate
from jaxrobust.evaluation.job import RunOptions
from jaxrobust.evaluation.suites.summary import summarize_suite
from jaxrobust.models.zoo import load_classifier
from jaxrobust.training.config import TrainConfig
from jaxrobust.training.loop import train

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def network(tmp_path_factory):
  return load_classifier(train(TrainConfig(epochs=4), tmp_path_factory.mktemp("network") / "model", quiet=True))


@pytest.mark.slow
@pytest.mark.parametrize(
  "suite", ["oodrb", "robustart,small,scaled", "ares,small", "ares-bench,small", "nas-cell,small"]
)
def test_every_suite_completes_on_a_convolutional_network(network, suite, tmp_path):
  options = RunOptions(EngineOptions.for_platform(16), quiet=True)
  report = evaluate(network, "digits32", suite, n=16, name="cnn", out=tmp_path, options=options)
  assert not report.missing and len(list(tmp_path.rglob("*.timing.json"))) <= len(report.results)
  summary = summarize_suite(report)
  assert summary["metrics"] and len(summary["cells"]) <= len(report.results)
  if suite == "oodrb":
    attacked = [cell.result for cell in report.cells if cell.entry.attack == "linf-mm5"]
    # The 80 evaluations of the paper; the larger budget of the threat shift has the same attack.
    assert len(attacked) == 81 and 0 <= summary["metrics"]["OOD_d"] <= 1
    robust = [r.examples["robust"] & ~r.examples["correct"] for r in attacked]
    assert not np.any(robust)


def files(folder: Path) -> dict[str, bytes]:
  found = {str(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_file()}
  return {name: path.read_bytes() for name, path in found.items() if ".timing." not in name and "npz" not in name}


@pytest.mark.slow
@pytest.mark.parametrize("suite", ["oodrb,small", "nas-cell,small"])
def test_killed_and_run_again_a_suite_gives_the_identical_store(suite, tmp_path):
  def start(out: Path, kill_after: int = 0) -> int:
    environment = {**os.environ, "KILL_AFTER": str(kill_after), "PYTHONPATH": str(ROOT)}
    script = Path(__file__).with_name("killable_suite.py")
    done = subprocess.run(
      [sys.executable, str(script), str(out), suite], env=environment, capture_output=True, text=True, timeout=1200
    )
    assert done.returncode in (0, -signal.SIGKILL), done.stderr[-2000:]
    return done.returncode

  assert start(tmp_path / "whole") == 0
  killed = tmp_path / "killed"
  assert [start(killed, after) for after in (3, 40)] == [-signal.SIGKILL] * 2
  assert start(killed) == 0
  assert files(killed) == files(tmp_path / "whole")
  for path in (tmp_path / "whole").rglob("*.images.npz"):
    other = killed / path.relative_to(tmp_path / "whole")
    with np.load(path) as one, np.load(other) as two:
      for name in one:
        np.testing.assert_array_equal(one[name], two[name])
