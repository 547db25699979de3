"""What killed writers leave behind is removed by whoever writes there next; what others are writing is not."""

import os
import subprocess
import sys

import pytest

from jaxrobust.core import files
from jaxrobust.core.files import atomic_write

# A process that dies inside a write, as by kill -9.
DYING = """
import os, signal, sys
from jaxrobust.core import files
files.os.fsync = lambda handle: os.kill(os.getpid(), signal.SIGKILL)
files.atomic_write(sys.argv[1], "x" * 100)
"""


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
  monkeypatch.setattr(files, "_swept", set())


def left(folder):
  return sorted(path.name for path in folder.glob(".tmp-*"))


def test_the_files_of_a_dead_process_are_swept_by_the_next_writer(tmp_path):
  assert subprocess.run([sys.executable, "-c", DYING, str(tmp_path / "cell.json")], timeout=60).returncode == -9
  assert len(left(tmp_path)) == 1 and not (tmp_path / "cell.json").exists()
  atomic_write(tmp_path / "cell.json", "y")
  assert not left(tmp_path) and (tmp_path / "cell.json").read_text() == "y"


def test_the_files_of_the_living_and_of_other_machines_are_left_alone(tmp_path):
  ours = files.temporary(tmp_path)
  other = tmp_path / ".tmp-elsewhere-1-0123456789ab"
  strange = tmp_path / ".tmp-notes"
  for path in (ours, other, strange):
    path.write_text("")
  atomic_write(tmp_path / "cell.json", "y")
  assert left(tmp_path) == sorted(path.name for path in (ours, other, strange))
  os.utime(other, (1, 1))  # Nobody writes one file for years.
  files._swept.clear()
  atomic_write(tmp_path / "cell.json", "y")
  assert left(tmp_path) == sorted(path.name for path in (ours, strange))


def test_a_process_that_ends_at_once_removes_what_it_was_writing(tmp_path, monkeypatch):
  seen = []

  def leaving(handle):
    seen.extend(left(tmp_path))
    files.remove_unfinished()
    raise KeyboardInterrupt

  monkeypatch.setattr(files.os, "fsync", leaving)
  with pytest.raises(KeyboardInterrupt):
    atomic_write(tmp_path / "cell.json", "y")
  assert len(seen) == 1 and not left(tmp_path) and not files._unfinished
