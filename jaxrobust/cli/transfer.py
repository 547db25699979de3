"""`jaxrobust transfer --models A B C --data digits32 --attack pgd --eps 8/255`, or `--suite=ares`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ml_collections import ConfigDict
from rich.console import Console
from rich.table import Table

from jaxrobust.cli.configuration import attack_options, command_line, parse
from jaxrobust.cli.evaluate import FREE, SHARED, run_options
from jaxrobust.cli.table import plain_cell
from jaxrobust.core.compilation import enable_compilation_cache
from jaxrobust.core.errors import InputError
from jaxrobust.core.progress import ProgressFn, show_all

if TYPE_CHECKING:
  from jaxrobust.evaluation.transfer_suites import TransferSuite
  from jaxrobust.results import Result

DEFAULTS = {
  "models": "",
  "targets": "",
  "data": "digits32",
  "suite": "",
  "attack": "pgd",
  "options": ConfigDict(),
  "steps": "",
  "targeted": False,
  "defense": "",
  **SHARED,
  "dry_run": False,
}
# What a suite says itself.
_OF_ONE_ATTACK = ("attack", "options", "norm", "eps", "steps", "targeted")


def run(argv: list[str]) -> int:
  config = parse("transfer", _joined(argv), DEFAULTS, "adversarial images of each classifier, shown to all others")
  if config.dry_run:
    print_plan(config)
    return 0
  results = transfer_config(config)
  for table in _tables(config, results):
    console = Console()
    Console(width=None if console.is_terminal else 40 + 24 * len(table.columns)).print(table)
  if config.suite:
    from jaxrobust.evaluation.transfer_suites import write_summaries

    name = "transfer-" + config.suite.replace(",", "-")
    for path in write_summaries(config.out, name, config.data, results):
      print(f"summary: {path}")
  print(f"cells are in {config.out}")
  return 0


def print_plan(config: ConfigDict) -> None:
  """Prints what the transfer part of a suite would make, without data or classifiers."""
  from jaxrobust.evaluation.transfer_suites import plan_lines

  if not config.suite:
    raise InputError("dry_run is of suites: --suite=NAME, one of `jaxrobust transfer --help`")
  _suite(config)  # Refuses what a suite sets itself.
  for line in plan_lines(config.suite, config.data, config.n or None, config.preprocess):
    print(line)


def _tables(config: ConfigDict, results: list[Result]) -> Iterator[Table]:
  """Yields a map for each attack and budget; of a suite, a table for each source with a row for each of them."""
  from jaxrobust.analysis.transfer_map import source_and_attack, transfer_map

  asked = [(pair[1], result.cell.eps) for result in results if (pair := source_and_attack(result.cell)) is not None]
  maps = {
    one: transfer_map([result for result, other in zip(results, asked, strict=True) if other == one])
    for one in dict.fromkeys(asked)
  }
  if not config.suite:
    for (attack, eps), found in maps.items():
      rows = dict(zip(found.sources, found.success, strict=True))
      yield _table(f"{config.data}, {attack} {eps}", "made on \\ shown to", found.targets, rows)
    return
  first = next(iter(maps.values()))
  for number, source in enumerate(first.sources):
    rows = {f"{attack}@{eps}": found.success[number] for (attack, eps), found in maps.items()}
    yield _table(f"{config.data}, images made on {source}", "attack", first.targets, rows)


def _table(title: str, first: str, targets: Sequence[str], rows: Mapping[str, Iterable[float]]) -> Table:
  table = Table(title=f"{title}: success rate in % (of images the target has right)")
  table.add_column(first)
  for target in targets:
    table.add_column(plain_cell(target), justify="right")
  for name, values in rows.items():
    table.add_row(plain_cell(name), *(f"{100 * value:.1f}" for value in values))
  return table


def transfer_config(config: ConfigDict) -> list[Result]:
  """Returns all cells that a config of this command asks for."""
  sources, targets = (_folders(text) for text in (config.models, config.targets))
  if len(sources) + len(targets) < 2 and not config.defense:
    raise InputError("transfer needs at least two classifiers: --models FOLDER FOLDER …, or --targets beside them")
  enable_compilation_cache()
  from jaxrobust.data.registry import load_data
  from jaxrobust.data.subsets import first_of
  from jaxrobust.defenses.registry import defense_id, defenses_id, parse_defenses
  from jaxrobust.defenses.stored import load_classifier
  from jaxrobust.evaluation.conditions import under
  from jaxrobust.evaluation.context import ModelContext
  from jaxrobust.evaluation.preprocess import model_preprocessing
  from jaxrobust.evaluation.provenance import about_model
  from jaxrobust.evaluation.transfer import run_transfer
  from jaxrobust.results import check_writable

  options = run_options(config, quiet=True)
  suite = _suite(config)
  # One way to see pictures for all: images made on one network are shown to the others.
  seen = config.preprocess or suite.preprocess or model_preprocessing(next(iter(sources.values())))
  data = load_data(config.data, preprocess=seen)
  most = config.n or (len(data) if "@" in config.data or suite.n is None else min(suite.n, len(data)))
  data = under(data if most == len(data) else first_of(data, most), config.condition, config.seed)
  check_writable(config.out)

  def load(folders: dict[str, Path], defense: str = "") -> dict[str, ModelContext]:
    loaded = {}
    for name, folder in folders.items():
      classifier = load_classifier(folder, defense)
      about = about_model(folder, classifier) | ({"defense": defenses_id(classifier)} if defense else {})
      name = f"{name}+{defense}" if defense else name
      loaded[name] = ModelContext(classifier, about, lambda _: _command(config))
    return loaded

  models = load(sources)
  if config.defense:
    chosen = load(targets or sources, "+".join(map(defense_id, parse_defenses(config.defense))))
  else:
    shown = models | load({name: folder for name, folder in targets.items() if name not in models})
    chosen = {name: shown[name] for name in targets} if targets else models
  results = []
  with show_all("transfer", quiet=config.quiet) as show:
    for number, spec in enumerate(suite.specs):
      progress = partial(_show_part, show, number, len(suite.specs), spec.entry.attack)
      found = run_transfer(models, data, spec, config.out, options, targets=chosen, progress=progress)
      results += list(found.values())
  return results


def _show_part(show: ProgressFn, number: int, count: int, title: str, done: float, text: str = "") -> None:
  """Shows how much of all is done, once a share of one part is."""
  show((number + done) / count, text or title)


def _suite(config: ConfigDict) -> TransferSuite:
  """Returns what is made on each source: what a suite says, or one attack."""
  from jaxrobust.attacks.registry import parameters_of
  from jaxrobust.core.budget import Budget
  from jaxrobust.evaluation.suites import attack_entry, targeted
  from jaxrobust.evaluation.transfer_job import TransferSpec
  from jaxrobust.evaluation.transfer_suites import TransferSuite, transfer_suite

  if config.suite:
    set_too = [name for name in _OF_ONE_ATTACK if config[name] != DEFAULTS[name]]
    if set_too:
      raise InputError(f"suite {config.suite!r} sets its own attacks; leave out --{set_too[0]}")
    return transfer_suite(config.suite, config.data)
  options = attack_options(config)
  normed = "norm" in parameters_of(config.attack)
  if normed:
    options = {"norm": config.norm, **options}
  elif config.norm != DEFAULTS["norm"] or config.eps == DEFAULTS["eps"]:
    raise InputError(f"{config.attack} has no norm: leave --norm out, and pass a budget of its own by --eps")
  budgets = tuple(Budget.parse(text, config.norm if normed else "") for text in str(config.eps).split(","))
  entry = attack_entry(config.attack, budgets[0], **options)
  return TransferSuite([TransferSpec(targeted(entry) if config.targeted else entry, budgets, _steps(config.steps))])


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
  return command_line("transfer", config, DEFAULTS, (*FREE, "options", "dry_run"), **options)


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
