"""`jaxrobust transfer --models A B C --data digits32 --attack pgd --eps 8/255`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ml_collections import ConfigDict
from rich.console import Console
from rich.table import Table

from jaxrobust.cli.configuration import command_line, parse
from jaxrobust.cli.evaluate import FREE, SHARED, run_options
from jaxrobust.core.compilation import enable_compilation_cache
from jaxrobust.core.errors import InputError
from jaxrobust.core.progress import show_all

if TYPE_CHECKING:
  from jaxrobust.results import Result

DEFAULTS = {
  "models": "",
  "targets": "",
  "data": "digits32",
  "attack": "pgd",
  "options": ConfigDict(),
  "steps": "",
  "targeted": False,
  **SHARED,
}


def run(argv: list[str]) -> int:
  config = parse("transfer", _joined(argv), DEFAULTS, "adversarial images of each classifier, shown to all others")
  results = transfer_config(config)
  from jaxrobust.analysis.transfer_map import transfer_map

  budgets = list(dict.fromkeys(result.cell.eps for result in results))
  for eps in budgets:
    found = transfer_map([result for result in results if result.cell.eps == eps])
    title = f"{config.data}, {config.norm} {config.attack} {eps}"
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
  """Returns all cells that a config of this command asks for."""
  sources, targets = (_folders(text) for text in (config.models, config.targets))
  if len(sources) + len(targets) < 2:
    raise InputError("transfer needs at least two classifiers: --models FOLDER FOLDER …, or --targets beside them")
  enable_compilation_cache()
  from jaxrobust.core.budget import Budget
  from jaxrobust.data.registry import load_data
  from jaxrobust.evaluation.conditions import under
  from jaxrobust.evaluation.context import ModelContext
  from jaxrobust.evaluation.provenance import about_model
  from jaxrobust.evaluation.suites import attack_entry, targeted
  from jaxrobust.evaluation.transfer import TransferSpec, run_transfer
  from jaxrobust.models.zoo import load_classifier
  from jaxrobust.results import check_writable

  options = run_options(config, quiet=True)
  budgets = tuple(Budget.parse(text) for text in str(config.eps).split(","))
  entry = attack_entry(config.attack, budgets[0], norm=config.norm, **config.options.to_dict())
  spec = TransferSpec(targeted(entry) if config.targeted else entry, budgets, _steps(config.steps))
  data = load_data(config.data)
  data = under(data.subset(config.n) if config.n else data, config.condition, config.seed)
  check_writable(config.out)

  def load(folders: dict[str, Path]) -> dict[str, ModelContext]:
    loaded = {}
    for name, folder in folders.items():
      classifier = load_classifier(folder)
      loaded[name] = ModelContext(classifier, about_model(folder, classifier), lambda _: _command(config))
    return loaded

  models = load(sources)
  shown = models | load({name: folder for name, folder in targets.items() if name not in models})
  chosen = {name: shown[name] for name in targets} if targets else models
  with show_all("transfer", quiet=config.quiet) as show:
    progress = lambda done, text="": show(done, text or config.attack)
    found = run_transfer(models, data, spec, config.out, options, targets=chosen, progress=progress)
    return list(found.values())


def _folders(text: str) -> dict[str, Path]:
  """Returns classifiers' folders by their names, which must differ."""
  folders = [Path(folder) for folder in text.split(",") if folder]
  names = [folder.name for folder in folders]
  if len(set(names)) < len(names):
    raise InputError(f"the folders of classifiers must have different names, got {', '.join(names)}")
  return dict(zip(names, folders, strict=True))


def _steps(text: str) -> tuple[int, ...]:
  """Returns the numbers in `1,5,10`."""
  try:
    return tuple(int(part) for part in str(text).split(",") if part)
  except ValueError:
    raise InputError(f"steps are integers separated by commas, as 1,5,10, got {text!r}") from None


def _command(config: ConfigDict) -> str:
  """Returns the command that computes these cells again; all of them, because images are made once for all targets."""
  options = {f"options.{key}": value for key, value in config.options.items()}
  return command_line("transfer", config, DEFAULTS, (*FREE, "options"), **options)


def _joined(argv: list[str]) -> list[str]:
  """Returns `--models A B C` as one option: its values end at the next option."""
  words: list[str] = []
  waiting = list(argv)
  while waiting:
    word = waiting.pop(0)
    if word in ("--models", "--targets"):
      values = []
      while waiting and not waiting[0].startswith("--"):
        values.append(waiting.pop(0))
      word = f"{word}=" + ",".join(values)
    words.append(word)
  return words
