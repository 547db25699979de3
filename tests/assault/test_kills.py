"""kill -9 and signals at random moments, in every command: the results are those of a run that nobody disturbed."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.assault.commands import COMMANDS, differences, finish, left_over, start
from tests.assault.conftest import SEED, count, kept_rows
from tests.assault.progress import cpu_seconds, have_met, spend, waiting

# The codes that the README promises.
CODES = {signal.SIGINT: 130, signal.SIGTERM: 75, signal.SIGHUP: 75, signal.SIGUSR1: 75}
# A command that nobody disturbed before, asked to stop before this share of its CPU time, has no time to end otherwise.
SURELY_RUNNING = 0.7
# Of several processes, those that are left end within a minute; twice that on a machine that is busy.
SURVIVORS_SECONDS = 120.0
# A folder is disturbed this often, then brought to its end and compared.
IN_A_ROW = 6
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
  """What a command makes, and the CPU seconds it takes once its programs are compiled."""
  known = {}

  def once(name):
    command, out, seconds = COMMANDS[name], tmp_path_factory.mktemp("whole") / "out", 0.0
    processes = start(command, models, out)
    while any(process.poll() is None for process in processes):
      seconds = max(seconds, sum(map(cpu_seconds, processes)))
      time.sleep(0.02)
    found = finish(processes)
    assert [code for code, _ in found] == [0] * command.processes, f"{name}, undisturbed: {found}"
    return command.outcome(out), seconds

  def run(name):
    if name not in known:
      made = once(name)[0]  # It compiles, and would be longer than those that are disturbed.
      known[name] = once(name)
      assert not differences(known[name][0], made), f"{name} differs from itself"
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

  done: int = 0
  late: int = 0
  folders: int = 0
  wrong: tuple[str, ...] = ()

  def __str__(self) -> str:
    return f"{self.folders} folders, {len(self.wrong)} differences ({self.late} more came too late)"


class Assault(NamedTuple):
  """One way to disturb commands.

  Attributes:
    title: of its rows in the table.
    disturb: (chance, processes) -> what was done to them, and the exit codes they may end with.
    ready: processes -> whether they can be disturbed yet.
  """

  title: str
  disturb: Callable
  ready: Callable


def assail(assault, name, total, models, undisturbed, tmp_path, record):
  """Disturbs a command at random moments until there were enough; what is known of earlier times counts."""
  what = f"{assault.title}: {name}"
  tally = Tally(*(kept_rows().get(what, [0, "", None])[2] or ()))
  while tally.done < total and not tally.wrong:
    folder = tmp_path / str(tally.folders)
    found = assail_folder(assault, name, min(IN_A_ROW, total - tally.done), models, undisturbed(name), folder)
    tally = Tally(*(before + now for before, now in zip(tally, found, strict=True)))
    # One that found something is assailed from its beginning next time.
    record(what, tally.done, str(tally), None if tally.wrong else tally[:3])
  assert not tally.wrong, "\n".join(tally.wrong)


def assail_folder(assault, name, times, models, whole, out) -> Tally:
  """Disturbs a command in one folder a few times; compares what is there after each time, and all of it at the end."""
  chance, command, (wanted, seconds) = random.Random(f"{SEED} {name} {out.name}"), COMMANDS[name], whole
  story, late, wrong = [], 0, []
  while len(story) < times:
    moment = chance.random() * seconds
    processes = start(command, models, out)
    if not spend(processes, moment, lambda running=processes: assault.ready(running)):
      late = 1  # All is done here.
      break
    what, codes = assault.disturb(chance, processes)
    found = finish(processes, SURVIVORS_SECONDS)
    if 0 not in codes and [code for code, _ in found] == [0] and (story or moment > SURELY_RUNNING * seconds):
      late = 1  # It came to its end before the signal came to it.
      break
    story.append(f"{what} after {moment:.2f} CPU seconds")
    lines = [f"exit code {code}: {said[-1000:]}" for code, said in found if code not in codes or "Traceback" in said]
    lines += differences(command.outcome(out), wanted, whole=False)
    wrong += [f"{name}: {', '.join(story)}: {line}" for line in lines]
  wrong += [f"{name}: {', '.join(story)}, run again: {line}" for line in settle(name, models, out, wanted)]
  return Tally(len(story), late, 1, tuple(wrong))


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
  return f"{number.name}{' twice' if again else ''}", {CODES[number]}


KILLS = Assault("kill -9", kill, have_met)
SIGNALS = Assault("signals", ask, waiting)


@pytest.mark.parametrize("name", COMMANDS)
def test_killed_at_random_and_run_again_gives_identical_results(name, models, undisturbed, tmp_path, record):
  assail(KILLS, name, -(-count("KILLS", 6) // len(COMMANDS)), models, undisturbed, tmp_path, record)


@pytest.mark.parametrize("name", SINGLE)
def test_signals_end_as_documented_and_lose_nothing(name, models, undisturbed, tmp_path, record):
  assail(SIGNALS, name, -(-count("SIGNALS", 10) // len(SINGLE)), models, undisturbed, tmp_path, record)
