"""The commands that can be killed and go on: how each is started, and what of its folder must come out the same."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.training.runs import curve, port

ROOT = Path(__file__).parents[2]
STUDY = f"{ROOT}/configs/studies.py:digits-techniques"


@dataclass(frozen=True)
class Command:
  """One command.

  Attributes:
    words: (models, out) -> its words.
    outcome: folder -> what must not depend on kills and signals.
    processes: how many of them share the work.
  """

  words: Callable[[Sequence[Path], Path], list[str]]
  outcome: Callable[[Path], object]
  processes: int = 1


def cells(out: Path) -> dict[str, str]:
  """The bytes of every cell."""
  found = [path for path in out.rglob("*.seed0.json") if ".shard-" not in path.name]
  return {str(path.relative_to(out)): hashlib.sha256(path.read_bytes()).hexdigest() for path in found}


def verdicts(out: Path) -> dict[str, object]:
  """The flags of every cell: the provenance of merged ones is that of a shard."""
  from jaxrobust.results import load_results

  return {str(result.cell): result.examples["robust"].tolist() for result in load_results(out)}


def network(out: Path) -> object:
  """The curve and the weights of a training."""
  from jaxrobust.models.zoo import fingerprint, load_classifier

  return curve(out), fingerprint(load_classifier(out))


def _evaluate(models: Sequence[Path], out: Path) -> list[str]:
  return ["evaluate", f"--model={models[0]}", "--suite=robustart,small", "--n=12", "--save_seconds=0.2", f"--out={out}"]


def _shared(models: Sequence[Path], out: Path) -> list[str]:
  words = ["evaluate", f"--model={models[0]}", "--suite=basic", "--n=40", "--save_seconds=0.2", f"--out={out}"]
  return [*words, "--distributed=true", "--processes=2"]


def _transfer(models: Sequence[Path], out: Path) -> list[str]:
  words = ["transfer", "--models", *map(str, models), "--attack=pgd", "--eps=4/255,8/255", "--n=60"]
  return [*words, "--save_seconds=0.2", f"--out={out}"]


def _train(models: Sequence[Path], out: Path) -> list[str]:
  del models
  words = ["train", "--arch=cnn-tiny", "--epochs=3", "--batch_size=128", "--save_every=3", "--log_every=3"]
  return [*words, "--holdout=37", "--techniques=('flip','fast-at','ema')", "--data=digits32-train", f"--out={out}"]


def _study(models: Sequence[Path], out: Path) -> list[str]:
  del models
  return ["study", "run", STUDY, "--only=standard-s0", "--n=8", f"--out={out}"]


# A place for `nas run`, once there is such a command.
COMMANDS = {
  "evaluate": Command(_evaluate, cells),
  "train": Command(_train, network),
  "study run": Command(_study, cells),
  "transfer": Command(_transfer, cells),
  "shards": Command(_shared, verdicts, processes=2),
}


def start(command: Command, models: Sequence[Path], out: Path, **environment: str) -> list[subprocess.Popen]:
  """Starts all processes of a command, each in a group of its own."""
  words = [sys.executable, "-m", "jaxrobust.cli.main", *command.words(models, out), "--quiet=true"]
  shared = {}
  if command.processes > 1:
    shared = {"JAX_COORDINATOR_ADDRESS": f"127.0.0.1:{port()}", "JAX_NUM_PROCESSES": str(command.processes)}
  made = []
  for index in range(command.processes):
    one = {"JAX_PROCESS_ID": str(index)} if shared else {}
    env = {**os.environ, "PYTHONPATH": str(ROOT), **shared, **one, **environment}
    pipe = subprocess.PIPE
    made.append(
      subprocess.Popen(words, env=env, stdout=subprocess.DEVNULL, stderr=pipe, text=True, start_new_session=True)
    )
  return made


def finish(processes: Sequence[subprocess.Popen], seconds: float = 900) -> list[tuple[int, str]]:
  """Exit codes, and what was said."""
  end = time.monotonic() + seconds
  found = []
  for process in processes:
    _, said = process.communicate(timeout=max(end - time.monotonic(), 1))
    found.append((process.returncode, said))
  return found


def left_over(out: Path) -> list[str]:
  """Files that no finished command leaves."""
  return [str(path) for path in out.rglob("*") if path.name.startswith(".tmp-") or ".partial." in path.name]
