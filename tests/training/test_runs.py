"""Runs that are stopped, killed or damaged end with the weights of one that was not."""

from __future__ import annotations

import os
import signal
import sys
import types
from pathlib import Path

import jax
import numpy as np
import pytest

from jaxrobust.core.errors import CorruptFileError, InputError, StoppedError, StorageError, TrainingError
from jaxrobust.data.registry import load_data
from jaxrobust.models.registry import make_model
from jaxrobust.models.zoo import fingerprint, load_classifier, read_metadata, save_classifier
from jaxrobust.training import loop
from jaxrobust.training.config import TrainConfig
from jaxrobust.training.inputs import start_from
from jaxrobust.training.logs import Log, read_log
from jaxrobust.training.loop import train
from jaxrobust.training.validation import Score, overfitted
from tests.training.runs import curve, finish, start, wait_for_step


def test_a_run_that_is_killed_and_stopped_ends_with_the_same_curve_and_weights(whole, tmp_path):
  out = tmp_path / "net"
  process = start(out)
  wait_for_step(out, 6, process)
  process.kill()
  process.communicate()
  process = start(out)
  wait_for_step(out, 13, process)
  process.send_signal(signal.SIGTERM)
  assert "asked to stop after step" in finish(process, 75)
  finish(start(out))
  assert curve(out) == curve(whole)
  assert fingerprint(load_classifier(out)) == fingerprint(load_classifier(whole))
  assert len(curve(whole)) == 10


@pytest.mark.parametrize("epochs, stopped_at", [(2, "step 5 of 10"), (0.5, "step 3 of 3")])
def test_a_run_that_is_stopped_inside_a_validation_does_not_lose_it(tmp_path, monkeypatch, epochs, stopped_at):
  config = TrainConfig(epochs=epochs, batch_size=256, holdout=37, techniques=("fast-at",), validate_steps=2)
  train(config, tmp_path / "whole", quiet=True)
  original = loop.validate

  def interrupted(*arguments):
    os.kill(os.getpid(), signal.SIGTERM)
    return original(*arguments)

  monkeypatch.setattr(loop, "validate", interrupted)
  with pytest.raises(StoppedError, match=f"asked to stop after {stopped_at}"):
    train(config, tmp_path / "net", quiet=True)
  monkeypatch.setattr(loop, "validate", original)
  train(config, tmp_path / "net", quiet=True)
  seen = [[(e["step"], e["clean"], e["robust"]) for e in read_log(tmp_path / name / "train.jsonl") if "robust" in e]
          for name in ("whole", "net")]  # fmt: skip
  assert seen[0] == seen[1] and len(seen[0]) == max(1, int(epochs))
  assert fingerprint(load_classifier(tmp_path / "net")) == fingerprint(load_classifier(tmp_path / "whole"))


def test_a_run_that_is_killed_while_it_keeps_the_best_epoch_keeps_it_later(tmp_path, monkeypatch):
  config = TrainConfig(epochs=2, batch_size=256, holdout=37, techniques=("fast-at",))
  falling = {5: Score(0.5, 0.3), 10: Score(0.5, 0.2)}
  monkeypatch.setattr(loop, "validate", lambda *_: falling[10 if (tmp_path / "best").exists() else 5])
  save = loop.save_weights

  def killed(*_):
    raise RuntimeError("killed")

  monkeypatch.setattr(loop, "save_weights", killed)
  with pytest.raises(RuntimeError, match="killed"):
    train(config, tmp_path, quiet=True)
  monkeypatch.setattr(loop, "save_weights", save)
  train(config, tmp_path, quiet=True)
  assert read_metadata(tmp_path)["notes"]["step"] == 5


def test_damaged_checkpoints_are_passed_over_and_none_is_an_error(tmp_path, capfd):
  out, config = tmp_path / "net", TrainConfig(epochs=2, batch_size=256, save_every=2, log_every=1)
  train(config, out, quiet=True)
  reference = fingerprint(load_classifier(out))
  (out / "classifier.json").unlink()
  steps = sorted((path for path in (out / "checkpoints").iterdir() if path.name.isdigit()), key=lambda p: int(p.name))
  damage(steps[-1])
  train(config, out, quiet=True)
  assert "cannot be read" in capfd.readouterr().err
  assert fingerprint(load_classifier(out)) == reference
  (out / "classifier.json").unlink()
  train(config, out, quiet=True)  # The damaged one was put aside, and written anew.
  assert "cannot be read" not in capfd.readouterr().err
  (out / "classifier.json").unlink()
  for path in (out / "checkpoints").iterdir():
    damage(path)
  with pytest.raises(CorruptFileError, match=r"no checkpoint in .* can be read"):
    train(config, out, quiet=True)


def damage(folder: Path) -> None:
  """Cuts every data file in half."""
  for path in folder.rglob("*"):
    if path.is_file() and path.stat().st_size > 1:
      with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)


def test_an_unwritable_folder_is_one_line(tmp_path):
  (tmp_path / "file").write_text("")
  with pytest.raises(StorageError, match="cannot write the run to"):
    train(TrainConfig(epochs=1, batch_size=256), tmp_path / "file" / "net", quiet=True)
  with pytest.raises(InputError, match="a run is a folder that all its machines see, not gs://bucket/net"):
    train(TrainConfig(), "gs://bucket/net")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_disk_that_fills_up_is_one_line(tmp_path):
  log = Log(tmp_path, 0)
  (tmp_path / "train.jsonl").unlink()
  log._file = open("/dev/full", "w")  # noqa: SIM115 - closing it fails too
  with pytest.raises(StorageError, match=r"cannot write .*train.jsonl: No space left on device"):
    log.write(1, loss=0.5)


def test_a_loss_that_is_not_a_number_stops_the_run_and_names_the_step(tmp_path):
  config = TrainConfig(epochs=1, batch_size=128, optimizer="sgd", learning_rate=1e30)
  with pytest.raises(TrainingError, match=r"not a number at step \d+: the (logits|gradient)"):
    train(config, tmp_path / "net", quiet=True)


def test_fine_tuning_starts_from_the_weights_and_replaces_a_head(whole, tmp_path, capfd):
  still = TrainConfig(init=str(whole), epochs=0.01, batch_size=64, optimizer="sgd", learning_rate=0.0)
  kept = load_classifier(train(still, tmp_path / "kept", quiet=True))
  assert fingerprint(kept) == fingerprint(load_classifier(whole))
  images, labels = load_data("digits32-train").take(np.arange(64))
  np.savez(tmp_path / "two.npz", images=images, labels=(labels > 4).astype(np.int32))
  config = TrainConfig(init=str(whole), data=f"npz:{tmp_path / 'two.npz'}", epochs=1, batch_size=32)
  tuned = load_classifier(train(config, tmp_path / "tuned", quiet=True))
  assert tuned.num_classes == 2 and "is new" in capfd.readouterr().err
  heads = [start_from(str(whole), make_model("cnn-tiny", 2), (32, 32, 3), seed)["params"]["fc2"] for seed in (0, 1)]
  assert not np.array_equal(heads[0]["kernel"], heads[1]["kernel"])


def test_only_a_head_may_be_replaced(tmp_path):
  small = make_model("vit-micro", patch_size=8)
  variables = small.init(jax.random.key(0), np.zeros((1, 32, 32, 3), np.float32))
  options = {"num_classes": 10, "mean": (0.5,) * 3, "std": (0.5,) * 3, "options": {"patch_size": 8}, "notes": {}}
  save_classifier(tmp_path, "vit-micro", variables, **options)
  with pytest.raises(InputError, match=r"does not fit .*: params/pos_embed have other shapes"):
    start_from(str(tmp_path), small, (48, 48, 3))


def test_numbers_go_to_tensorboard_where_a_writer_is_installed(tmp_path, monkeypatch):
  events = []

  class SummaryWriter:
    def __init__(self, folder, purge_step):
      events.append((Path(folder).name, purge_step))

    def add_scalar(self, name, value, step):
      events.append((name, value, step))

    def close(self):
      events.append("closed")

  monkeypatch.setitem(sys.modules, "tensorboardX", types.SimpleNamespace(SummaryWriter=SummaryWriter))
  log = Log(tmp_path, 7)
  log.write(8, loss=0.5, warning="none")
  log.close()
  # What was shown of steps that are made again is dropped.
  assert events == [("tensorboard", 8), ("loss", 0.5, 8), "closed"]


def test_catastrophic_overfitting_is_named():
  healthy = [Score(0.5, 0.3), Score(0.6, 0.35), Score(0.62, 0.3)]
  assert overfitted(healthy, 0.4) is None
  assert "catastrophic overfitting" in (overfitted([*healthy, Score(0.8, 0.05)], 0.9) or "")


def test_single_step_training_is_watched_also_where_nothing_is_held_out(tmp_path, monkeypatch, capsys):
  course = iter([Score(0.6, 0.4), Score(0.7, 0.0)])
  monkeypatch.setattr(loop, "validate", lambda *_: next(course))
  monkeypatch.setattr(loop, "overfitted", lambda scores, _: overfitted(scores, 0.9))
  train(TrainConfig(epochs=2, batch_size=256, techniques=("fast-at",)), tmp_path, quiet=True)
  warning = "catastrophic overfitting: accuracy under PGD fell from 0.400 to 0.000"
  assert warning in read_log(tmp_path / "train.jsonl")[-1]["warning"]
  assert warning in capsys.readouterr().out and not (tmp_path / "best").exists()
  lines = [entry for entry in read_log(tmp_path / "train.jsonl") if "loss" in entry]
  assert all(entry["step_seconds"] > 0 and entry["images_per_second"] > 0 for entry in lines) and lines
