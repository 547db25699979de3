"""Hostile and damaged inputs of every reader: no traceback, no execution, no hang, and little memory."""

from __future__ import annotations

import collections
import json
import queue
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.assault.conftest import SEED, count
from tests.assault.inputs import MAKERS, make

ROOT = Path(__file__).parents[2]
SECONDS = 10.0
GIB = 2**30


class Reader:
  """The process that reads; one that hangs is ended and started anew."""

  def __init__(self) -> None:
    self.hangs = 0
    self._start()

  def _start(self) -> None:
    words = [sys.executable, "-m", "tests.assault.reading"]
    pipe = subprocess.PIPE
    self.process = subprocess.Popen(words, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True)
    self.lines: queue.Queue[str] = queue.Queue()
    threading.Thread(target=self._listen, args=(self.process, self.lines), daemon=True).start()
    self.idle = json.loads(self.lines.get(timeout=300))["idle"]

  @staticmethod
  def _listen(process: subprocess.Popen, lines: queue.Queue) -> None:
    for line in process.stdout:
      lines.put(line)
    lines.put("")

  def ask(self, kind: str, path: Path) -> dict:
    self.process.stdin.write(json.dumps([kind, str(path)]) + "\n")
    self.process.stdin.flush()
    try:
      # The reader counts its CPU seconds, as the machine may be busy; this is for one that waits for something.
      line = self.lines.get(timeout=12 * SECONDS)
    except queue.Empty:
      line = "hang"
    if line in ("hang", ""):
      self.close()
      code = self.process.returncode
      self._start()
      return {"outcome": "hang" if line else f"died with {code}", "seconds": SECONDS, "peak": 0}
    return json.loads(line)

  def close(self) -> None:
    self.process.kill()
    self.process.wait()


@pytest.fixture(scope="module")
def reader():
  made = Reader()
  yield made
  made.close()


@pytest.mark.parametrize("kind", MAKERS)
def test_every_input_is_read_or_refused(kind, reader, tmp_path, record):
  tried = -(-count("INPUTS", 180) // len(MAKERS))
  outcomes: collections.Counter[str] = collections.Counter()
  bad, slowest, most = [], 0.0, 0
  for number in range(tried):
    found = reader.ask(kind, make(kind, tmp_path, number, SEED))
    outcomes[found["outcome"].split(":")[0]] += 1
    slowest, most = max(slowest, found["seconds"]), max(most, found["peak"] - reader.idle)
    if found["outcome"] not in ("read", "refused") or found["seconds"] > SECONDS:
      bad.append((number, found))
  executed = (tmp_path / "executed").exists()
  counts = ", ".join(f"{value} {name}" for name, value in sorted(outcomes.items()))
  text = f"{counts}; {executed:d} executed; {slowest:.1f} CPU s, {most / 2**20:.0f} MiB at most"
  record(f"inputs: {kind}", tried, text)
  assert not bad and not executed and most < GIB, bad[:5]
