"""`jaxrobust study list|run|table`: the runs of a study, all of them trained and judged, the table from their cells.

jaxrobust study list configs/studies.py:robustart-techniques
jaxrobust study run configs/studies.py:digits-techniques --out=runs/digits
jaxrobust study table runs/digits

`run` continues where it was stopped; networks that `jaxrobust train --index` made in the same folder are only judged.
"""

from __future__ import annotations

import fnmatch
import json
import sys
from pathlib import Path
from typing import Any

from jaxrobust.cli.configuration import parse
from jaxrobust.core.compilation import enable_compilation_cache
from jaxrobust.core.errors import InputError
from jaxrobust.core.registry import unknown_name
from jaxrobust.core.terminal import say

DEFAULTS: dict[str, Any] = {"out": "", "only": "*", "n": 0, "batch_size": 0, "json": False, "quiet": False}
USAGE = """the runs of a study, all of them trained and judged, and the table from their cells
  list CONFIG.py:STUDY              what it consists of
  run CONFIG.py:STUDY --out=FOLDER  trains, evaluates and tabulates all of it
  table FOLDER                      the table of what is there"""
TABLE = "table.md"


def run(argv: list[str]) -> int:
  if not argv or "-h" in argv or "--help" in argv:
    parse("study", ["--help"], DEFAULTS, USAGE)
  action, *rest = argv
  actions = {"list": _list, "run": _run, "table": _table}
  if action not in actions:
    raise unknown_name("study command", action, sorted(actions))
  if not rest:
    wanted = "folder" if action == "table" else "study: CONFIG.py:STUDY, or one that ships: studies:digits-techniques"
    raise InputError(f"jaxrobust study {action} takes a {wanted}")
  return actions[action](rest[0], parse("study", rest[1:], DEFAULTS, USAGE))


def _list(path: str, config: Any) -> int:
  from jaxrobust.evaluation.studies.runs import study_runs

  for index, one in enumerate(study_runs(path, config.out or ".")):
    print(f"{index:4d}  {one.name:<40} {', '.join(one.options.get('techniques', ())) or '-'}")
  return 0


def _table(path: str, config: Any) -> int:
  from jaxrobust.evaluation.studies.rows import study_rows
  from jaxrobust.report.studies import study_table

  rows = study_rows(path)
  print(json.dumps(rows) if config.json else study_table(rows), end="\n" if config.json else "")
  return 0


def _run(path: str, config: Any) -> int:
  if not config.out:
    raise InputError("say where the study goes: --out=FOLDER")
  enable_compilation_cache()
  from jaxrobust.core.files import atomic_write
  from jaxrobust.engine.options import EngineOptions
  from jaxrobust.evaluation.job import RunOptions
  from jaxrobust.evaluation.studies.rows import study_rows
  from jaxrobust.evaluation.studies.run import StudyRunner
  from jaxrobust.report.studies import study_table

  options = RunOptions(EngineOptions.for_platform(config.batch_size or None), quiet=True)
  study, failures = StudyRunner(path, config.out, options, config.n), []
  known: dict[str, dict[str, float]] = {}
  chosen = [one for one in study.runs if fnmatch.fnmatchcase(one.name, config.only)]
  if not chosen:
    raise unknown_name("run", config.only, [one.name for one in study.runs])
  for number, one in enumerate(chosen):
    if not config.quiet:
      print(f"[{number + 1}/{len(chosen)}] {one.name}", file=sys.stderr, flush=True)
    failure = study.run(one)
    failures += [failure] if failure else []
    atomic_write(Path(config.out) / TABLE, study_table(study_rows(config.out, known)))
  print(study_table(study_rows(config.out, known)), end="")
  for failure in failures:
    say(failure, error=True)
  return 5 if failures else 0
