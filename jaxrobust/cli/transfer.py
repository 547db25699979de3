"""`jaxrobust transfer --models A B C --data digits32 --attack pgd --eps 8/255`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ml_collections import ConfigDict
from rich.console import Console
from rich.table import Table

from jaxrobust.cli.configuration import command_line, parse
from jaxrobust.core.compilation import enable_compilation_cache
from jaxrobust.core.errors import InputError

if TYPE_CHECKING:
  from jaxrobust.results import Result

DEFAULTS = {
  "models": "",
  "data": "digits32",
  "attack": "pgd",
  "options": ConfigDict(),
  "norm": "linf",
  "eps": "8/255",
  "condition": "none",
  "n": 0,
  "seed": 0,
  "out": "results",
  "batch_size": 0,
  "precision": "highest",
}
_FREE = ("options", "out", "batch_size")


def run(argv: list[str]) -> int:
  config = parse("transfer", _joined(argv), DEFAULTS, "adversarial images of each classifier, shown to all others")
  results = transfer_config(config)
  from jaxrobust.analysis.transfer_map import transfer_map

  found = transfer_map(results)
  title = f"{config.data}, {config.norm} {config.attack} {config.eps}"
  table = Table(title=f"{title}: success rate in % (of images the target has right)")
  table.add_column("made on \\ shown to")
  for target in found.targets:
    table.add_column(target, justify="right")
  for source, row in zip(found.sources, found.success, strict=True):
    table.add_row(source, *(f"{100 * value:.1f}" for value in row))
  console = Console()
  Console(width=None if console.is_terminal else 40 + 24 * len(found.targets)).print(table)
  print(f"cells are in {config.out}")
  return 0


def transfer_config(config: ConfigDict) -> list[Result]:
  """All cells that a config of this command asks for."""
  folders = [Path(folder) for folder in config.models.split(",") if folder]
  names = [folder.name for folder in folders]
  if len(folders) < 2:
    raise InputError("transfer needs at least two classifiers: --models FOLDER FOLDER …")
  if len(set(names)) < len(names):
    raise InputError(f"the folders of classifiers must have different names, got {', '.join(names)}")
  enable_compilation_cache()
  from jaxrobust.data.registry import load_data
  from jaxrobust.engine.options import EngineOptions
  from jaxrobust.evaluation.conditions import under
  from jaxrobust.evaluation.job import RunOptions
  from jaxrobust.evaluation.provenance import about_model
  from jaxrobust.evaluation.shared import Shared
  from jaxrobust.evaluation.suites import attack_entry
  from jaxrobust.evaluation.transfer import run_transfer
  from jaxrobust.models.zoo import load_classifier
  from jaxrobust.results import check_writable

  entry = attack_entry(config.attack, config.eps, norm=config.norm, **config.options.to_dict())
  data = load_data(config.data)
  data = under(data.subset(config.n) if config.n else data, config.condition, config.seed)
  check_writable(config.out)
  models = {}
  for folder in folders:
    classifier = load_classifier(folder)
    models[folder.name] = Shared(classifier, about_model(folder, classifier), lambda _: _command(config))
  options = RunOptions(
    EngineOptions.for_platform(config.batch_size or None), seed=config.seed, precision=config.precision, quiet=True
  )
  return list(run_transfer(models, data, entry, config.out, options).values())


def _command(config: ConfigDict) -> str:
  """The command that computes these cells again; all of them, because images are made once for all targets."""
  options = {f"options.{key}": value for key, value in config.options.items()}
  return command_line("transfer", config, DEFAULTS, _FREE, **options)


def _joined(argv: list[str]) -> list[str]:
  """`--models A B C` as one option: its values end at the next option."""
  words: list[str] = []
  waiting = list(argv)
  while waiting:
    word = waiting.pop(0)
    if word == "--models":
      values = []
      while waiting and not waiting[0].startswith("--"):
        values.append(waiting.pop(0))
      word = "--models=" + ",".join(values)
    words.append(word)
  return words
