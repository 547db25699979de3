"""One program of each kind through the compilers of TPUs and GPUs, where they are installed; no chip is needed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from jaxrobust.pods.topology import missing_compiler

pytestmark = pytest.mark.ci
ROOT = Path(__file__).parents[2]


def compiled(text, platform):
  missing = missing_compiler(platform)
  if missing:
    pytest.skip(f"the compiler for {text} is not installed: {missing}")
  environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
  words = [sys.executable, "-m", "tests.pods.compile_programs", text]
  done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=1800)
  assert done.returncode == 0, done.stderr[-2000:]
  return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


@pytest.fixture(scope="module")
def tpu():
  return compiled("v5e:2x2", "tpu")


def test_every_program_of_an_evaluation_is_silent_and_fits(tpu):
  assert len(tpu) == 6
  for row in tpu[:3]:
    assert not row["reason"] and not row["collectives"] and 0 < row["memory"] < row["of_memory"]


def test_a_step_of_an_attack_is_the_networks_gradient_and_little_else(tpu):
  assert tpu[0]["share_flops"] > 0.85 and 0 < tpu[0]["share_bytes"] <= 1.05


def test_a_data_parallel_step_reduces_its_gradient_and_nothing_else(tpu):
  whole, grouped = tpu[3:5]
  reduced = {row["program"]: row["collectives"]["all-reduce"] for row in (whole, grouped)}
  assert set(grouped["collectives"]) == {"all-reduce"}
  # Statistics of the whole batch are exchanged layer by layer, those of groups never.
  assert reduced[grouped["program"]][0] <= 10 < reduced[whole["program"]][0]
  assert grouped["collectives"]["all-reduce"][1] <= 1.1 * grouped["weight_bytes"]


def test_a_fully_sharded_step_gathers_weights_and_scatters_gradients(tpu):
  row = tpu[5]
  assert "all-to-all" not in row["collectives"] and "all-gather" in row["collectives"]
  moved = sum(size for _, size in row["collectives"].values())
  assert moved <= 3 * row["weight_bytes"]


def test_a_gpu_takes_the_librarys_own_routines():
  row = compiled("h100x1", "cuda")[0]
  assert not row["reason"] and not row["collectives"]
  assert row["calls"]["__cudnn$convBackwardInput"] > 0 and row["flops"] > 0
