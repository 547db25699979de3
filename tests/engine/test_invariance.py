"""Whole verdicts, findings included, do not depend on how the machine is laid out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from jaxrobust.attacks.registry import list_attacks

ROOT = Path(__file__).parents[2]
FEW = ("pgd", "square", "ddn")
# Shown by transfer jobs alone, once it is trained.
TRAINED = ("uap",)


def run(*attacks: str) -> dict:
  environment = {**os.environ, "JAX_NUM_CPU_DEVICES": "4", "PYTHONPATH": str(ROOT)}
  done = subprocess.run(
    [sys.executable, "-m", "tests.engine.troubled", *attacks],
    cwd=ROOT,
    env=environment,
    capture_output=True,
    text=True,
    timeout=3000,
    check=False,
  )
  assert done.returncode == 0, done.stderr[-3000:]
  return json.loads(done.stdout.splitlines()[-1])


def check(found: dict, attacks) -> None:
  assert found["devices"] == 4
  for name in attacks:
    assert not found["found"][name]["differ"], (name, found["found"][name]["differ"])


@pytest.mark.ci
def test_a_gradient_a_query_and_a_minimal_attack_in_every_layout():
  found = run(*FEW)
  check(found, FEW)
  pgd = found["found"]["pgd"]
  assert pgd["nan"] and pgd["flat"] and pgd["robust"], "NaN and zero gradients, and survivors"


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_every_registered_attack_in_every_layout(part):
  attacks = [name for name in list_attacks() if name not in FEW + TRAINED][part::4]
  check(run(*attacks), attacks)
