"""kill -9 and signals at random moments, in every command: the results are those of a run that nobody disturbed."""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.assault.commands import COMMANDS, differences, finish, left_over, start
from tests.assault.conftest import SEED, count
from tests.assault.progress import cpu_seconds, have_met, spend, waiting

# The codes that the README promises; 0 where the command was done before the signal came.
CODES = {signal.SIGINT: {0, 130}, signal.SIGTERM: {0, 75}, signal.SIGHUP: {0, 75}, signal.SIGUSR1: {0, 75}}
# Of several processes, those that are left end within a minute; twice that on a machine that is busy.
SURVIVORS_SECONDS = 120.0
# A folder is disturbed this often, then brought to its end and compared.
IN_A_ROW = 4
SINGLE = [name for name, command in COMMANDS.items() if command.processes == 1]


@pytest.fixture(scope="session")
def models(tmp_path_factory) -> list[Path]:
  """Two small trained networks."""
  from tests.cli.calling import TINY, call

  folder = tmp_path_factory.mktemp("assault") / "run"
  assert call("run", "--config", TINY, "--out", folder, "--quiet")[0] == 0
  return [folder / "models" / name for name in ("standard", "pgd-at")]


@pytest.fixture(scope="session")
def undisturbed(models, tmp_path_factory):
  """What a command makes, and the CPU seconds it takes; each is run once, and with it its programs are compiled."""
  known = {}

  def run(name):
    if name not in known:
      command, out, seconds = COMMANDS[name], tmp_path_factory.mktemp("whole") / "out", 0.0
      processes = start(command, models, out)
      while any(process.poll() is None for process in processes):
        seconds = max(seconds, sum(map(cpu_seconds, processes)))
        time.sleep(0.02)
      found = finish(processes)
      assert [code for code, _ in found] == [0] * command.processes, f"{name}, undisturbed: {found}"
      known[name] = command.outcome(out), seconds
    return known[name]

  return run


def settle(name, models, out, wanted):
  """Runs a command to its end, and says what is not as it should be."""
  command = COMMANDS[name]
  found = finish(start(command, models, out))
  if [code for code, _ in found] != [0] * command.processes:
    return [f"run again, it ended with {found}"]
  return differences(command.outcome(out), wanted) + [f"{path} is left over" for path in left_over(out)]


class Tally(NamedTuple):
  """What came of many disturbances of one command; `late` ones met a command that had ended, and do not count."""

  done: int
  late: int
  folders: int
  wrong: list[str]

  def __str__(self) -> str:
    return f"{self.folders} folders, {len(self.wrong)} differences ({self.late} more came too late)"


def assail(name, wanted_count, disturb, ready, models, undisturbed, folder) -> Tally:
  """Disturbs a command at random moments, a few times in each folder; compares after each time and at the end.

  Args:
    disturb: (chance, processes) -> what was done to them, and the exit codes they may end with.
    ready: processes -> whether they can be disturbed yet.
  """
  chance, command = random.Random(f"{SEED} {name}"), COMMANDS[name]
  wanted, seconds = undisturbed(name)
  done, late, folders, wrong = 0, 0, 0, []
  while done < wanted_count:
    out, story = folder / str(folders), []
    for at in range(min(IN_A_ROW, wanted_count - done)):
      moment = chance.random() * seconds
      processes = start(command, models, out)
      if not spend(processes, moment, lambda running=processes: ready(running)):
        # Nothing was left to do, or a first run was shorter than we thought.
        late, seconds = late + 1, seconds if at else moment
        break
      what, codes = disturb(chance, processes)
      found = finish(processes, SURVIVORS_SECONDS)
      done += 1
      story.append(f"{what} after {moment:.2f} CPU seconds")
      lines = [f"exit code {code}: {said[-1000:]}" for code, said in found if code not in codes or "Traceback" in said]
      lines += differences(command.outcome(out), wanted, whole=False)
      wrong += [f"{name}: {', '.join(story)}: {line}" for line in lines]
    wrong += [f"{name}: {', '.join(story)}, run again: {line}" for line in settle(name, models, out, wanted)]
    folders += 1
  return Tally(done, late, folders, wrong)


def kill(chance, processes):
  """One of them, or all: the others must not wait for ever."""
  victims = chance.sample(range(len(processes)), chance.randint(1, len(processes)))
  for victim in victims:
    processes[victim].kill()
  return f"process {victims} of {len(processes)} killed", {-signal.SIGKILL, 0, 76}


def ask(chance, processes):
  """One signal, or two of a kind in short order."""
  (process,), number, again = processes, chance.choice(list(CODES)), chance.random() < 0.5
  process.send_signal(number)
  if again:
    time.sleep(0.05)
    process.send_signal(number)
  return f"{number.name}{' twice' if again else ''}", CODES[number]


@pytest.mark.parametrize("name", COMMANDS)
def test_killed_at_random_and_run_again_gives_identical_results(name, models, undisturbed, tmp_path, record):
  tally = assail(name, -(-count("KILLS", 6) // len(COMMANDS)), kill, have_met, models, undisturbed, tmp_path)
  record(f"kill -9: {name}", tally.done, str(tally))
  assert not tally.wrong, "\n".join(tally.wrong)


@pytest.mark.parametrize("name", SINGLE)
def test_signals_end_as_documented_and_lose_nothing(name, models, undisturbed, tmp_path, record):
  tally = assail(name, -(-count("SIGNALS", 10) // len(SINGLE)), ask, waiting, models, undisturbed, tmp_path)
  record(f"signals: {name}", tally.done, str(tally))
  assert not tally.wrong, "\n".join(tally.wrong)
