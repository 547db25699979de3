"""SIGTERM while a program is compiled, items exchanged, a checkpoint written, shards merged, a cell saved."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.assault.commands import COMMANDS, ROOT, finish, left_over
from tests.assault.test_kills import models as models
from tests.assault.test_kills import settle
from tests.assault.test_kills import undisturbed as undisturbed
from tests.training.runs import port

MOMENTS = {
  "compilation": "transfer",
  "exchange": "transfer",
  "cell": "transfer",
  "checkpoint": "train",
  "merging": "shards",
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_asked_to_stop_at_a_bad_moment_nothing_is_lost(moment, models, undisturbed, tmp_path, record):
  name = MOMENTS[moment]
  command, out = COMMANDS[name], tmp_path / "out"
  words = [sys.executable, "-m", "tests.assault.moments", moment, *command.words(models, out), "--quiet=true"]
  env = {**os.environ, "PYTHONPATH": str(ROOT)}
  if moment == "compilation":
    env["JAXROBUST_CACHE"] = str(tmp_path / "cache")
  if command.processes > 1:
    env |= {"JAX_COORDINATOR_ADDRESS": f"127.0.0.1:{port()}", "JAX_NUM_PROCESSES": str(command.processes)}
  processes = []
  for index in range(command.processes):
    one = env if command.processes == 1 else {**env, "JAX_PROCESS_ID": str(index)}
    processes.append(subprocess.Popen(words, cwd=ROOT, env=one, stdout=subprocess.DEVNULL, stderr=-1, text=True))
  found = finish(processes)
  codes = [code for code, _ in found]
  # Of several processes only the last one merges.
  assert 75 in codes and set(codes) <= {0, 75}, found
  assert all("Traceback" not in said for _, said in found), found
  same = settle(command, models, out) == undisturbed(name)[0]
  record(f"SIGTERM during {moment} ({name})", 1, f"exit codes {codes}, results identical: {same}")
  assert same and not left_over(out)
