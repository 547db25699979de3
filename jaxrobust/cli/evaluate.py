"""`jaxrobust evaluate --model DIR --data digits32 --suite basic --eps 8/255`."""

from __future__ import annotations

from jaxrobust.cli.configuration import parse
from jaxrobust.cli.table import print_reports
from jaxrobust.core.compilation import enable_compilation_cache
from jaxrobust.core.errors import InputError

DEFAULTS = {
  "model": "",
  "name": "",
  "data": "digits32",
  "suite": "basic",
  "norm": "linf",
  "eps": "8/255",
  "condition": "none",
  "n": 0,
  "seed": 0,
  "out": "results",
  "batch_size": 0,
  "precision": "highest",
  "samples": 20,
  "save_seconds": 60.0,
  "distributed": False,
  "processes": 0,
  "quiet": False,
}


def run(argv: list[str]) -> int:
  config = parse("evaluate", argv, DEFAULTS, "a suite of attacks on a classifier, as cells on disk and a table")
  if not config.model:
    raise InputError("no model; pass --model=FOLDER of a trained classifier")
  enable_compilation_cache()
  from jaxrobust.engine.options import EngineOptions
  from jaxrobust.evaluation.distributed import process_share
  from jaxrobust.evaluation.evaluate import evaluate
  from jaxrobust.evaluation.runner import RunOptions

  process, processes = process_share(config.distributed, config.processes)
  options = RunOptions(
    engine=EngineOptions.for_platform(config.batch_size or None),
    seed=config.seed,
    samples=config.samples,
    precision=config.precision,
    save_seconds=config.save_seconds,
    process=process,
    processes=processes,
    quiet=config.quiet,
  )
  report = evaluate(
    config.model,
    config.data,
    config.suite,
    norm=config.norm,
    eps=config.eps,
    n=config.n or None,
    condition=config.condition,
    name=config.name or None,
    out=config.out,
    options=options,
  )
  where = config.data if config.condition == "none" else f"{config.data} under {config.condition}"
  print_reports(f"{where}, robust accuracy in %", [report])
  print(f"cells are in {config.out}")
  return 0
