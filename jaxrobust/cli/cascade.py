"""`jaxrobust cascade --root results --model M --data D --eps 8/255`: a cascade from stored cells."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Any

from ml_collections import ConfigDict
from rich.console import Console
from rich.table import Table

from jaxrobust.cli.configuration import parse
from jaxrobust.core.errors import InputError
from jaxrobust.core.terminal import say

if TYPE_CHECKING:
  from jaxrobust.analysis.cascade_cells import BuiltCascade

DEFAULTS = {
  "root": "results",
  "model": "",
  "data": "",
  "norm": "linf",
  "eps": "8/255",
  "condition": "none",
  "n": 0,
  "seed": 0,
  "attacks": "*",
  "budget": 0.0,
  "json": False,
}
USAGE = "which attacks to run, in which order: what stored cells newly break per forward pass, and the command for it"


def run(argv: list[str]) -> int:
  from jaxrobust.analysis.cascade_cells import CellFilter, build_cascade
  from jaxrobust.results import load_results

  config = parse("cascade", argv, DEFAULTS, USAGE)
  for name in ("model", "data"):
    if not config[name]:
      raise InputError(f"no {name}; pass --{name}=NAME, as `jaxrobust results --root={config.root}` lists it")
  if config.budget < 0:
    raise InputError(f"a cascade cannot have a budget of {config.budget:g} passes")
  condition = "clean" if config.condition == "none" else config.condition
  shared = (config.model, config.data, config.eps, config.norm)
  wanted = CellFilter(*shared, condition, config.seed, config.n, config.attacks)
  results = load_results(config.root, lambda error: say(f"finding: {error}", error=True))
  built, passed = build_cascade(results, wanted, config.budget)
  for cell, reason in passed.items():
    say(f"passed over: {cell}: {reason}", error=True)
  if config.json:
    print(json.dumps(_plain(built, config)))
  else:
    _print(built, config)
  return 0


def command_of(built: BuiltCascade, config: ConfigDict) -> str:
  """Returns the command that runs the cascade."""
  given = {key: config[key] for key in ("model", "data", "norm", "eps")}
  if config.condition != "none":
    given["condition"] = config.condition
  options = {**given, "suite": "cascade", "stages": built.text, "out": config.root}
  return shlex.join(["jaxrobust", "evaluate", *(f"--{key}={value}" for key, value in options.items())])


def _rows(built: BuiltCascade) -> list[dict[str, Any]]:
  return [
    {
      "attack": built.candidates[choice.candidate].cell.attack,
      "standing": choice.standing,
      "newly": choice.newly,
      "passes": choice.cost,
      "each": choice.cost / choice.standing,
    }
    for choice in built.choices
  ]


def _plain(built: BuiltCascade, config: ConfigDict) -> dict[str, Any]:
  numbers = {"n": built.n, "correct": built.correct, "robust": built.robust, "standing": built.standing}
  return {"stages": built.text, "rows": _rows(built), **numbers, "command": command_of(built, config)}


def _print(built: BuiltCascade, config: ConfigDict) -> None:
  from jaxrobust.cli.table import plain_cell

  table = Table(title=plain_cell(f"{config.model} on {config.data}, {config.norm} {config.eps}"))
  table.add_column("attack", overflow="fold")
  for column in ("standing", "newly broken", "passes", "per example"):
    table.add_column(column, justify="right")
  for row in _rows(built):
    numbers = (f"{row['standing']}", f"{row['newly']}", f"{row['passes']:,.0f}", f"{row['each']:.1f}")
    table.add_row(plain_cell(row["attack"]), *numbers)
  console = Console()
  Console(width=None if console.is_terminal else 120).print(table)
  spent = sum(choice.cost for choice in built.choices)
  rest = len(built.candidates) - len(built.choices)
  say(f"{built.robust} of {built.n} examples stand, for {spent:,.0f} forward passes (a gradient counts as two more)")
  if rest:
    say(f"{rest} more cells would leave {built.standing} standing")
  say(command_of(built, config))
