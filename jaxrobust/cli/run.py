"""`jaxrobust run --config configs/local.py`: train classifiers, evaluate them all, print one table, write the page."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ml_collections import ConfigDict

from jaxrobust.cli import evaluate as evaluate_command
from jaxrobust.cli.configuration import parse
from jaxrobust.cli.table import print_reports
from jaxrobust.core.compilation import enable_compilation_cache
from jaxrobust.core.errors import InputError

DEFAULTS = {
  "networks": ConfigDict(),
  "data": "digits32",
  "suite": "basic",
  "norm": "",
  "eps": "",
  "n": 0,
  "seed": 0,
  "batch_size": 0,
  "out": "runs/local",
  "show": (),
  "save_images": 4,
  "quiet": False,
}


def run(argv: list[str]) -> int:
  config = parse("run", argv, DEFAULTS, "train classifiers and evaluate them, from one config")
  if not config.networks:
    raise InputError("no networks to train; pass --config=local or a config of your own")
  enable_compilation_cache()
  from jaxrobust.data.registry import load_data
  from jaxrobust.engine.options import EngineOptions
  from jaxrobust.evaluation.evaluate import evaluate
  from jaxrobust.evaluation.job import RunOptions
  from jaxrobust.evaluation.suites import Setting, make_suite
  from jaxrobust.models.weights.portable import shipped_results
  from jaxrobust.report.report import write_report
  from jaxrobust.results import check_writable
  from jaxrobust.training import loop
  from jaxrobust.training.config import make_train_config

  out = Path(config.out)
  # Everything is read before anything is trained: a typo must not cost an hour.
  settings = {name: make_train_config(network) for name, network in config.networks.items()}
  for setting in settings.values():
    loop.check_train_config(setting)
  asked = make_suite(config.suite, Setting.of(config.data, config.norm, config.eps)).setting
  data = load_data(config.data)
  check_writable(out)
  folders = {
    name: loop.train(setting, out / "models" / name, title=f"train {name}", quiet=config.quiet)
    for name, setting in settings.items()
  }
  options = RunOptions(
    EngineOptions.for_platform(config.batch_size or None),
    seed=config.seed,
    save_images=config.save_images,
    quiet=config.quiet,
  )
  reports = [
    evaluate(
      folder,
      data,
      config.suite,
      norm=config.norm or None,
      eps=config.eps or None,
      n=config.n or None,
      name=name,
      out=out / "results",
      options=options,
      command=_command(config, name),
    )
    for name, folder in folders.items()
  ]
  print_reports(f"{config.data}, accuracy in % [95 % interval] ({asked.norm} {asked.eps.text})", reports)
  print(f"models are in {out / 'models'}, cells in {out / 'results'}")
  # The networks that ship with the package stand beside the new ones, with the results they come with.
  also = [*config.show, *shipped_results()]
  print(f"the page is {write_report(out / 'results', out / 'site', also=also).page}")
  return 0


def _command(config: ConfigDict, name: str) -> Callable[[str], str]:
  """Returns the evaluation of one of the networks as a command of its own."""
  asked = ConfigDict(evaluate_command.DEFAULTS)
  asked.model = str(Path(config.out) / "models" / name)
  for key in ("data", "suite", "norm", "eps", "n", "seed"):
    asked[key] = config[key]
  return lambda title: evaluate_command.command_of(asked, title)
