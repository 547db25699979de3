"""A worker process with another library in it, asked to run one job at a time."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any

from jaxrobust.core.stopping import unblock_signals

WORKER = Path(__file__).with_name("peer_worker.py")


class Peers:
  """Starts the worker on first use; a peer that cannot run answers with the reason."""

  def __init__(self, python: str, folder: Path | None, worker: Path = WORKER):
    self.python = python or sys.executable
    self.folder = folder
    self.worker = worker
    self._process: subprocess.Popen | None = None

  def __enter__(self) -> Peers:
    return self

  def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
    if self._process is not None:
      self._process.kill()
      self._process.wait()

  def ask(self, **job: Any) -> dict[str, Any]:
    """Runs one job; {"missing": reason} where the peer is not installed."""
    if self._process is None:
      self._process = subprocess.Popen(
        [self.python, str(self.worker)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=unblock_signals,
      )
    assert self._process.stdin is not None and self._process.stdout is not None
    request = {"path": None, "steps": 0, "rounds": 0, "data": str(self.folder), **job}
    try:
      self._process.stdin.write(json.dumps(request) + "\n")
      self._process.stdin.flush()
      lines = iter(self._process.stdout.readline, "")
      # Some peers print their own progress on standard output.
      reply = next((line for line in lines if line.startswith('{"')), None)
    except BrokenPipeError:
      reply = None
    if reply is None:
      errors = self._process.stderr.read() if self._process.stderr else ""
      self._process = None
      return {"missing": (errors.strip().splitlines() or ["the worker ended"])[-1]}
    return json.loads(reply)
