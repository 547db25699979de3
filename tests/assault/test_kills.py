"""kill -9 and signals at random times, in every command: the results are those of a run that nobody disturbed."""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path

import pytest

from tests.assault.commands import COMMANDS, finish, left_over, start
from tests.assault.conftest import SEED, count

# The codes that the README promises; 0 where the command was done before the signal came.
CODES = {signal.SIGINT: {0, 130}, signal.SIGTERM: {0, 75}, signal.SIGHUP: {0, 75}, signal.SIGUSR1: {0, 75}}


@pytest.fixture(scope="session")
def models(tmp_path_factory) -> list[Path]:
  """Two small trained networks."""
  from tests.cli.calling import TINY, call

  folder = tmp_path_factory.mktemp("assault") / "run"
  assert call("run", "--config", TINY, "--out", folder, "--quiet")[0] == 0
  return [folder / "models" / name for name in ("standard", "pgd-at")]


@pytest.fixture(scope="session")
def undisturbed(models, tmp_path_factory):
  """What a command makes, and the seconds it takes, once its programs are compiled; each is run once."""
  known = {}

  def run(name):
    if name not in known:
      command, out = COMMANDS[name], tmp_path_factory.mktemp("whole") / "out"
      began = time.monotonic()
      assert [code for code, _ in finish(start(command, models, out))] == [0] * command.processes
      known[name] = command.outcome(out), time.monotonic() - began
    return known[name]

  return run


def settle(command, models, out):
  """Runs a command to its end."""
  found = finish(start(command, models, out))
  assert [code for code, _ in found] == [0] * command.processes, found
  return command.outcome(out)


@pytest.mark.parametrize("name", COMMANDS)
def test_killed_at_random_and_run_again_gives_identical_results(name, models, undisturbed, tmp_path, record):
  chance, command = random.Random(f"{SEED} {name}"), COMMANDS[name]
  kills, identical, sequences, left = -(-count("KILLS", 5) // len(COMMANDS)), 0, 0, 0
  wanted, seconds = undisturbed(name)
  done = 0
  while done < kills:
    out = tmp_path / str(sequences)
    for _ in range(min(4, kills - done)):
      processes = start(command, models, out)
      time.sleep(chance.uniform(0.3, 1.0) * seconds)
      # One of them, or all: the others must not wait for ever.
      for process in chance.sample(processes, chance.randint(1, len(processes))):
        process.kill()
      codes = {code for code, _ in finish(processes)}
      assert codes <= {-signal.SIGKILL, 0, 76}, codes
      done += 1
    identical += settle(command, models, out) == wanted
    left += len(left_over(out))
    sequences += 1
  record(f"kill -9: {name}", done, f"{identical} of {sequences} folders identical, {left} files left over")
  assert identical == sequences and not left


@pytest.mark.parametrize("name", [name for name, command in COMMANDS.items() if command.processes == 1])
def test_signals_end_as_documented_and_lose_nothing(name, models, undisturbed, tmp_path, record):
  chance, command = random.Random(f"{SEED} {name}"), COMMANDS[name]
  tried, documented, said = -(-count("SIGNALS", 8) // 4), 0, []
  wanted, seconds = undisturbed(name)
  out = tmp_path / "out"
  for at in range(tried):
    if at and at % 5 == 0:
      assert settle(command, models, out) == wanted
      out = tmp_path / str(at)
    (process,) = start(command, models, out)
    number = chance.choice(list(CODES))
    # Python itself takes a moment to begin.
    time.sleep(0.3 + chance.random() * seconds)
    process.send_signal(number)
    if chance.random() < 0.5:
      time.sleep(0.05)
      process.send_signal(number)
    ((code, error),) = finish([process])
    good = code in CODES[number] and "Traceback" not in error and "ignored" not in error
    documented += good
    said += [] if good else [(number, code, error[-500:])]
  same = settle(command, models, out) == wanted
  left = len(left_over(out))
  record(f"signals: {name}", tried, f"{documented} documented codes, results identical: {same}, {left} left over")
  assert not said and same and not left, said
