"""Runs every command and snippet of README and guides from an installed package, in an empty folder, in small forms.

  python tests/first_hour.py ROOT

run by `launch/first_hour.sh` with the Python of an environment that has the wheel and nothing of the clone. Small
forms: sets that take a download are replaced by embedded ones, numbers of examples and epochs are cut, and what takes
a cluster, a file of another project or minutes is printed as left out, with the reason.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

# (pattern of a command, why it is left out of this run).
LEFT_OUT = (
  (r"^(bash|sbatch|gcloud|kubectl|docker|gsutil|srun|export|git|cd|python3 -m venv|#)", "of a clone or a cluster"),
  (r"^pip install", "the environment was made by it"),
  (r"^jaxrobust bench", "minutes; tests/bench runs all of them"),
  (r"^jaxrobust (reproduce|study run|trends)", "needs the cells of a longer run"),
  (r"^jaxrobust results import", "files of another project"),
  (r"^jaxrobust train --config studies", "one of a long study"),
)
# What a command says -> what it says in its small form.
SMALL = (
  (r"npz:cifar10_(train|test)\.npz|\bcifar10\b(?!:)(?!_)", "digits32"),
  (r"--config (configs/)?cifar10(\.py)?:([a-z-]+)", r"--config cifar10:\3,runlocal --epochs=0.05"),
  (r"--config local\b", "--config local:tiny"),
  (
    r"resnet50\.pth --arch resnet50|cifar10_resnet20\.npz --arch resnet20|checkpoint\.pth --arch resnet20",
    "net.npz --arch resnet20",
  ),
  (r" --check logits\.npz", ""),
  (r"models/(resnet20|resnet50|a|b|c)\b(?! --)|runs/local/models/pgd-at", r"digits32-pgd-at"),
  (r"--suite (robustbench|oodrb)(?![,\w])(?!.*dry_run)", r"--suite basic --eps=8/255"),
  (r"--eps[ =]8/255( .*)--eps[ =]8/255", r"--eps=8/255\1"),
  (r"--n[ =]\d+", "--n=4"),
  (r"--steps 1,5,10", "--steps 1,2"),
  (r"--data=digits32 --out=runs/cifar10", "--data=digits32-train --out=runs/cifar10"),
)


def blocks(path: Path, kind: str) -> list[str]:
  return re.findall(rf"```{kind}\n(.*?)```", path.read_text(), re.S)


def commands(path: Path) -> Iterator[str]:
  """Yields the commands of a file, alternatives (`a|b`) one by one."""
  for line in "\n".join(blocks(path, "bash")).replace("\\\n", " ").splitlines():
    line = " ".join(shlex.quote(word) for word in shlex.split(line, comments=True)) if line.strip() else ""
    if not line:
      continue
    line = line.replace("'", "") if "|" in line and "SELECT" not in line else line
    choice = re.match(r"jaxrobust \w+ (\S*\|\S*)", line)
    for word in choice[1].split("|") if choice else [""]:
      yield line.replace(choice[1], word).replace("[--json]", "") if choice else line


def small_form(line: str) -> str:
  for pattern, text in SMALL:
    line = re.sub(pattern, text, line)
  if re.match(r"jaxrobust (evaluate|attack|transfer)", line) and "--n" not in line and "dry_run" not in line:
    line += " --n=4"
  return line


def run(line: str, folder: Path) -> tuple[int, float, str]:
  start = time.monotonic()
  bin_folder = str(Path(sys.executable).parent)
  environment = {**os.environ, "PATH": f"{bin_folder}:{os.environ['PATH']}"}
  environment.pop("PYTHONPATH", None)
  done = subprocess.run(line, shell=True, cwd=folder, env=environment, capture_output=True, text=True, timeout=900)
  return done.returncode, time.monotonic() - start, (done.stderr or done.stdout).strip().split("\n")[-1]


def prepare(folder: Path) -> None:
  """Puts down what the commands speak of: weights of another library."""
  code = """
import jax, numpy as np, flax, jaxrobust as jr
from jaxrobust.models.weights.torch_weights import torch_name
from jaxrobust.models.registry import abstract_variables
module = jr.make_model("resnet20")
variables = module.init(jax.random.key(0), np.zeros((1, 32, 32, 3), np.float32))
state = {}
for path, leaf in flax.traverse_util.flatten_dict(variables).items():
  array = np.asarray(leaf)
  if path[-1] == "kernel":
    array = array.transpose(3, 2, 0, 1) if array.ndim == 4 else array.T
  state[torch_name(path)] = array
np.savez("net.npz", **state)
"""
  subprocess.run([sys.executable, "-c", code], cwd=folder, check=True)


def main(root: Path) -> int:
  import tempfile

  files = [root / "README.md", *sorted((root / "jaxrobust" / "docs").glob("*.md"))]
  failures, ran = 0, 0
  with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    prepare(folder)
    for path in files:
      code = "\n".join(blocks(path, "python"))
      if code:
        (folder / "snippets.py").write_text(code)
        failures, ran = failures + report(path, "its Python", *run(f"{sys.executable} snippets.py", folder)), ran + 1
      for line in dict.fromkeys(commands(path)):
        reason = next((reason for pattern, reason in LEFT_OUT if re.match(pattern, line)), None)
        if reason:
          print(f"left out  {path.name}: {line} ({reason})", flush=True)
        else:
          failures, ran = failures + report(path, small_form(line), *run(small_form(line), folder)), ran + 1
  print(f"{ran} commands and files of snippets, {failures} failed")
  return 1 if failures else 0


def report(path: Path, line: str, code: int, seconds: float, last: str) -> int:
  print(f"{'ok      ' if code == 0 else 'FAILED  '}  {seconds:5.1f} s  {path.name}: {line}", flush=True)
  if code:
    print(f"          {last}", flush=True)
  return int(code != 0)


if __name__ == "__main__":
  sys.exit(main(Path(sys.argv[1]).absolute()))
