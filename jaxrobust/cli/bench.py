"""`jaxrobust bench NAME [--json] [--n=512]`."""

from __future__ import annotations

import importlib
import inspect
import json
import sys

from rich.console import Console
from rich.table import Table

from jaxrobust.bench.rows import Row
from jaxrobust.cli.configuration import parse
from jaxrobust.core.compilation import enable_compilation_cache
from jaxrobust.core.registry import unknown_name

BENCHES = {
  "engine": "slots against fixed batches",
  "attacks": "attacks against other implementations of them",
  "threats": "perceptual, flow and color attacks against perceptual-advex",
  "queries": "query attacks: queries per second against other implementations and bare forward passes",
  "train": "the adversarial training step against its bare parts and PyTorch",
  "techniques": "every robust technique's step against its bare evaluations",
  "models": "forward and input gradient of networks against PyTorch, and inside device loops",
  "cascades": "evaluations of a cascade, in its own order and in that of measured yield, beside AutoAE",
  "suite": "a suite against the sum of its cells computed alone",
  "nas": "cells of NAS-Bench-201 by one program against a program for each",
  "corruptions": "corruptions against PyPI's imagecorruptions",
}


def run(argv: list[str]) -> int:
  if not argv or argv[0] in ("-h", "--help"):
    print("usage: jaxrobust bench NAME [--json] [OPTIONS]\n")
    print("\n".join(f"  {name:<12} {text}" for name, text in BENCHES.items()))
    return 0
  name, *rest = argv
  if name not in BENCHES:
    raise unknown_name("bench", name, sorted(BENCHES))
  bench = importlib.import_module(f"jaxrobust.bench.{name}").run
  defaults = {key: parameter.default for key, parameter in inspect.signature(bench).parameters.items()}
  config = parse(f"bench {name}", rest, {"json": False, **defaults}, BENCHES[name])
  enable_compilation_cache()
  rows: list[Row] = []
  for row in bench(**{key: config[key] for key in defaults}):
    rows.append(row)
    # A bench may take half an hour: what is measured is said at once, and not lost when it is stopped.
    text, stream = (json.dumps(row.as_dict()), sys.stdout) if config.json else (_line(row), sys.stderr)
    print(text, file=stream, flush=True)
  if not config.json:
    print_rows(rows)
  return 0


def _line(row: Row) -> str:
  ratio = "" if row.ratio is None else f", {row.ratio:.2f} times {row.peer}"
  return f"{row.name}: {row.value:.4g} {row.unit}{ratio}"


def print_rows(rows: list[Row]) -> None:
  """Prints a table; what does not apply stays empty."""
  table = Table()
  for column in ("name", "value", "unit", "peer", "ratio", "efficiency", "useful"):
    table.add_column(column, justify="left" if column in ("name", "unit", "peer") else "right")
  for row in rows:
    peer = " ".join(part for part in (row.peer, row.peer_version) if part)
    numbers = ["" if number is None else f"{number:.2f}" for number in (row.ratio, row.efficiency, row.useful)]
    table.add_row(row.name, f"{row.value:.4g}", row.unit, peer, *numbers)
  console = Console()
  (console if console.is_terminal else Console(width=160)).print(table)
