"""Several processes and devices make the network of one, stop together, and do not outlive one another."""

from __future__ import annotations

import signal
import time

import jax
import numpy as np
import pytest

from jaxrobust.models.zoo import load_classifier
from jaxrobust.training.logs import read_log
from tests.training.runs import curve, finish, port, processes, start, wait_for_step


@pytest.mark.parametrize("sharding", ["data", "fsdp"])
@pytest.mark.parametrize(
  ("arch", "objective"),
  [
    pytest.param("cnn-tiny", "fast-at", marks=pytest.mark.ci),
    pytest.param("repvgg_tiny", "standard", marks=pytest.mark.ci),  # With batch norm, over the whole batch.
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


@pytest.mark.ci
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


@pytest.mark.ci
def test_processes_share_the_validation_of_an_epoch_and_come_to_one_score(whole, tmp_path):
  """To one of 37 examples: the weights of two devices differ from those of one by rounding."""
  for process in processes(tmp_path, 2, 1):
    finish(process)
  seen, alone = ([entry for entry in read_log(out / "train.jsonl") if "robust" in entry] for out in (tmp_path, whole))
  assert [entry["step"] for entry in seen] == [entry["step"] for entry in alone] and len(seen) == 3
  for name in ("clean", "robust"):
    np.testing.assert_allclose([e[name] for e in seen], [e[name] for e in alone], atol=1.01 / 37)
    assert all(abs(37 * entry[name] - round(37 * entry[name])) < 1e-9 for entry in seen)


@pytest.mark.ci
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


@pytest.mark.ci
def test_an_error_of_one_process_ends_all(tmp_path):
  (tmp_path / "best").write_text("in the way")
  chief, other = processes(tmp_path, 2, 1, "--epochs=1")
  assert "best" in finish(chief, 3)
  other.communicate(timeout=60)
  assert other.returncode not in (0, None)
