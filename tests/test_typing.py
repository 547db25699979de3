"""What mypy and pyright say of a user's project: its mistakes, and nothing else."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).with_name("user_project.py")
MISTAKES = [at for at, line in enumerate(PROJECT.read_text().splitlines(), 1) if line.endswith("# error")]


def said(*command: str) -> str:
  return subprocess.run(command, cwd=PROJECT.parents[1], capture_output=True, text=True, timeout=600).stdout


@pytest.mark.ci
@pytest.mark.skipif(importlib.util.find_spec("mypy") is None, reason="needs mypy")
def test_mypy_finds_the_mistakes_alone():
  output = said(sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", str(PROJECT))
  assert sorted({int(at) for at in re.findall(r"user_project\.py:(\d+): error", output)}) == MISTAKES, output


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("pyright") is None, reason="needs pyright: npm install -g pyright")
def test_pyright_finds_the_mistakes_alone():
  output = said("pyright", "--outputjson", "--pythonpath", sys.executable, str(PROJECT))
  found = [one for one in json.loads(output)["generalDiagnostics"] if one["severity"] == "error"]
  assert sorted({one["range"]["start"]["line"] + 1 for one in found}) == MISTAKES, found
