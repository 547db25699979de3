"""Memory, descriptors and threads over many images: what one thousand take is what ten thousand take."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from tests.assault.commands import ROOT
from tests.assault.conftest import count
from tests.assault.test_kills import models as models


def state(pid: int) -> tuple[float, int, int]:
  """Resident MiB, open files and threads of a process."""
  lines = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line)
  return int(lines["VmRSS"].split()[0]) / 1024, len(os.listdir(f"/proc/{pid}/fd")), int(lines["Threads"])


def test_nothing_grows_with_the_number_of_images(models, tmp_path, record):
  images = count("IMAGES", 3000)
  rng = np.random.default_rng(0)
  levels = rng.integers(0, 256, (images, 32, 32, 3), np.uint8)
  np.savez(tmp_path / "many.npz", images=levels, labels=rng.integers(0, 10, images), num_classes=10)
  words = ["evaluate", f"--model={models[0]}", f"--data=npz:{tmp_path / 'many.npz'}", "--suite=basic"]
  words += ["--eps=1/255", f"--out={tmp_path / 'out'}", "--quiet=true"]
  words = [sys.executable, "-m", "jaxrobust.cli.main", *words]
  env = {**os.environ, "PYTHONPATH": str(ROOT)}
  process = subprocess.Popen(words, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
  seen = []
  while process.poll() is None:
    try:
      seen.append(state(process.pid))
    except (OSError, KeyError):
      break
    time.sleep(0.1)
  assert process.wait() == 0, process.stderr.read()
  middle, last = seen[len(seen) // 2], seen[-2]
  most = max(files for _, files, _ in seen)
  text = f"{middle[0]:.0f} MiB halfway, {last[0]:.0f} at the end; {most} files, {last[2]} threads at most"
  record("many images: evaluate", images, text)
  assert last[0] < middle[0] + 200 and most < 100 and last[1] <= middle[1] + 5
