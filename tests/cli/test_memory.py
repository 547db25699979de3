"""Commands ask for huge pages by starting again, once, and leave other people's settings alone."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from jaxrobust.cli import memory

SCRIPT = """
import os, sys
from jaxrobust.cli import memory
memory._MODE = __import__("pathlib").Path(sys.argv[1])
print("started", flush=True)
memory.start_with_huge_pages()
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
  assert lines[2].split()[1:] == [memory._ASK, "--an=argument"]


@pytest.mark.parametrize("mode", ["[always] madvise never", "always madvise [never]"])
def test_nothing_to_gain_no_second_start(tmp_path, mode):
  assert start(tmp_path, mode)[0:2] != ["started", "started"]


def test_tunables_of_the_user_are_left_alone(tmp_path):
  lines = start(tmp_path, "always [madvise] never", GLIBC_TUNABLES="glibc.malloc.check=0")
  assert len(lines) == 2 and "glibc.malloc.check=0" in lines[1]
