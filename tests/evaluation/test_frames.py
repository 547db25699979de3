"""The frames of sequences as the engine reads them."""

from __future__ import annotations

import numpy as np
import pytest

from jaxrobust.core.classifier import Classifier
from jaxrobust.core.errors import InputError
from jaxrobust.data.registry import load_data
from jaxrobust.evaluation.context import ModelContext
from jaxrobust.evaluation.evaluate import evaluate
from jaxrobust.evaluation.job import RunOptions
from jaxrobust.evaluation.kinds import make_job
from jaxrobust.evaluation.sequence_job import SequenceRun
from jaxrobust.evaluation.sequences import PerturbedSource, sequence_source
from jaxrobust.evaluation.suites import clean_entry
from jaxrobust.evaluation.suites.suite import Setting, make_suite
from tests.evaluation.digits_model import digits_classifier


def test_labels_are_read_with_their_frames_and_not_all_images_at_once(tmp_path, monkeypatch):
  data = sequence_source(load_data("digits32").subset(40), "tilt", 32, 0)
  taken, plain = [], PerturbedSource.take
  monkeypatch.setattr(PerturbedSource, "take", lambda self, ids: taken.append(len(ids)) or plain(self, ids))
  job = make_job(ModelContext(digits_classifier(1)), "m", data, clean_entry(), tmp_path, RunOptions())
  run = SequenceRun(job, np.arange(40))
  assert max(taken) == 1
  rows = run.frames.take(np.arange(35 * run.frames.count, 37 * run.frames.count))
  np.testing.assert_array_equal(rows.labels, np.repeat(data.take(np.array([35, 36]))[1], run.frames.count))
  run.engine.reader.close()


def test_stored_sequences_are_evaluated_by_name(tmp_path, monkeypatch):
  frames = np.random.RandomState(0).randint(0, 256, (4, 3, 32, 32, 3)).astype(np.uint8)
  frames[:2] = frames[:2, :1]  # Nothing moves in the first two.
  for name in ("cifar10", "cifar10-p"):
    (tmp_path / name).mkdir()
  np.savez(tmp_path / "cifar10" / "test.npz", images=frames[:, 0], labels=np.arange(4))
  np.save(tmp_path / "cifar10-p" / "tilt.npy", frames)
  monkeypatch.setenv("JAXROBUST_DATASETS", str(tmp_path))
  data, quiet = load_data("cifar10-p:tilt"), RunOptions(quiet=True)
  brightness = lambda x: -((x.mean((1, 2, 3))[:, None] * 1e4 % 10 - np.arange(10.0)) ** 2)
  classifier = Classifier.from_function(brightness, 10, name="brightness")
  (result,) = evaluate(classifier, data, "clean", out=tmp_path / "out", options=quiet).results
  expected = np.asarray(classifier(frames.reshape(-1, 32, 32, 3) / np.float32(255))).argmax(1).reshape(4, 3)
  np.testing.assert_allclose(result.examples["flips"], (expected[:, 1:] != expected[:, :-1]).mean(1))
  assert (
    result.cell.data == "cifar10-p:tilt" and result.examples["flips"][:2].max() == 0 < result.examples["flips"].max()
  )
  with pytest.raises(InputError, match="which are not attacked: use --suite clean"):
    evaluate(classifier, data, "basic", out=tmp_path / "out", options=quiet)
  with pytest.raises(InputError, match="holds perturbation sequences already"):
    evaluate(classifier, data, "clean", condition="fog-3", out=tmp_path / "out", options=quiet)


def test_robustart_asks_for_official_sequences_where_there_are_some():
  for data, text, part in [
    ("imagenet", "robustart", ("imagenet-p:tilt", "none")),
    ("imagenet@5000", "robustart,generated", ("imagenet@5000", "sequence-tilt")),
    ("digits32", "robustart,scaled", ("digits32", "sequence-tilt")),
  ]:
    found = [(p.data, p.condition) for p in make_suite(text, Setting(data)).parts if p.group == "sequence"]
    assert part in found and len(found) == 10
