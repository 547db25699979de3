"""Runs every command and snippet of README and guides from an installed package, in an empty folder, in small forms.

  python tests/first_hour.py ROOT [README.md install.md …]

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
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

# (pattern of a command, why it is left out of this run).
LEFT_OUT = (
  (
    r"^(bash|sbatch|gcloud|kubectl|docker|gsutil|srun|export|git|cd|python3 -m venv|[A-Z_]+=|#)",
    "of a clone or a cluster",
  ),
  (r"^jaxrobust (train .*fsdp|evaluate .*--distributed)", "of a clone or a cluster"),
  (r"^pip install", "the environment was made by it"),
  (r"^jaxrobust compile", "needs the compiler of an accelerator; tests/pods has them"),
  (r"^jaxrobust bench", "minutes; tests/bench runs all of them"),
  (r"^jaxrobust (study run|trends --root|cascade)|^jaxrobust report (study|zoo)", "needs the cells of a longer run"),
  (r"^jaxrobust results import|published/", "files of another project"),
  (r"^jaxrobust train --config studies", "one of a long study"),
)
# Networks in place of those that a reader has.
NETWORKS = ("digits32-pgd-at", "digits32-standard", "other")
# The value of an option -> its small form, where one of these patterns fits it.
SMALL = {
  "--data": ((r"npz:cifar10_train\.npz", "digits32-train"), (r"cifar10|imagenet|NAME|npz:.*", "digits32")),
  "--suite": ((r"robustbench|oodrb", "basic"),),
  "--config": (
    (r"cifar10:([a-z-]+)", r"cifar10:\1,runlocal"),
    (r"nas:small", "nas:runlocal"),
    (r"local", "local:tiny"),
  ),
  "--stages": (
    (r"autoae", "fgsm"),
    (r"autoattack", "fgsm:pgd,num_steps=2"),
    (r"apgd-dlr.*", "apgd-dlr,num_steps=2:fgsm"),
  ),
  "--arch": ((r".*", "resnet20"),),
  "--n": ((r".*", "4"),),
  "--pilot": ((r".*", "2"),),
  "--steps": ((r"1,5,10", "1,2"),),
  "--cells": ((r"random-200", "0"), (r"13714,3456,0", "0")),
}
# What makes a command small that does not say so itself.
MORE = (
  (r"jaxrobust (evaluate|attack|transfer|certify)(?!.*--(n|dry_run)\b)", "--n=4"),
  (r"jaxrobust train .*cifar10:", "--epochs=0.05"),
  (r"jaxrobust evaluate .*--suite[ =](basic|cascade|audit)\b(?!.*--eps)", "--eps=8/255"),
  (r"jaxrobust evaluate .*--suite[ =]audit(?!.*--full)", "--cheap=fgsm --full=pgd"),
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
  """Returns a command with each value in its small form.

  >>> small_form("jaxrobust transfer --models models/a models/b --data cifar10")
  'jaxrobust transfer --models digits32-pgd-at digits32-standard --data digits32 --n=4'
  """
  if "--dry_run" in line:
    return line
  networks, words, option = iter(NETWORKS), [], ""
  for word in shlex.split(line):
    name, equals, value = word.partition("=")
    if word.startswith("--"):
      option = name
      words.append(f"{name}={small_value(name, value, networks)}" if equals else word)
    elif re.search(r"\.(pth|npz)$", word) and option == "":
      words.append("net.npz")
    else:
      words.append(small_value(option, word, networks) if option else word.replace("NAME", "digits32"))
  line = shlex.join(words).replace(" --check logits.npz", "")  # What the reader's network says.
  for pattern, more in MORE:
    line += f" {more}" if re.match(pattern, line) else ""
  return line


def small_value(option: str, value: str, networks: Iterator[str]) -> str:
  if option in ("--model", "--models", "--targets") and value != "nas/models":  # Which a command before it makes.
    return next(networks)
  for pattern, text in SMALL.get(option, ()):
    if re.fullmatch(pattern, value):
      return re.sub(pattern, text, value, count=1)
  return value


def with_cell(line: str, folder: Path) -> str:
  """Puts a cell that a command before has made in place of one of the reader's."""
  made = sorted(folder.glob("results/*/*/clean/linf-*.json"))
  return re.sub(r"results/\S+\.json", str(made[0].relative_to(folder)), line) if made else line


def run(line: str, folder: Path) -> tuple[int, float, str]:
  start = time.monotonic()
  bin_folder = str(Path(sys.executable).parent)
  environment = {**os.environ, "PATH": f"{bin_folder}:{os.environ['PATH']}"}
  environment.pop("PYTHONPATH", None)
  done = subprocess.run(line, shell=True, cwd=folder, env=environment, capture_output=True, text=True, timeout=900)
  return done.returncode, time.monotonic() - start, (done.stderr or done.stdout).strip().split("\n")[-1]


def prepare(folder: Path) -> None:
  """Puts down what the commands speak of: weights of another library, a network in a folder, tables of networks."""
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
tiny = jr.make_model("cnn-tiny").init(jax.random.key(1), np.zeros((1, 32, 32, 3), np.float32))
jr.save_classifier("other", "cnn-tiny", tiny, num_classes=10)
rows = np.linspace([1e6, 80, 60, 50, 30, 45], [9e6, 90, 72, 60, 41, 55], 8)
rows += np.random.default_rng(0).normal(size=rows.shape)
header = "model,params,ID accuracy,fog accuracy,ID robustness,fog robustness,robust"
table = "\\n".join([header, *(",".join([f"net{at}", *map(str, row)]) for at, row in enumerate(rows))])
for name in ("board.csv", "table.csv"):
  open(name, "w").write(table)
"""
  subprocess.run([sys.executable, "-c", code], cwd=folder, check=True)


def main(root: Path, *names: str) -> int:
  """Runs what the files with these names say, all of them by default."""
  files = [root / "README.md", *sorted((root / "jaxrobust" / "docs").glob("*.md"))]
  files = [path for path in files if not names or path.name in names]
  failures, ran, seen = 0, 0, set()
  with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    prepare(folder)
    for path in files:
      code = "\n".join(blocks(path, "python"))
      if code:
        (folder / "snippets.py").write_text(code)
        failures, ran = failures + report(path, "its Python", *run(f"{sys.executable} snippets.py", folder)), ran + 1
      for line in dict.fromkeys(commands(path)):
        reason = next((reason for pattern, reason in LEFT_OUT if re.search(pattern, line)), None)
        if reason:
          print(f"left out  {path.name}: {line} ({reason})", flush=True)
        elif small_form(line) not in seen:  # Of another guide, too.
          seen.add(small_form(line))
          line = with_cell(small_form(line), folder)
          failures, ran = failures + report(path, line, *run(line, folder)), ran + 1
  print(f"{ran} commands and files of snippets, {failures} failed")
  return 1 if failures else 0


def report(path: Path, line: str, code: int, seconds: float, last: str) -> int:
  print(f"{'ok      ' if code == 0 else 'FAILED  '}  {seconds:5.1f} s  {path.name}: {line}", flush=True)
  if code:
    print(f"          {last}", flush=True)
  return int(code != 0)


if __name__ == "__main__":
  sys.exit(main(Path(sys.argv[1]).absolute(), *sys.argv[2:]))
