"""Runs in processes of their own, which tests stop, kill and spread."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

from jaxrobust.training.logs import read_log

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


def port() -> int:
  with socket.socket() as probe:
    probe.bind(("127.0.0.1", 0))
    return probe.getsockname()[1]


def processes(out: Path, count: int, devices: int, *more: str) -> list[subprocess.Popen]:
  address = f"127.0.0.1:{port()}"
  shared = {"JAX_COORDINATOR_ADDRESS": address, "JAX_NUM_PROCESSES": str(count), "JAX_NUM_CPU_DEVICES": str(devices)}
  flags = ("--distributed", f"--processes={count}") if count > 1 else ()
  return [start(out, *flags, *more, **shared, JAX_PROCESS_ID=str(index)) for index in range(count)]
