"""Disks that are full or read-only, clocks that jump, and two writers in one folder."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.assault.commands import COMMANDS, ROOT, finish, left_over, start
from tests.assault.test_kills import models as models
from tests.assault.test_kills import settle
from tests.assault.test_kills import undisturbed as undisturbed

# Runs a command while the clock jumps by years at every look.
JUMPING = """
import itertools, sys, time
now, jumps = time.time, itertools.cycle((0.0, 1e8, -1e8, 3e7))
time.time = lambda: now() + next(jumps)
sys.argv = ["jaxrobust", *sys.argv[1:]]
from jaxrobust.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


@contextlib.contextmanager
def disk(folder: Path, size: str):
  """A disk of its own for a folder; skips where nobody may mount one."""
  folder.mkdir()
  made = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], capture_output=True)
  if made.returncode:
    pytest.skip("needs the right to mount a disk")
  try:
    yield
  finally:
    subprocess.run(["umount", "-l", str(folder)], check=True)


def remount(folder: Path, options: str) -> None:
  subprocess.run(["mount", "-o", f"remount,{options}", str(folder)], check=True)


@pytest.mark.parametrize("name", ["transfer", "train"])
@pytest.mark.parametrize("trouble", ["size=16k", "ro"])
def test_a_full_or_read_only_disk_is_one_line_and_goes_on_later(name, trouble, models, undisturbed, tmp_path, record):
  command, mount = COMMANDS[name], tmp_path / "disk"
  with disk(mount, "64m" if trouble == "ro" else "16k"):
    if trouble == "ro":
      remount(mount, "ro")
    ((code, said),) = finish(start(command, models, mount / "out"))
    assert code == 3 and "Traceback" not in said and said.count("error: ") == 1, (code, said)
    remount(mount, "rw,size=64m")
    wrong = settle(name, models, mount / "out", undisturbed(name)[0])
  record(f"disk {trouble}: {name}", 1, f"exit code {code}, {len(wrong)} differences after going on")
  assert not wrong, "\n".join(wrong)


def test_clocks_that_jump_change_nothing(models, undisturbed, tmp_path, record):
  command = COMMANDS["transfer"]
  words = [sys.executable, "-c", JUMPING, *command.words(models, tmp_path / "out"), "--quiet=true"]
  done = subprocess.run(words, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True)
  assert done.returncode == 0, done.stderr
  same = command.outcome(tmp_path / "out") == undisturbed("transfer")[0]
  record("clock jumps: transfer", 1, f"results identical: {same}")
  assert same


def test_two_writers_in_one_folder_agree(models, undisturbed, tmp_path, record):
  command, out = COMMANDS["transfer"], tmp_path / "out"
  both = [process for _ in range(2) for process in start(command, models, out)]
  codes = [code for code, _ in finish(both)]
  same = command.outcome(out) == undisturbed("transfer")[0]
  record("two writers: transfer", 1, f"exit codes {codes}, results identical: {same}")
  assert codes == [0, 0] and same and not left_over(out)
