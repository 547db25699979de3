"""`jaxrobust evaluate --model DIR --data digits32 --suite basic --eps 8/255`."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ml_collections import ConfigDict

from jaxrobust.cli.configuration import check_model, command_line, parse
from jaxrobust.core.compilation import enable_compilation_cache
from jaxrobust.core.terminal import say

if TYPE_CHECKING:
  from jaxrobust.evaluation.job import RunOptions
  from jaxrobust.evaluation.suites.report import Report
  from jaxrobust.evaluation.suites.suite import AuditSetting, CascadeSetting

# Of all commands that compute cells.
SHARED = {
  "norm": "linf",
  "eps": "8/255",
  "condition": "none",
  "preprocess": "",
  "n": 0,
  "seed": 0,
  "out": "results",
  "batch_size": 0,
  "precision": "highest",
  "save_seconds": 60.0,
  "distributed": False,
  "processes": 0,
  "quiet": False,
}
DEFAULTS = {
  "model": "",
  "name": "",
  "data": "digits32",
  "suite": "basic",
  "only": "",
  "defense": "",
  "oblivious": "",
  "source": "",
  **SHARED,
  # Empty where a suite has numbers of its own.
  "norm": "",
  "eps": "",
  "dtype": "float32",
  "samples": 0,
  "save_images": 0,
  "certify": "",
  "cheap": "mm5",
  "full": "autoattack",
  "width": 0.5,
  "evaluations": 0.0,
  "stages": "autoattack",
  "order": "",
  "pilot": 50,
  "partial": False,
  "dry_run": False,
}
# Say where and how cells are computed, not what they are.
FREE = ("out", "batch_size", "save_seconds", "distributed", "processes", "quiet")


def run(argv: list[str]) -> int:
  config = parse("evaluate", argv, DEFAULTS, "a suite of attacks on a classifier, as cells on disk and a table")
  if config.dry_run:
    print_plan(config)
    return 0
  report = evaluate_config(config)
  print_summary(config.out, report)
  print(f"cells are in {config.out}")
  return 0


def _setting(config: ConfigDict) -> Any:
  from jaxrobust.evaluation.suites.suite import Setting

  source = Path(config.source).name if config.source else ""
  more = {"source": source, "audit": _audit_setting(config), "cascade": _cascade_setting(config)}
  return Setting.of(config.data, config.norm, config.eps, condition=config.condition, **more)


def print_plan(config: ConfigDict) -> None:
  """Prints what a suite would run, without data or classifier."""
  from jaxrobust.core.defense import ways_to_ignore_defenses
  from jaxrobust.defenses.registry import parse_defenses
  from jaxrobust.evaluation.suites.plan import plan_lines
  from jaxrobust.evaluation.suites.suite import make_suite

  ignorable = ways_to_ignore_defenses(parse_defenses(config.defense))
  suite = make_suite(config.suite, replace(_setting(config), ignorable=ignorable))
  suite = suite.oblivious(config.oblivious) if config.oblivious else suite
  for line in plan_lines(suite.only(config.only) if config.only else suite, config.n or None, config.preprocess):
    print(line)


def evaluate_config(config: ConfigDict) -> Report:
  """Runs what a config of this command asks for."""
  check_model(config.model)
  enable_compilation_cache()
  from jaxrobust.evaluation.evaluate import evaluate

  options = run_options(
    config,
    samples=config.samples or None,
    quiet=config.quiet,
    save_images=config.save_images,
    certify=config.certify,
    dtype=config.dtype,
  )
  return evaluate(
    config.model,
    config.data,
    config.suite,
    norm=config.norm or None,
    eps=config.eps or None,
    n=config.n or None,
    preprocess=config.preprocess or None,
    partial=config.partial,
    defense=config.defense,
    oblivious=config.oblivious,
    audit=_audit_setting(config),
    cascade=_cascade_setting(config),
    transfer_from=config.source,
    condition=config.condition,
    name=config.name or None,
    out=config.out,
    options=options,
    only=config.only or None,
    announce=None if config.quiet or options.process else lambda line: print(line, file=sys.stderr, flush=True),
    command=lambda title: command_of(config, title),
  )


def _audit_setting(config: ConfigDict) -> AuditSetting:
  from jaxrobust.evaluation.suites.suite import AuditSetting

  return AuditSetting(config.cheap, config.full, config.width, config.evaluations)


def _cascade_setting(config: ConfigDict) -> CascadeSetting:
  from jaxrobust.evaluation.suites.suite import CascadeSetting

  return CascadeSetting(config.stages, config.order, config.pilot)


def run_options(config: ConfigDict, **more: Any) -> RunOptions:
  """Returns how cells are run, as the options that all commands share say; with several processes, waits for all."""
  from jaxrobust.core.distributed import process_share
  from jaxrobust.engine.options import EngineOptions
  from jaxrobust.evaluation.job import RunOptions

  process, processes = process_share(config.distributed, config.processes, alone=True)
  return RunOptions(
    EngineOptions.for_platform(config.batch_size or None),
    seed=config.seed,
    precision=config.precision,
    save_seconds=config.save_seconds,
    process=process,
    processes=processes,
    **more,
  )


def command_of(config: ConfigDict, title: str) -> str:
  """Returns the command that computes one cell of this evaluation again, into the default results folder."""
  return command_line("evaluate", config, DEFAULTS, (*FREE, "save_images", "only", "partial", "dry_run"), only=title)


def print_summary(out: str, report: Report) -> None:
  """Prints the metrics of a suite, which are stored as well, or the table of one that has none."""
  from jaxrobust.cli.table import print_findings, print_metrics, print_reports
  from jaxrobust.evaluation.suite_jobs import missing_lines
  from jaxrobust.evaluation.suites.summary import summarize_suite, write_summary
  from jaxrobust.evaluation.yield_job import order_line

  if not report.whole:
    print("other processes are still at work; the last one prints the summary")
    return
  if report.suite.metrics is not None:
    summary = summarize_suite(report)
    title = f"{summary['model']} on {summary['data']}, {summary['suite']}"
    print_metrics(title, summary["metrics"], summary.get("units"))
    print_findings(report)
    for line in missing_lines(report.missing):
      say(line)
    for finding in summary["findings"]:
      say(f"{finding['kind']}: {finding['cell']}, {finding['examples']} examples: {finding['text']}")
    print(f"summary: {write_summary(out, report, summary)}")
  else:
    part = report.suite.parts[0]
    where = part.data if part.condition == "none" else f"{part.data} under {part.condition}"
    print_reports(f"{where}, robust accuracy in % [95 % interval]", [report])
  for result in report.results:
    if "cascade" in result.summary:
      print(order_line(result.summary["cascade"]))
