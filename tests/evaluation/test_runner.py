"""Cells survive kill -9, are shared between processes, and refuse what does not match."""

from __future__ import annotations

import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from jaxrobust import testing
from jaxrobust.attacks.registry import make_attack
from jaxrobust.core.classifier import Classifier
from jaxrobust.core.errors import CellMismatchError, CorruptFileError, InputError, StoppedError, StorageError
from jaxrobust.data.source import ArraySource
from jaxrobust.engine.options import EngineOptions
from jaxrobust.engine.scheduler import Engine
from jaxrobust.engine.snapshot import restore_snapshot
from jaxrobust.evaluation import runner
from jaxrobust.evaluation.evaluate import evaluate
from jaxrobust.evaluation.job import RunOptions
from jaxrobust.evaluation.suites import attack_entry, clean_entry, entry_of, make_suite
from jaxrobust.evaluation.suites.suite import Setting
from jaxrobust.evaluation.verdicts import find_issues, summarize
from jaxrobust.results import load_result, load_results

ROOT = Path(__file__).parents[2]
OPTIONS = RunOptions(EngineOptions.for_platform(8), quiet=True)


def start(out: Path, **environment: str) -> subprocess.Popen:
  return subprocess.Popen(
    [sys.executable, "-m", "tests.evaluation.killable", str(out)],
    cwd=ROOT,
    env={**os.environ, **environment},
    stdout=subprocess.PIPE,
    stderr=subprocess.PIPE,
    text=True,
  )


def finish(process: subprocess.Popen) -> int:
  try:
    _, errors = process.communicate(timeout=240)
  except subprocess.TimeoutExpired:
    process.kill()
    raise
  assert process.returncode in (0, -signal.SIGKILL), errors[-2000:]
  return process.returncode


def verdict_files(root: Path) -> dict[str, bytes]:
  files = {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*.json")}
  return {name: text for name, text in files.items() if ".timing." not in name}


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
  out = tmp_path_factory.mktemp("whole")
  assert finish(start(out)) == 0
  return out


def test_killed_at_any_point_and_run_again_gives_byte_identical_verdicts(whole, tmp_path):
  kills = 0
  for kill_after in ("2", "7", "30"):
    kills += finish(start(tmp_path, KILL_AFTER=kill_after)) == -signal.SIGKILL
    if kills == 1:
      assert list(tmp_path.rglob("*.partial.npz")), "killed inside a cell that had saved its state"
  assert kills >= 2
  assert finish(start(tmp_path)) == 0
  assert verdict_files(tmp_path) == verdict_files(whole)
  assert not list(tmp_path.rglob("*.partial.npz")) and len(verdict_files(whole)) == 3


def stopping(original, after: int):
  """A function that asks this process to stop when it is called for the `after`-th time."""
  calls = itertools.count(1)

  def call(*args):
    if next(calls) == after:
      os.kill(os.getpid(), signal.SIGTERM)
    return original(*args)

  return call


@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize("after", [1, 3])
def test_asked_to_stop_inside_a_cell_it_saves_its_state_and_goes_on_later(
  data, tmp_path, monkeypatch, processes, after
):
  entry, resumed = attack_entry("pgd", "0.015", num_steps=9), []
  run = lambda out, process: evaluate(
    testing.fixture(), data, [entry], name="m", out=out, options=replace(OPTIONS, process=process, processes=processes)
  )
  for process in range(processes):
    run(tmp_path / "whole", process)
  for process in range(processes):
    with (
      monkeypatch.context() as patch,
      pytest.raises(StoppedError, match=r"asked to stop at \d+ % of made/clean/linf-pgd-9@0.015"),
    ):
      patch.setattr(Engine, "turn", stopping(Engine.turn, after))
      run(tmp_path / "stopped", process)
    assert list(tmp_path.rglob("*.partial.npz"))
    with monkeypatch.context() as patch:
      patch.setattr(runner, "restore_snapshot", lambda *args: resumed.append(restore_snapshot(*args)) or resumed[-1])
      run(tmp_path / "stopped", process)
  assert resumed == [True] * processes
  assert verdict_files(tmp_path / "stopped") == verdict_files(tmp_path / "whole")
  assert not list(tmp_path.rglob("*.partial.npz"))


def test_asked_to_stop_as_a_cell_ends_it_keeps_the_cell_and_begins_no_other(data, tmp_path, monkeypatch):
  suite = [clean_entry(), attack_entry("fgsm", "0.01")]
  monkeypatch.setattr(runner, "save_result", stopping(runner.save_result, 1))
  with pytest.raises(StoppedError, match="asked to stop after made/clean/none; run the same command to go on"):
    evaluate(testing.fixture(), data, suite, name="m", out=tmp_path, options=OPTIONS)
  assert len(list(load_results(tmp_path))) == 1


def test_two_processes_with_two_devices_each_agree_with_one(whole, tmp_path):
  with socket.socket() as probe:
    probe.bind(("127.0.0.1", 0))
    port = probe.getsockname()[1]
  settings = {"JAX_COORDINATOR_ADDRESS": f"127.0.0.1:{port}", "JAX_NUM_PROCESSES": "2", "JAX_NUM_CPU_DEVICES": "2"}
  processes = [start(tmp_path, JAX_PROCESS_ID=str(index), **settings) for index in range(2)]
  assert [finish(process) for process in processes] == [0, 0]
  assert verdict_files(tmp_path).keys() == verdict_files(whole).keys()
  for name in verdict_files(whole):
    one, two = load_result(whole / name), load_result(tmp_path / name)
    for flag in ("correct", "robust", "nan"):
      np.testing.assert_array_equal(one.examples[flag], two.examples[flag])
    assert one.summary["robust"] == two.summary["robust"]


@pytest.fixture(scope="module")
def data() -> ArraySource:
  images, labels = testing.examples(testing.fixture(), 20)
  return ArraySource("made", images, labels, testing.CLASSES)


@pytest.mark.parametrize("kind", ["flat", "mlp"])
def test_three_processes_write_what_one_writes(data, tmp_path, kind):
  classifier, entry = testing.fixture(kind), attack_entry("pgd", "0.05", num_steps=4)
  labels = data.labels if kind == "mlp" else np.asarray(classifier(data.images)).argmax(1)
  data = ArraySource("made", data.images, labels, testing.CLASSES)
  run = lambda out, **share: evaluate(
    classifier, data, [entry], name="m", out=out, options=replace(OPTIONS, save_images=4, **share)
  )
  (alone,) = run(tmp_path / "one").results
  for process in (2, 0, 1):
    run(tmp_path / "three", process=process, processes=3)
  files = [{path.relative_to(tmp_path / n): path for path in (tmp_path / n).rglob("*.*")} for n in ("one", "three")]
  assert files[0].keys() == files[1].keys() and verdict_files(tmp_path / "one") == verdict_files(tmp_path / "three")
  for name, path in files[0].items():
    if name.suffix == ".npz":
      assert path.read_bytes() == files[1][name].read_bytes() and np.load(path)["index"].tolist() == [0, 1, 2, 3]
  found = [(finding["kind"], finding["examples"]) for finding in alone.findings]
  assert (found, len(files[0])) == (([("zero-gradient", 20)], 2) if kind == "flat" else ([], 3))
  one, three = (json.loads(next(root.rglob("*.timing.json")).read_text()) for root in sorted(tmp_path.iterdir()))
  assert three["processes"] == 3 and three["forwards"] == one["forwards"] and 0 < three["useful_fraction"] <= 1


def test_more_processes_than_examples(data, tmp_path):
  run = lambda out, **share: evaluate(
    testing.fixture(), data, "basic", eps="0.01", n=1, name="m", out=out, options=replace(OPTIONS, **share)
  )
  run(tmp_path / "one")
  assert set(run(tmp_path / "three", process=1, processes=3).accuracies().values()) == {None}
  for process in (2, 0):
    run(tmp_path / "three", process=process, processes=3)
  assert verdict_files(tmp_path / "one") == verdict_files(tmp_path / "three")


def test_finished_cells_are_not_computed_again(data, tmp_path):
  suite = [clean_entry(), attack_entry("fgsm", "0.01")]
  first = evaluate(testing.fixture(), data, suite, name="m", out=tmp_path, options=OPTIONS)
  times = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.json")}
  second = evaluate(testing.fixture(), data, suite, name="m", out=tmp_path, options=OPTIONS)
  assert first.accuracies() == second.accuracies()
  assert times == {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.json")}
  assert len(list(load_results(tmp_path))) == 2


def test_another_model_under_the_same_name_is_refused(data, tmp_path):
  evaluate(testing.fixture(), data, "clean", name="m", out=tmp_path, options=OPTIONS)
  with pytest.raises(CellMismatchError, match="model_fingerprint"):
    evaluate(testing.fixture("flat"), data, "clean", name="m", out=tmp_path, options=OPTIONS)
  network = testing.fixture()
  named = lambda version: Classifier.from_function(network, testing.CLASSES, name="function", version=version)
  evaluate(named("1"), data, "clean", name="function", out=tmp_path, options=OPTIONS)
  with pytest.raises(CellMismatchError, match="model_fingerprint"):
    evaluate(named("2"), data, "clean", name="function", out=tmp_path, options=OPTIONS)


def test_a_function_without_a_name_is_computed_again_and_said_so_once(data, tmp_path):
  closing_over = lambda sign: Classifier.from_function(lambda x: sign * testing.fixture()(x), testing.CLASSES)
  run = lambda sign, **share: evaluate(
    closing_over(sign), data, "clean", name="closure", out=tmp_path, options=replace(OPTIONS, **share)
  )
  right = run(1.0).accuracies()["clean"]
  with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("default")
    assert run(-1.0).accuracies()["clean"] != right
  (line,) = (str(each.message) for each in told if "name=" in str(each.message))
  assert line.startswith("cells of 'closure' are computed again: ")
  with pytest.raises(InputError, match=r"several processes cannot share 'closure': .* pass name="):
    run(1.0, process=1, processes=2)


def test_the_saved_progress_of_a_function_without_a_name_is_not_continued(data, tmp_path, monkeypatch):
  suite = [attack_entry("pgd", "0.01", num_steps=3)]
  begun = []
  monkeypatch.setattr(runner, "load_partial", lambda path, config: begun.append(path))
  network = testing.fixture()
  unnamed = Classifier.from_function(lambda x: network(x), testing.CLASSES)
  for number, (classifier, looked) in enumerate(((unnamed, 0), (network, 1))):
    evaluate(classifier, data, suite, name=f"m{number}", out=tmp_path, options=OPTIONS)
    assert len(begun) == looked


def test_a_truncated_cell_is_named_and_the_others_are_kept(data, tmp_path):
  suite = [clean_entry(), attack_entry("fgsm", "0.01")]
  evaluate(testing.fixture(), data, suite, name="m", out=tmp_path, options=OPTIONS)
  clean, attacked = sorted(
    (p for p in tmp_path.rglob("*.json") if "timing" not in p.name), key=lambda p: "fgsm" in p.name
  )
  before = clean.read_bytes()
  attacked.write_bytes(attacked.read_bytes()[:100])
  with pytest.raises(CorruptFileError, match="remov"):
    evaluate(testing.fixture(), data, suite, name="m", out=tmp_path, options=OPTIONS)
  assert clean.read_bytes() == before
  attacked.unlink()
  evaluate(testing.fixture(), data, suite, name="m", out=tmp_path, options=OPTIONS)


def test_bad_requests_are_refused(data, tmp_path):
  blocked = tmp_path / "file"
  blocked.write_text("")
  with pytest.raises(StorageError, match="cannot"):
    evaluate(testing.fixture(), data, "clean", out=blocked / "results", options=OPTIONS)
  with pytest.raises(InputError, match="cannot take the first 21"):
    evaluate(testing.fixture(), data, "clean", n=21, options=OPTIONS)
  with pytest.raises(InputError, match="works within a budget"):
    entry_of(make_attack("fgsm"))
  with pytest.raises(KeyError, match="did you mean 'basic'"):
    make_suite("basics", Setting("digits32"))


def test_a_result_describes_itself(data, tmp_path):
  report = evaluate(testing.fixture(), data, [attack_entry("pgd", "4/255", num_steps=3)], out=tmp_path, options=OPTIONS)
  (result,) = report.results
  assert result.cell.id == "linf-pgd-3@4/255" and result.cell.n == 20 and result.cell.seed == 0
  assert result.config["attack"][0]["num_steps"] == 3 and result.config["data_fingerprint"] == data.fingerprint()
  assert result.provenance["versions"]["jax"] and result.provenance["platform"] == "cpu"
  assert result.summary["robust"] == int(result.examples["robust"].sum())


def test_summary_and_findings_follow_from_the_flags():
  yes, no = np.ones(4, bool), np.zeros(4, bool)
  examples = {
    "correct": yes,
    "robust": np.array([True, False, False, False]),
    "nan": np.array([False, True, False, False]),
    "disagree": no,
    "softmax": np.array([True, True, True, False]),
    "stage": np.array([-1, 0, 1, 1], np.int32),
    "queries": np.array([5, 1, 2, 0], np.int32),
    "flat": np.array([0, 0, 3, 0], np.int32),
  }
  assert summarize(examples)["robust_accuracy"] == 0.25 and summarize(examples)["nan"] == 1
  kinds = {finding["kind"]: finding for finding in find_issues(examples, ["gradient", "score"])}
  assert set(kinds) == {"nan", "zero-gradient", "softmax-output", "query-beats-gradient"}
  assert kinds["query-beats-gradient"]["examples"] == 2
  assert kinds["zero-gradient"]["fraction"] == pytest.approx(1 / 4) and kinds["softmax-output"]["fraction"] == 0.75
  # A minimal attack's hinge is flat behind the boundary: only where it found nothing is that a sign of anything.
  minimal = {**examples, "distance": np.array([np.inf, 0.5, 0.5, 0.5], np.float32)}
  assert "zero-gradient" not in {finding["kind"] for finding in find_issues(minimal, ["gradient"])}
  masked = {**minimal, "flat": np.array([2, 0, 0, 0], np.int32)}
  assert "zero-gradient" in {finding["kind"] for finding in find_issues(masked, ["gradient"])}
