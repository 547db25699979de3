"""Transfer cells: images made once per source, verified, judged by every target."""

from __future__ import annotations

import numpy as np
import pytest

from jaxrobust.analysis.agreement import cells_agreement
from jaxrobust.analysis.transfer_map import source_and_attack, transfer_map
from jaxrobust.core.errors import InputError, VerificationError
from jaxrobust.data.registry import load_data
from jaxrobust.engine.options import EngineOptions
from jaxrobust.evaluation import transfer
from jaxrobust.evaluation.job import RunOptions
from jaxrobust.evaluation.shared import Shared
from jaxrobust.evaluation.suites import attack_entry
from jaxrobust.results import load_results
from tests.evaluation.digits_model import digits_classifier

OPTIONS = RunOptions(EngineOptions.for_platform(16), quiet=True)
ENTRY = attack_entry("pgd", "48/255", num_steps=4)


@pytest.fixture(scope="module")
def models():
  return {"a": Shared(digits_classifier(1)), "b": Shared(digits_classifier(7))}


@pytest.fixture(scope="module")
def data():
  return load_data("digits32").subset(20)


def test_images_are_made_once_per_source_and_cells_are_kept(models, data, tmp_path, monkeypatch):
  crafted = []
  plain = transfer.craft
  monkeypatch.setattr(transfer, "craft", lambda *args: crafted.append(1) or plain(*args))
  first = transfer.run_transfer(models, data, ENTRY, tmp_path, OPTIONS)
  assert len(crafted) == 2 and set(first) == {("a", "a"), ("a", "b"), ("b", "a"), ("b", "b")}
  files = {path: path.read_bytes() for path in tmp_path.rglob("*.json")}
  transfer.run_transfer(models, data, ENTRY, tmp_path, OPTIONS)
  assert len(crafted) == 2 and files == {path: path.read_bytes() for path in tmp_path.rglob("*.json")}
  found = transfer_map(load_results(tmp_path))
  assert found.sources == found.targets == ("a", "b")
  # What an image was made against, it fools best.
  assert found.success[0, 0] >= found.success[1, 0] and found.success[1, 1] >= found.success[0, 1]
  cell = first["a", "b"].cell
  assert cell.model == "b" and source_and_attack(cell) == ("a", "linf-pgd-4")
  assert first["a", "b"].config["transfer"] == {"source": "a", "source_fingerprint": models["a"].fingerprint}
  assert 0 <= cells_agreement(first["a", "a"], first["a", "b"]).same.value <= 1


def test_verdicts_equal_a_plain_forward_pass_over_the_images(models, data, tmp_path):
  images = transfer.craft(models["a"].classifier, data, ENTRY, OPTIONS)
  clean, labels = data.take(np.arange(20))
  assert np.abs(images - clean).max() <= 48 / 255 + 1e-6 and images.min() >= 0 and images.max() <= 1
  result = transfer.run_transfer(models, data, ENTRY, tmp_path, OPTIONS)["a", "b"]
  classifier = models["b"].classifier
  right = np.asarray(classifier(clean)).argmax(1) == labels
  np.testing.assert_array_equal(result.examples["correct"], right)
  after = np.asarray(classifier(images)).argmax(1)
  np.testing.assert_array_equal(result.examples["robust"], right & (after == labels))
  np.testing.assert_array_equal(result.examples["prediction"], after)


def test_an_image_does_not_depend_on_how_many_there_are(models, data):
  few = transfer.craft(models["a"].classifier, data.subset(5), ENTRY, OPTIONS)
  np.testing.assert_array_equal(few, transfer.craft(models["a"].classifier, data, ENTRY, OPTIONS)[:5])


def test_images_outside_the_ball_and_attacks_without_one_are_refused(models, data, tmp_path, monkeypatch):
  with pytest.raises(InputError, match="within a budget"):
    transfer.run_transfer(models, data, attack_entry("ddn", num_steps=3), tmp_path, OPTIONS)
  monkeypatch.setattr(transfer, "_last", lambda attack, problems, states: np.full((64, 32, 32, 3), 0.5, np.float32))
  with pytest.raises(VerificationError, match="left its threat model for example 0"):
    transfer.craft(models["a"].classifier, data, ENTRY, OPTIONS)
