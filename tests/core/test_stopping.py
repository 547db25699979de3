"""A signal is a flag: no callback can swallow it, the second one ends the process at once, and codes are documented."""

import os
import signal
import subprocess
import sys
import time

import pytest

from jaxrobust.core.stopping import StopRequest, Terminated

# Asks for work in a callback that swallows exceptions, as JAX's do, or in a sleep that nothing but the end ends.
CHILD = """
import os, signal, sys, time
from jaxrobust.core.stopping import StopRequest, watch_signals

class Swallows:
  def __del__(self):
    {inside}

watch_signals()
with StopRequest(at_once={at_once}) as stop:
  print("ready", flush=True)
  for _ in range(200):
    Swallows()
    if stop.asked and {looks}:
      print("saved", flush=True)
      sys.exit(stop.error("here").exit_code)
print("lost", flush=True)
"""


def child(at_once=False, looks=True, inside="time.sleep(0.05)"):
  code = CHILD.format(at_once=at_once, looks=looks, inside=inside)
  process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
  assert process.stdout.readline() == "ready\n"
  time.sleep(0.1)
  return process


@pytest.mark.parametrize(("number", "code"), [("SIGINT", 130), ("SIGTERM", 75), ("SIGHUP", 75), ("SIGUSR1", 75)])
@pytest.mark.parametrize("at_once", [False, True])
def test_every_signal_ends_with_its_code_wherever_it_arrives(number, code, at_once):
  process = child(at_once)
  process.send_signal(getattr(signal, number))
  out, err = process.communicate(timeout=20)
  assert process.returncode == code and "Traceback" not in err and "ignored" not in err, err
  assert out == ("" if at_once else "saved\n") and err.count("\n") == at_once


def test_the_second_signal_ends_at_once_and_cleanly():
  process = child(looks=False, inside="time.sleep(0.5)")
  process.send_signal(signal.SIGTERM)
  time.sleep(0.05)
  process.send_signal(signal.SIGTERM)
  began = time.monotonic()
  out, err = process.communicate(timeout=20)
  assert process.returncode == 75 and out == "" and time.monotonic() - began < 5
  assert err == "asked to stop; what was finished is kept, run the same command to go on\n"


def test_signals_that_are_ignored_stay_ignored():
  code = CHILD.format(at_once=True, looks=False, inside="time.sleep(0.005)")
  start = lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)
  process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, preexec_fn=start)
  process.stdout.readline()
  process.send_signal(signal.SIGHUP)
  assert process.communicate(timeout=20)[0] == "lost\n" and process.returncode == 0


def test_without_a_command_the_flag_is_set_and_the_second_signal_raises():
  before = signal.getsignal(signal.SIGINT)
  with StopRequest() as stop:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.01)
    assert stop.asked and stop.error("here").exit_code == 130
    with pytest.raises(KeyboardInterrupt):
      os.kill(os.getpid(), signal.SIGINT)
      time.sleep(1)
  with StopRequest(at_once=True), pytest.raises(Terminated):
    os.kill(os.getpid(), signal.SIGHUP)
    time.sleep(1)
  assert signal.getsignal(signal.SIGINT) is before


def blocks(pid):
  """Whether a process has SIGTERM blocked: its first instructions are behind it."""
  try:
    with open(f"/proc/{pid}/status") as file:
      line = next(line for line in file if line.startswith("SigBlk"))
  except (OSError, StopIteration):
    return True
  return bool(int(line.split()[1], 16) & (1 << (signal.SIGTERM - 1)))


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="needs /proc to see when a process has begun")
@pytest.mark.parametrize("wait", [0.0, 0.05, 0.2])
def test_a_command_ends_as_documented_from_its_first_instruction_on(wait):
  words = [sys.executable, "-m", "jaxrobust.cli.main", "list", "attacks"]
  process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
  while not blocks(process.pid):
    time.sleep(0.001)
  time.sleep(wait)
  process.send_signal(signal.SIGTERM)
  _, err = process.communicate(timeout=60)
  assert process.returncode in (0, 75) and "Traceback" not in err, (process.returncode, err)
