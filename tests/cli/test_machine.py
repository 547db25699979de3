"""Commands ask for huge pages by starting again, once, use every core, and leave other people's settings alone."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from jaxrobust.cli import machine

SCRIPT = """
import os, sys
from jaxrobust.cli import machine
machine._MODE = __import__("pathlib").Path(sys.argv[1])
print("started", flush=True)
machine.start_with_huge_pages()
print(os.getpid(), os.environ.get("GLIBC_TUNABLES"), *sys.argv[2:])
"""


def start(tmp_path: Path, mode: str, **environment: str) -> list[str]:
  (tmp_path / "enabled").write_text(mode)
  clean = {name: value for name, value in os.environ.items() if name != "GLIBC_TUNABLES"}
  process = subprocess.run(
    [sys.executable, "-c", SCRIPT, str(tmp_path / "enabled"), "--an=argument"],
    env=clean | environment,
    capture_output=True,
    text=True,
    check=True,
  )
  return process.stdout.splitlines()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="huge pages are asked for on Linux only")
def test_starts_again_once_with_the_same_arguments(tmp_path):
  lines = start(tmp_path, "always [madvise] never")
  assert lines[:2] == ["started", "started"]
  assert lines[2].split()[1:] == [machine._ASK, "--an=argument"]


@pytest.mark.parametrize("mode", ["[always] madvise never", "always madvise [never]"])
def test_nothing_to_gain_no_second_start(tmp_path, mode):
  assert start(tmp_path, mode)[0:2] != ["started", "started"]


def test_tunables_of_the_user_are_left_alone(tmp_path):
  lines = start(tmp_path, "always [madvise] never", GLIBC_TUNABLES="glibc.malloc.check=0")
  assert len(lines) == 2 and "glibc.malloc.check=0" in lines[1]


@pytest.mark.parametrize(("command", "again"), [("attack", 1), ("evaluate", 1), ("train", 0)])
def test_commands_that_gain_nothing_start_once(monkeypatch, command, again):
  starts = []
  monkeypatch.setattr(machine, "use_every_core", list)
  monkeypatch.setattr(machine, "start_with_huge_pages", lambda: starts.append(command))
  machine.prepare([command, "--quiet"])
  assert len(starts) == again


@pytest.mark.parametrize(("count", "devices"), [(1, "1"), (2, "2"), (3, "2"), (6, "4"), (8, "8"), (96, "8")])
def test_a_device_for_every_core(monkeypatch, count, devices):
  monkeypatch.delenv("JAX_NUM_CPU_DEVICES", raising=False)
  monkeypatch.delenv("XLA_FLAGS", raising=False)
  monkeypatch.delenv("JAX_COORDINATOR_ADDRESS", raising=False)
  monkeypatch.setattr(machine, "cores", lambda: count)
  machine.use_every_core(["evaluate", "--data=digits32"])
  assert os.environ.pop("JAX_NUM_CPU_DEVICES") == devices


@pytest.mark.parametrize(
  ("name", "value", "words"),
  [
    ("JAX_NUM_CPU_DEVICES", "3", []),
    ("XLA_FLAGS", "--xla_force_host_platform_device_count=4", []),
    ("JAX_COORDINATOR_ADDRESS", "127.0.0.1:1", []),
    ("OTHER", "", ["train", "--distributed"]),
    ("OTHER", "", ["evaluate", "--processes=2"]),
  ],
)
def test_devices_of_the_user_or_a_launcher_are_left_alone(monkeypatch, name, value, words):
  for known in ("JAX_NUM_CPU_DEVICES", "XLA_FLAGS", "JAX_COORDINATOR_ADDRESS"):
    monkeypatch.delenv(known, raising=False)
  monkeypatch.setenv(name, value)
  before = os.environ.get("JAX_NUM_CPU_DEVICES")
  machine.use_every_core(words)
  assert os.environ.get("JAX_NUM_CPU_DEVICES") == before
