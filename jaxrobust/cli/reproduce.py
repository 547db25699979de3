"""`jaxrobust reproduce CELL [--option=value …]`: computes one cell again and says whether it matches.

The cell knows the command that made it; options given here replace those of that command (`--model=` where the
classifier has moved, `--batch_size=` …). Exit code 0 where every verdict matches, 3 where one differs.
"""

from __future__ import annotations

import shlex
import sys
import tempfile

from jaxrobust.cli.configuration import parse, set_option
from jaxrobust.cli.evaluate import DEFAULTS, evaluate_config
from jaxrobust.core.errors import CellMismatchError, InputError

_PROGRAM = ["jaxrobust", "evaluate"]


def run(argv: list[str]) -> int:
  if not argv or argv[0] in ("-h", "--help"):
    print("usage: jaxrobust reproduce CELL.json [--model=FOLDER] [--batch_size=N] [OPTIONS of evaluate]")
    return 0
  path, *changes = argv
  from jaxrobust.evaluation.comparison import compare
  from jaxrobust.results import load_result

  stored = load_result(path)
  command = stored.provenance.get("command")
  words = shlex.split(command) if isinstance(command, str) else []
  if words[:2] != _PROGRAM:
    raise InputError(f"{path} does not say which command made it; it was computed from Python or by another version")
  config = parse("evaluate", [*words[2:], *changes], DEFAULTS, "")
  print(f"$ {command}", file=sys.stderr)
  with tempfile.TemporaryDirectory() as folder:
    set_option(config, "out", folder)
    report = evaluate_config(config)
  new = next((result for result in report.results if result.cell.id == stored.cell.id), None)
  if new is None or new.cell != stored.cell:
    made = ", ".join(str(result.cell) for result in report.results[:3])
    raise CellMismatchError(f"{command} makes {made}, not {stored.cell}")
  found = compare(stored, new)
  print("\n".join([str(stored.cell), *found.lines()]))
  return 0 if found.verdicts else CellMismatchError.exit_code
