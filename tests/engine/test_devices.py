"""The same flags on one device, on four, and in a second process that compiles nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).with_name("device_check.py")


def run(devices: int, cache: Path, *words: str) -> dict:
  environment = {**os.environ, "JAX_NUM_CPU_DEVICES": str(devices), "JAXROBUST_CACHE": str(cache)}
  environment["PYTHONPATH"] = str(SCRIPT.parents[2])
  done = subprocess.run(
    [sys.executable, str(SCRIPT), *words], env=environment, capture_output=True, text=True, timeout=300, check=False
  )
  assert done.returncode == 0, done.stderr[-2000:]
  return json.loads(done.stdout.splitlines()[-1])


def test_one_and_four_devices_agree_and_a_second_process_compiles_nothing(tmp_path):
  first = run(1, tmp_path)
  again = run(1, tmp_path)
  four = run(4, tmp_path, "check")
  assert first["devices"] == 1 and four["devices"] == 4
  assert first["compiled"] > 0 and again["compiled"] == 0
  assert first["flags"] == again["flags"] == four["flags"]
  assert four["useful"] >= 0.9 * first["useful"], "work is spread over the devices"
  assert first["used"] == 1 and four["used"] == 3, "6 images at once split over 3 of 4 cores"
  assert {"0", "1"} == set(first["flags"])
