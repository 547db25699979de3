"""The commands that can be killed and go on: how each is started, and what of its folder must come out the same."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.training.runs import curve, port

ROOT = Path(__file__).parents[2]
STUDY = f"{ROOT}/tests/assault/study.py"
CELLS = f"{ROOT}/configs/nas.py:runlocal"


@dataclass(frozen=True)
class Command:
  """One command.

  Attributes:
    words: (models, out) -> its words.
    outcome: folder -> what stands in it so far that must not depend on kills and signals, by name.
    processes: how many of them share the work.
  """

  words: Callable[[Sequence[Path], Path], list[str]]
  outcome: Callable[[Path], dict[str, object]]
  processes: int = 1


def _contents(out: Path, paths: Iterable[Path]) -> dict[str, object]:
  return {str(path.relative_to(out)): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


def cells(out: Path) -> dict[str, object]:
  """The bytes of every cell."""
  return _contents(out, (path for path in out.rglob("*.seed0.json") if ".shard-" not in path.name))


def dataset(out: Path) -> dict[str, object]:
  """The bytes of every cell, and of the data set that is made of them."""
  return {**cells(out), **_contents(out, (out / "dataset").rglob("*.json"))}


def verdicts(out: Path) -> dict[str, object]:
  """The flags of every cell: the provenance of merged ones is that of a shard."""
  from jaxrobust.results import load_results

  found = load_results(out) if out.exists() else ()
  return {str(result.cell): result.examples["robust"].tolist() for result in found}


def network(out: Path) -> dict[str, object]:
  """The curve and the weights of a training."""
  from jaxrobust.models.zoo import fingerprint, load_classifier

  made = {"weights": fingerprint(load_classifier(out))} if (out / "classifier.json").exists() else {}
  return {**made, **{f"loss of step {step}": loss for step, loss in curve(out)}}


def _evaluate(models: Sequence[Path], out: Path) -> list[str]:
  words = ["evaluate", f"--model={models[0]}", "--suite=robustart,scaled,small", "--only=*clean*", "--n=12"]
  return [*words, "--save_seconds=0", f"--out={out}"]


def _shared(models: Sequence[Path], out: Path) -> list[str]:
  words = ["evaluate", f"--model={models[0]}", "--suite=basic", "--n=40", "--save_seconds=0.2", f"--out={out}"]
  return [*words, "--distributed=true", "--processes=2"]


def _transfer(models: Sequence[Path], out: Path) -> list[str]:
  words = ["transfer", "--models", *map(str, models), "--attack=pgd", "--eps=4/255,8/255", "--n=60"]
  return [*words, "--save_seconds=0.2", f"--out={out}"]


def _train(models: Sequence[Path], out: Path) -> list[str]:
  del models
  words = ["train", "--arch=cnn-tiny", "--epochs=1.5", "--batch_size=128", "--save_every=3", "--log_every=3"]
  return [*words, "--holdout=37", "--techniques=('flip','fast-at','ema')", "--data=digits32-train", f"--out={out}"]


def _study(models: Sequence[Path], out: Path) -> list[str]:
  del models
  return ["study", "run", STUDY, "--n=8", f"--out={out}"]


def _nas(models: Sequence[Path], out: Path) -> list[str]:
  del models
  words = [
    "nas",
    "run",
    f"--config={CELLS}",
    "--cells=13714,0",
    "--only=*/clean/*[ng][es]*",
    "--n=24",
    "--batch_size=16",
  ]
  training = ["--train.arch_options.width=2", "--train.epochs=0.2", "--train.save_every=3"]
  return [*words, *training, "--save_seconds=0", f"--out={out}"]


COMMANDS = {
  "evaluate": Command(_evaluate, cells),
  "train": Command(_train, network),
  "study run": Command(_study, cells),
  "nas run": Command(_nas, dataset),
  "transfer": Command(_transfer, cells),
  "shards": Command(_shared, verdicts, processes=2),
}


def differences(found: dict[str, object], wanted: dict[str, object], whole: bool = True) -> list[str]:
  """What of a folder is not as in the one that nobody disturbed: one line each; nothing may be missing from a whole."""
  lines = [f"{name} is not there" for name in sorted(wanted.keys() - found.keys()) if whole]
  lines += [f"{name} should not be there" for name in sorted(found.keys() - wanted.keys())]
  both = sorted(found.keys() & wanted.keys())
  return lines + [f"{name}: {found[name]}, not {wanted[name]}" for name in both if found[name] != wanted[name]]


class Process(subprocess.Popen):
  """A process in a group of its own; what it says on standard error can be read while it runs."""

  def __init__(self, words: Sequence[str], environment: dict[str, str]) -> None:
    self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the process is asked about
    env = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    super().__init__(words, cwd=ROOT, env=env, stdout=subprocess.DEVNULL, stderr=self._errors, start_new_session=True)

  def said(self) -> str:
    # The place in the file is shared with the process, and must not be moved.
    return os.pread(self._errors.fileno(), 2**20, 0).decode(errors="replace")


def start(
  command: Command, models: Sequence[Path], out: Path, program: Sequence[str] = ("jaxrobust.cli.main",), **more: str
) -> list[Process]:
  """Starts all processes of a command.

  Args:
    program: the module that takes the command's words, and what it wants before them.
    more: variables of the environment.
  """
  words = [sys.executable, "-m", *program, *command.words(models, out), "--quiet=true"]
  if command.processes == 1:
    return [Process(words, more)]
  more |= {"JAX_COORDINATOR_ADDRESS": f"127.0.0.1:{port()}", "JAX_NUM_PROCESSES": str(command.processes)}
  return [Process(words, {**more, "JAX_PROCESS_ID": str(index)}) for index in range(command.processes)]


def finish(processes: Sequence[Process], seconds: float = 900) -> list[tuple[int | str, str]]:
  """Exit codes, and what was said; one that does not end is ended, and its code is "hangs"."""
  found: list[tuple[int | str, str]] = []
  for process in processes:
    try:
      found.append((process.wait(seconds), process.said()))
    except subprocess.TimeoutExpired:
      process.kill()
      process.wait()
      found.append(("hangs", process.said()))
  return found


def left_over(out: Path) -> list[str]:
  """Files that no finished command leaves."""
  return [str(path) for path in out.rglob("*") if path.name.startswith(".tmp-") or path.name.endswith(".partial.npz")]
