"""How far a command is: by the work it has done, not by the clock, which says little on a machine that is busy.

A process is disturbed once it has spent a given CPU time, and no sooner than it can be: before its signals are waited
for it is a bare interpreter, and before all processes of a run have met, those that are left wait minutes for others.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.assault.commands import Process

LOOK_SECONDS = 0.005


def cpu_seconds(process: Process) -> float:
  """CPU time that a process has spent so far, in all its threads."""
  fields = _read(process, "stat").rpartition(")")[2].split()
  return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") if fields else 0.0


def waiting(processes: Sequence[Process]) -> bool:
  """Whether the first instructions of processes are behind them: they have blocked SIGTERM, and wait for it."""
  return all(int(_line(process, "SigBlk") or "0", 16) & (1 << (signal.SIGTERM - 1)) for process in processes)


def have_met(processes: Sequence[Process]) -> bool:
  """Whether all of several processes have entered the run together; each says so."""
  return len(processes) == 1 or all(" local devices" in process.said() for process in processes)


def spend(processes: Sequence[Process], seconds: float, ready: Callable[[], bool] = lambda: True) -> bool:
  """Waits until processes have spent a CPU time together and are ready; False where they ended before."""
  if not Path("/proc/self/stat").exists():
    pytest.skip("needs /proc to see how far a process is")
  while any(process.poll() is None for process in processes):
    if sum(map(cpu_seconds, processes)) >= seconds and ready():
      return True
    time.sleep(LOOK_SECONDS)
  return False


def _read(process: Process, name: str) -> str:
  try:
    return Path(f"/proc/{process.pid}/{name}").read_text()
  except OSError:  # It has ended.
    return ""


def _line(process: Process, name: str) -> str:
  """One line of what the kernel says about a process; nothing where it has ended."""
  found = [line for line in _read(process, "status").splitlines() if line.startswith(f"{name}:")]
  return found[0].partition(":")[2].strip() if found else ""
