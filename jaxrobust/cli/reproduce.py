"""`jaxrobust reproduce CELL [--option=value …]`: computes one cell again and says whether it matches.

The cell knows the command that made it; options given here replace those of that command (`--model=` where the
classifier has moved, `--batch_size=` …). Exit code 0 where every verdict matches, 3 where one differs.
"""

from __future__ import annotations

import shlex
import tempfile
from typing import TYPE_CHECKING

from jaxrobust.cli import evaluate, transfer
from jaxrobust.cli.configuration import parse, set_option
from jaxrobust.core.errors import CellMismatchError, InputError
from jaxrobust.core.terminal import say

if TYPE_CHECKING:
  from jaxrobust.results import Result


def run(argv: list[str]) -> int:
  if not argv or argv[0] in ("-h", "--help"):
    print(
      "usage: jaxrobust reproduce CELL.json [--model=FOLDER] [--batch_size=N] [OPTIONS of the command that made it]"
    )
    return 0
  path, *changes = argv
  from jaxrobust.evaluation.comparison import compare
  from jaxrobust.results import load_result

  stored = load_result(path)
  command = stored.provenance.get("command")
  words = _words(command)
  if words is None:
    raise InputError(f"{path} does not say which command made it; it was computed from Python or by another version")
  say(f"$ {command}", error=True)
  made = _again(words[1], [*words[2:], *changes])
  new = next((result for result in made if result.cell == stored.cell), None)
  if new is None:
    others = ", ".join(str(result.cell) for result in made[:3])
    raise CellMismatchError(f"{command} makes {others}, not {stored.cell}")
  found = compare(stored, new)
  for line in (stored.cell, *found.lines()):
    say(line)
  return 0 if found.verdicts else CellMismatchError.exit_code


def _words(command: object) -> list[str] | None:
  """Returns a command as we write it, split; None for anything else.

  A cell may come from anywhere: what it says must run only these two commands, and no config file, which is code.
  """
  try:
    words = shlex.split(command) if isinstance(command, str) else []
  except ValueError:
    return None
  plain = all(word.startswith("--") and not word.startswith("--config") for word in words[2:])
  return words if words[:1] == ["jaxrobust"] and words[1:2] in (["evaluate"], ["transfer"]) and plain else None


def _again(command: str, words: list[str]) -> list[Result]:
  """Returns the cells that a command makes, computed in a folder of their own."""
  from jaxrobust.results import load_results

  config = parse(command, words, transfer.DEFAULTS if command == "transfer" else evaluate.DEFAULTS, "")
  with tempfile.TemporaryDirectory() as folder:
    set_option(config, "out", folder)
    if command == "transfer":
      return transfer.transfer_config(config)
    made = list(evaluate.evaluate_config(config).results)
    # An audit or a pilot makes cells that its report does not show.
    return [*made, *load_results(folder)]
