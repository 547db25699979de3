"""Transfer cells: images made once per source by the engine, verified, judged by every target."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrobust.analysis.transfer_map import source_and_attack, transfer_map
from jaxrobust.attacks.pgd import PGD
from jaxrobust.core.budget import Budget
from jaxrobust.core.classifier import Classifier
from jaxrobust.core.errors import InputError, VerificationError
from jaxrobust.data.judging import Judging
from jaxrobust.data.registry import load_data
from jaxrobust.data.source import ArraySource
from jaxrobust.engine.options import EngineOptions
from jaxrobust.engine.universal import fit
from jaxrobust.evaluation import transfer, transfer_job
from jaxrobust.evaluation.context import ModelContext
from jaxrobust.evaluation.job import RunOptions
from jaxrobust.evaluation.kinds import make_job
from jaxrobust.evaluation.runner import run_job
from jaxrobust.evaluation.suites import attack_entry, entry_of, targeted
from jaxrobust.evaluation.targets import random_targets
from jaxrobust.evaluation.transfer import TransferSpec, run_transfer
from jaxrobust.evaluation.transfer_suites import transfer_curves
from jaxrobust.results import load_results
from tests.evaluation.digits_model import digits_classifier

ROOT = Path(__file__).parents[2]
OPTIONS = RunOptions(EngineOptions.for_platform(16), quiet=True)
ENTRY = attack_entry("pgd", "48/255", num_steps=4)
EPS = "48/255"


@pytest.fixture(scope="module")
def models():
  return {"a": ModelContext(digits_classifier(1)), "b": ModelContext(digits_classifier(7))}


@pytest.fixture(scope="module")
def data():
  return load_data("digits32").subset(20)


def crafted(classifier, data, steps: int, total: int, budget: str = EPS) -> np.ndarray:
  """BIM's image after some of its steps, by a plain loop."""
  images, labels = data.take(np.arange(len(data)))
  eps = Budget.parse(budget).value

  def loss(x):
    return -jnp.take_along_axis(jax.nn.log_softmax(classifier(x)), labels[:, None], 1).sum()

  x = images
  for _ in range(steps):
    x = np.asarray(x + 2.0 / total * eps * np.sign(jax.grad(loss)(x)))
    x = np.clip(np.clip(x, images - eps, images + eps), 0, 1)
  return x


def test_images_are_made_once_per_source_and_cells_are_kept(models, data, tmp_path, monkeypatch):
  made = []
  plain = transfer.TransferRun
  monkeypatch.setattr(transfer, "TransferRun", lambda *args: made.append(1) or plain(*args))
  first = run_transfer(models, data, ENTRY, tmp_path, OPTIONS)
  assert len(made) == 2 and set(first) == {(s, t, EPS) for s in "ab" for t in "ab"}
  files = {path: path.read_bytes() for path in tmp_path.rglob("*.json")}
  run_transfer(models, data, ENTRY, tmp_path, OPTIONS)
  assert len(made) == 2 and files == {path: path.read_bytes() for path in tmp_path.rglob("*.json")}
  found = transfer_map(load_results(tmp_path))
  assert found.sources == found.targets == ("a", "b")
  # What an image was made against, it fools best.
  assert found.success[0, 0] >= found.success[1, 0] and found.success[1, 1] >= found.success[0, 1]
  cell = first["a", "b", EPS].cell
  assert cell.model == "b" and source_and_attack(cell) == ("a", "linf-pgd-4")
  assert first["a", "b", EPS].config["transfer"] == {"source": "a", "source_fingerprint": models["a"].fingerprint}


def test_verdicts_after_every_number_of_steps_and_at_every_budget_equal_a_plain_loop(models, data, tmp_path):
  bim = attack_entry("bim", EPS, num_steps=4)
  spec = TransferSpec(bim, (Budget.parse("16/255"), Budget.parse(EPS)), (1, 3, 4))
  results = run_transfer({"a": models["a"]}, data, spec, tmp_path, OPTIONS, targets={"b": models["b"]})
  assert set(results) == {("a", "b", "16/255"), ("a", "b", EPS)}
  clean, labels = data.take(np.arange(20))
  classifier = models["b"].classifier
  right = np.asarray(classifier(clean)).argmax(1) == labels
  known = np.asarray(models["a"].classifier(clean)).argmax(1) == labels
  for eps in ("16/255", EPS):
    examples = results["a", "b", eps].examples
    np.testing.assert_array_equal(examples["source_correct"], known)
    np.testing.assert_array_equal(examples["correct"], right)
    for steps in (1, 3, 4):
      after = np.asarray(classifier(crafted(models["a"].classifier, data, steps, 4, eps))).argmax(1)
      np.testing.assert_array_equal(examples[f"robust_after@{steps}"], right & (after == labels))
    np.testing.assert_array_equal(examples["robust"], examples["robust_after@4"])
    np.testing.assert_array_equal(examples["prediction"], after)


def test_targets_are_classes_to_reach(models, data, tmp_path):
  wide = load_data("digits32").subset(60)
  entry = targeted(attack_entry("bim", "0.5", num_steps=8))
  result = run_transfer({"a": models["a"]}, wide, TransferSpec(entry, stops=(1, 8)), tmp_path, OPTIONS)["a", "a", "0.5"]
  assert result.cell.attack == "transfer:a:linf-bim-8,targeted"
  _, labels = wide.take(np.arange(60))
  wanted = random_targets(0, np.arange(60), labels, 10)
  reached = result.examples["prediction"] == wanted
  assert reached.any()
  np.testing.assert_array_equal(result.examples["robust"], result.examples["correct"] & ~reached)
  for name in ("reached", "reached_after@8"):
    np.testing.assert_array_equal(result.examples[name], reached)
  assert result.examples["reached_after@1"].sum() < reached.sum()
  # Of all examples (ARES, Eq. 4), those among them that are wrong without an attack.
  assert (reached & ~result.examples["correct"]).any()
  assert transfer_map([result]).success[0, 0] == reached.mean()
  curves = transfer_curves([result])
  assert curves[f"steps, success rate: {result.cell.attack}@0.5"]["y"][-1] == reached.mean()
  assert curves[f"steps: {result.cell.attack}@0.5"]["y"][-1] == result.examples["robust"].mean()


def test_cascades_show_their_verified_images(models, data, tmp_path):
  result = run_transfer(models, data, attack_entry("mm3", EPS, num_steps=3), tmp_path, OPTIONS)["a", "b", EPS]
  assert result.summary["robust"] <= result.summary["correct"]
  own = run_transfer(models, data, attack_entry("mm3", EPS, num_steps=3), tmp_path, OPTIONS)["a", "a", EPS]
  assert own.summary["robust"] < own.summary["correct"]


@pytest.mark.parametrize("slots", [4, 16])
def test_a_cascade_shown_to_its_own_source_breaks_what_it_broke_there(models, data, tmp_path, slots):
  entry, options = attack_entry("mm3", EPS, num_steps=3), replace(OPTIONS, engine=EngineOptions.for_platform(slots))
  shown = run_transfer({"a": models["a"]}, data, entry, tmp_path, options)["a", "a", EPS]
  own = run_job(make_job(models["a"], "a", data, entry, tmp_path, options))
  np.testing.assert_array_equal(shown.examples["robust"], own.examples["robust"])
  assert own.examples["robust"].sum() < own.examples["correct"].sum()


def test_an_image_does_not_depend_on_how_many_there_are(models, data, tmp_path):
  few = run_transfer(models, data.subset(5), ENTRY, tmp_path / "few", OPTIONS)["a", "b", EPS]
  all_of_them = run_transfer(models, data, ENTRY, tmp_path / "all", OPTIONS)["a", "b", EPS]
  np.testing.assert_array_equal(few.examples["prediction"], all_of_them.examples["prediction"][:5])


def test_two_processes_share_the_examples(models, data, tmp_path):
  whole = run_transfer(models, data, ENTRY, tmp_path / "one", OPTIONS)
  for process in range(2):
    parts = run_transfer(models, data, ENTRY, tmp_path / "two", replace(OPTIONS, process=process, processes=2))
  for key, result in whole.items():
    for name in ("correct", "robust", "prediction"):
      np.testing.assert_array_equal(parts[key].examples[name], result.examples[name])


def test_a_universal_perturbation_is_trained_on_the_source_and_has_a_fooling_rate(models, tmp_path):
  wide = load_data("digits32").subset(60)
  entry = attack_entry("uap", EPS, images=40, batch=10)
  results = run_transfer({"a": models["a"]}, wide, entry, tmp_path, OPTIONS, targets=models)
  result = results["a", "a", EPS]
  examples = result.examples
  assert result.cell.attack == "transfer:a:linf-uap,images=40,batch=10" and examples["fitted"].sum() == 30
  np.testing.assert_array_equal(examples["fooled"], examples["prediction"] != examples["clean_prediction"])
  assert result.summary["fooling_rate"] == examples["fooled"][30:].mean() > 0.1
  assert "fooling_rate" in results["a", "b", EPS].summary
  again = run_transfer({"a": models["a"]}, wide, entry, tmp_path / "again", OPTIONS)["a", "a", EPS]
  np.testing.assert_array_equal(again.examples["prediction"], examples["prediction"])
  with pytest.raises(InputError, match="trained for one budget"):
    TransferSpec(entry, (Budget("1/255"), Budget("2/255")))


def test_a_universal_perturbation_is_trained_among_the_classes_that_answers_are_judged_by(
  models, tmp_path, monkeypatch
):
  seen = []

  def recorded(attack, classifier, images, labels, *more):
    seen.append((classifier, labels))
    return fit(attack, classifier, images, labels, *more)

  monkeypatch.setattr(transfer_job, "fit", recorded)
  images, labels = load_data("digits32").take(np.arange(60))
  some = np.isin(labels, (3, 5))
  two = ArraySource("two", images[some], labels[some], 10, judging=Judging(((3,), (5,))))
  entry = attack_entry("uap", EPS, images=4, batch=2, epochs=1)
  run_transfer({"a": models["a"]}, two, entry, tmp_path, OPTIONS)
  ((classifier, goals),) = seen
  assert classifier.num_classes == 2 and set(goals.tolist()) == {0, 1}


@dataclass(frozen=True)
class Outside(PGD):
  """Leaves its ball at the end."""

  def candidate(self, problem, state):
    return jnp.full_like(problem.image, 0.5)


def test_images_outside_the_ball_and_attacks_without_one_are_refused(models, data, tmp_path):
  with pytest.raises(InputError, match="within a budget"):
    run_transfer(models, data, attack_entry("ddn", num_steps=3), tmp_path, OPTIONS)
  with pytest.raises(InputError, match="stops must rise from 1 to 4"):
    TransferSpec(ENTRY, stops=(2, 9))
  with pytest.raises(VerificationError, match="outside its ball for example"):
    run_transfer(models, data, entry_of(Outside(num_steps=2), EPS), tmp_path, OPTIONS)


def test_a_randomized_source_draws_anew_at_every_step(tmp_path):
  seen: list[tuple] = []

  def noisy(images, key):
    jax.debug.callback(lambda words: seen.append(tuple(np.asarray(words).ravel().tolist())), jax.random.key_data(key))
    return images.reshape(len(images), -1)[:, :3] + 0.1 * jax.random.normal(key, (3,))

  source = ModelContext(Classifier.from_function(noisy, 3, randomized=True))
  target = ModelContext(Classifier.from_function(lambda x: x.reshape(len(x), -1)[:, :3], 3))
  images = np.random.default_rng(0).uniform(0.2, 0.8, (2, 4, 4, 3)).astype(np.float32)
  data = ArraySource("few", images, np.zeros(2, int), 3)
  options = replace(OPTIONS, engine=EngineOptions.for_platform(2), samples=3)
  run_transfer({"s": source}, data, attack_entry("bim", "0.1", num_steps=5), tmp_path, options, targets={"t": target})
  jax.effects_barrier()
  draws = [words for words in seen if any(words)]
  assert len(set(draws)) == 2 * 5 * 3, "images × steps × samples"


def start(out: Path, **environment: str) -> int:
  done = subprocess.run(
    [sys.executable, "-m", "tests.evaluation.transferring", str(out)],
    cwd=ROOT,
    env={**os.environ, **environment},
    capture_output=True,
    text=True,
    timeout=300,
    check=False,
  )
  assert done.returncode in (0, -signal.SIGKILL), done.stderr[-2000:]
  return done.returncode


def cells(root: Path) -> dict[str, bytes]:
  return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*.json") if ".timing." not in p.name}


@pytest.mark.ci
def test_killed_it_goes_on_to_the_same_bytes_and_four_devices_agree_with_one(tmp_path):
  assert start(tmp_path / "whole") == 0
  kills = sum(start(tmp_path / "killed", KILL_AFTER=str(turns)) == -signal.SIGKILL for turns in (3, 9))
  assert kills == 2 and list((tmp_path / "killed").rglob("*.partial.npz"))
  assert start(tmp_path / "killed") == 0
  assert cells(tmp_path / "killed") == cells(tmp_path / "whole") and len(cells(tmp_path / "whole")) == 4
  assert not list((tmp_path / "killed").rglob("*.partial.npz"))
  assert start(tmp_path / "four", JAX_NUM_CPU_DEVICES="4") == 0
  for one, four in zip(load_results(tmp_path / "whole"), load_results(tmp_path / "four"), strict=True):
    for name in ("correct", "robust", "prediction", "robust_after@1", "robust_after@2", "robust_after@4"):
      np.testing.assert_array_equal(one.examples[name], four.examples[name])
