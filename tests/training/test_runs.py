"""Runs that are stopped, killed, damaged and spread over processes end with the weights of one that was not."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import types
from pathlib import Path

import jax
import numpy as np
import pytest

from jaxrobust.core.errors import CorruptFileError, InputError, StoppedError, StorageError, TrainingError
from jaxrobust.data.registry import load_data
from jaxrobust.data.source import ArraySource
from jaxrobust.models.registry import make_model
from jaxrobust.models.zoo import fingerprint, load_classifier, read_metadata, save_classifier
from jaxrobust.training import loop
from jaxrobust.training.config import TrainConfig
from jaxrobust.training.finetune import start_from
from jaxrobust.training.logs import Log, read_log
from jaxrobust.training.loop import train
from jaxrobust.training.stream import Mixture, batch_ids, split_ids, stream_ids
from jaxrobust.training.validation import Score, overfitted

# Adversarial, averaged, augmented, with an epoch that ends inside a batch: 1297 = 10 × 128 + 17.
OPTIONS = [
  "--epochs=3", "--batch_size=128", "--save_every=4", "--log_every=3", "--holdout=37", "--seed=3",
  "--techniques=('pad-crop-flip','mixup','fast-at','ema')", "--data=digits32-train", "--validate_steps=2",
]  # fmt: skip


def command(out: Path, *more: str) -> list[str]:
  return [sys.executable, "-m", "jaxrobust.cli.main", "train", f"--out={out}", "--quiet", *OPTIONS, *more]


def start(out: Path, *more: str, **environment: str) -> subprocess.Popen:
  env = {**os.environ, **environment}
  return subprocess.Popen(command(out, *more), env=env, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen, code: int = 0) -> str:
  out, err = process.communicate(timeout=280)
  assert process.returncode == code, (process.returncode, err[-2000:])
  return out + err


def wait_for_step(out: Path, step: int, process: subprocess.Popen) -> None:
  for _ in range(6000):
    entries = read_log(out / "train.jsonl")
    if (entries and entries[-1]["step"] >= step) or process.poll() is not None:
      return
    time.sleep(0.02)
  raise AssertionError("the run does not get anywhere")


def curve(out: Path) -> list[tuple[int, float]]:
  return [(entry["step"], entry["loss"]) for entry in read_log(out / "train.jsonl") if "loss" in entry]


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
  """A run that nothing happened to."""
  out = tmp_path_factory.mktemp("whole") / "net"
  finish(start(out))
  return out


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
  config = TrainConfig(epochs=1, batch_size=128, optimiser="sgd", learning_rate=1e30)
  with pytest.raises(TrainingError, match=r"not a number at step \d+: the (logits|gradient)"):
    train(config, tmp_path / "net", quiet=True)


def test_fine_tuning_starts_from_the_weights_and_replaces_a_head(whole, tmp_path, capfd):
  still = TrainConfig(init=str(whole), epochs=0.01, batch_size=64, optimiser="sgd", learning_rate=0.0)
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


def test_examples_are_held_out_from_all_over_the_set():
  sorted_by_class = np.repeat(np.arange(4), 25)
  training, held = split_ids(100, 80)
  assert sorted([*training, *held]) == list(range(100))
  assert np.bincount(sorted_by_class[held], minlength=4).min() > 0
  data = ArraySource("sorted", np.zeros((100, 8, 8, 3), np.uint8), sorted_by_class, 4)
  seen = np.concatenate([batch_ids(data, 80, 5, step, 16) for step in range(5)])
  assert sorted(seen) == sorted(training)


@pytest.mark.parametrize("size, batch", [(10, 3), (7, 7), (5, 13)])
def test_the_stream_sees_every_example_once_per_epoch(size, batch):
  ids = np.concatenate([stream_ids(size, 1, start, batch) for start in range(0, 6 * size, batch)])
  for epoch in range(5):
    assert sorted(ids[epoch * size : (epoch + 1) * size]) == list(range(size))


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


def port() -> int:
  with socket.socket() as probe:
    probe.bind(("127.0.0.1", 0))
    return probe.getsockname()[1]


def processes(out: Path, count: int, devices: int, *more: str) -> list[subprocess.Popen]:
  address = f"127.0.0.1:{port()}"
  shared = {"JAX_COORDINATOR_ADDRESS": address, "JAX_NUM_PROCESSES": str(count), "JAX_NUM_CPU_DEVICES": str(devices)}
  flags = ("--distributed", f"--processes={count}") if count > 1 else ()
  return [start(out, *flags, *more, **shared, JAX_PROCESS_ID=str(index)) for index in range(count)]


@pytest.mark.parametrize("sharding", ["data", "fsdp"])
@pytest.mark.parametrize(
  ("arch", "objective"),
  [
    pytest.param("cnn-tiny", "fast-at", marks=pytest.mark.ci),
    pytest.param("resnet20", "standard", marks=pytest.mark.slow),
  ],
)
def test_any_layout_of_devices_makes_the_same_weights(tmp_path, sharding, arch, objective):
  """After 5 steps, to 2e-5: sums over devices are added up in another order, nothing else differs.

  Twenty layers enlarge what rounding does to 1.3e-5; the signs of an attack's step would enlarge it to 1.1e-4.
  """
  # 5 steps of 128 of 1260 examples.
  techniques = f"--techniques=('pad-crop-flip','mixup','{objective}','ema')"
  more = (f"--sharding={sharding}", "--epochs=0.5", "--log_every=1", f"--arch={arch}", techniques)
  weights = []
  for count, devices in ((1, 1), (1, 4), (2, 2)):
    out = tmp_path / f"{count}x{devices}"
    for process in processes(out, count, devices, *more):
      finish(process)
    assert len(curve(out)) == 5
    weights.append(jax.tree.leaves(load_classifier(out).variables))
  for other in weights[1:]:
    for one, two in zip(weights[0], other, strict=True):
      np.testing.assert_allclose(one, two, atol=2e-5)


def test_when_one_process_dies_the_others_end_and_the_run_goes_on(whole, tmp_path):
  out = tmp_path / "net"
  pair = processes(out, 2, 1)
  wait_for_step(out, 6, pair[0])
  pair[1].kill()
  begin = time.monotonic()
  pair[0].communicate(timeout=60)
  assert pair[0].returncode != 0 and time.monotonic() - begin < 60
  pair[1].communicate()
  finish(start(out))
  assert [step for step, _ in curve(out)] == [step for step, _ in curve(whole)]
  np.testing.assert_allclose([loss for _, loss in curve(out)], [loss for _, loss in curve(whole)], rtol=1e-3)


def test_processes_stop_together_and_one_device_goes_on_with_what_four_had_split(whole, tmp_path):
  pair = processes(tmp_path, 2, 2, "--sharding=fsdp")
  wait_for_step(tmp_path, 6, pair[0])
  pair[1].send_signal(signal.SIGTERM)
  for process in pair:
    assert "asked to stop after step" in finish(process, 75)
  finish(start(tmp_path, "--sharding=fsdp", JAX_NUM_CPU_DEVICES="1"))
  assert [step for step, _ in curve(tmp_path)] == [step for step, _ in curve(whole)]
  np.testing.assert_allclose([loss for _, loss in curve(tmp_path)], [loss for _, loss in curve(whole)], rtol=1e-3)


def test_processes_that_were_started_differently_are_refused(tmp_path):
  address = {"JAX_COORDINATOR_ADDRESS": f"127.0.0.1:{port()}", "JAX_NUM_PROCESSES": "2"}
  pair = [
    start(tmp_path, "--distributed", f"--learning_rate=0.{index + 1}", **address, JAX_PROCESS_ID=str(index))
    for index in range(2)
  ]
  for process in pair:
    assert "the processes of this run differ in learning_rate: start all with the same command" in finish(process, 2)
  assert not (tmp_path / "run.json").exists()


def test_an_error_of_one_process_ends_all(tmp_path):
  (tmp_path / "best").write_text("in the way")
  chief, other = processes(tmp_path, 2, 1, "--epochs=1")
  assert "best" in finish(chief, 3)
  other.communicate(timeout=60)
  assert other.returncode not in (0, None)


def mixture(rows: int = 16) -> Mixture:
  data, extra = load_data("digits32-train"), load_data("digits32")
  assert isinstance(data, ArraySource) and isinstance(extra, ArraySource)
  as_bytes = ArraySource("extra", np.round(extra.images * 255).astype(np.uint8), extra.labels, 10)
  return Mixture(data, as_bytes, rows)


def test_every_batch_has_its_part_of_extra_examples_in_a_repeatable_order():
  data = mixture()
  batches = [batch_ids(data, len(data), 3, step, 64) for step in range(40)]
  for ids in batches:
    assert (ids[:48] < len(data)).all() and (ids[48:] >= len(data)).all()
  extra = np.concatenate([ids[48:] for ids in batches])[:500]
  assert sorted(extra - len(data)) == list(range(500)), "each once before any comes again"
  np.testing.assert_array_equal(batches[7], batch_ids(data, len(data), 3, 7, 64))
  images, labels = data.raw(batches[0])
  np.testing.assert_allclose(images[48:], data.extra.take(batches[0][48:] - len(data))[0])
  np.testing.assert_array_equal(labels[:48], data.source.labels[batches[0][:48]])


def test_a_run_with_extra_data_continues_exactly(tmp_path):
  config = TrainConfig(
    epochs=1, batch_size=128, log_every=1, extra_data="digits32", extra_part=0.25, save_every=3, techniques=("flip",)
  )
  train(config, tmp_path / "whole", quiet=True)
  train(config, tmp_path / "net", quiet=True)
  (tmp_path / "net" / "classifier.json").unlink()
  steps = [int(path.name) for path in (tmp_path / "net" / "checkpoints").iterdir() if path.name.isdigit()]
  shutil.rmtree(tmp_path / "net" / "checkpoints" / str(max(steps)))
  train(config, tmp_path / "net", quiet=True)
  assert curve(tmp_path / "net") == curve(tmp_path / "whole")
  assert "extra_data" not in TrainConfig().identity() and config.identity()["extra_part"] == 0.25


@pytest.mark.parametrize("options", [{"extra_part": 0.5}, {"extra_data": "digits32"}, {"extra_part": -0.1}])
def test_extra_data_and_its_part_come_together(options):
  with pytest.raises(InputError, match="extra_part"):
    TrainConfig(**options)
