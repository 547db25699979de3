"""`jaxrobust nas run|search|compare|measure|figures|supernet`: architectures trained, attacked, searched, measured.

jaxrobust nas run --config configs/nas.py:small --cells random-200 --out nas
jaxrobust nas search nas/dataset/foolbox --objective pgd-4@1
jaxrobust nas compare nas/dataset/foolbox published/nas201
jaxrobust nas measure --cells 13714,0 --models nas/models --out measures.jsonl
jaxrobust nas figures nas/dataset/foolbox --out figures
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ml_collections import ConfigDict

from jaxrobust.cli.configuration import parse
from jaxrobust.cli.evaluate import run_options
from jaxrobust.cli.supernet import SUPERNET, run_supernet
from jaxrobust.core.compilation import enable_compilation_cache
from jaxrobust.core.errors import InputError
from jaxrobust.core.registry import unknown_name

if TYPE_CHECKING:
  from jaxrobust.evaluation.nas.run import LoadedCells
  from jaxrobust.nas.search import Landscape
  from jaxrobust.nas.trainer import CellTrainer

# The recipe of NAS-Bench-201 on CIFAR-10 (Dong & Yang 2020, table 1).
TRAIN = {
  "data": "cifar10-train",
  "arch_options": {"width": 16, "depth": 5},
  "epochs": 200.0,
  "batch_size": 256,
  "optimizer": "sgd",
  "learning_rate": 0.1,
  "weight_decay": 5e-4,
  "decay": "all",
  "schedule": "cosine",
  "techniques": ("pad-crop-flip",),
  "options": {},
  "precision": "float32",
  "seed": 777,
  "save_every": 2000,
}
RUN = {
  "cells": "",
  "data": "cifar10",
  "models": "",
  "train": TRAIN,
  "suite": "nas-cell",
  "only": "",
  "foolbox": True,
  "n": 0,
  "seed": 0,
  "out": "nas",
  "index": 0,
  "shares": 1,
  "batch_size": 0,
  "precision": "highest",
  "save_seconds": 60.0,
  "distributed": False,
  "processes": 0,
  "quiet": False,
}
SEARCH = {
  "table": "",
  "objective": "clean",
  "method": "all",
  "runs": 100,
  "queries": 300,
  "measured": "",
  "seed": 0,
  "json": False,
}
COMPARE = {"table": "", "columns": "clean", "json": False}
MEASURE = {
  "cells": "",
  "data": "cifar10",
  "models": "",
  "width": 16,
  "depth": 5,
  "measures": "",
  "projections": 4,
  "n": 64,
  "batches": 1,
  "seed": 0,
  "out": "",
}
FIGURES = {"table": "", "objective": "clean", "measured": "", "out": "figures"}
DEFAULTS: dict[str, Any] = {**SUPERNET, **FIGURES, **MEASURE, **SEARCH, **COMPARE, **RUN}
USAGE = """cells of NAS-Bench-201: trained, attacked, searched, compared
  run --cells=13714,0-9 --data=cifar10    trains (or loads) cells and makes the robustness data set of them
  search FOLDER --objective=fgsm@1        random, local, evolutionary and BANANAS search over a data set
  compare FOLDER OTHER --columns=clean    Kendall's rank correlation of the cells that two data sets share
  measure --cells=0-9 --models=FOLDER     Jacobian norms and Hessian eigenvalues, at initialization and trained
  figures FOLDER --out=figures            the paper's figures of a data set
  supernet --space=small-resnet-basic     trains a supernet, judges its subnets: which factors go with robustness"""


def run(argv: list[str]) -> int:
  if not argv or "-h" in argv or "--help" in argv:
    parse("nas", ["--help"], DEFAULTS, USAGE)
  action, *rest = argv
  actions: dict[str, Callable[[list[str]], int]] = {
    "run": _run,
    "search": _search,
    "compare": _compare,
    "measure": _measure,
    "figures": _figures,
    "supernet": lambda words: run_supernet(words, USAGE),
  }
  if action not in actions:
    raise unknown_name("nas command", action, sorted(actions))
  return actions[action](rest)


def _paths(words: list[str], count: int, what: str) -> tuple[list[str], list[str]]:
  """Splits the folders that a command begins with from its options."""
  if len(words) < count or any(word.startswith("--") for word in words[:count]):
    raise InputError(f"jaxrobust nas {what}")
  return words[:count], words[count:]


def _run(argv: list[str]) -> int:
  config = parse("nas", argv, RUN, USAGE)
  if not config.cells:
    raise InputError("say which cells: --cells=13714,0-9, --cells=random-200 or --cells=all")
  enable_compilation_cache()
  from jaxrobust.data.registry import load_data
  from jaxrobust.evaluation.nas.dataset import write_dataset
  from jaxrobust.evaluation.nas.run import NasRun
  from jaxrobust.nas.space import choose_cells
  from jaxrobust.results import check_writable

  uids = tuple(choose_cells(config.cells, config.seed))
  options = run_options(config, quiet=True)
  index, shares = _share(config, options.process, options.processes)
  data = load_data(config.data)
  data = data.subset(config.n) if config.n else data
  check_writable(config.out)
  # Architectures are shared among processes, never the examples of one. The number of slots is fixed: how many examples
  # are right differs from cell to cell, and each smaller number of slots would be another program.
  engine = options.engine and replace(options.engine, shrink=False)
  alone = replace(options, engine=engine, process=0, processes=1)
  nas = NasRun(uids, _cells(config, uids[0]), data, config.suite, Path(config.out), alone, config.only, config.foolbox)
  mine, made = uids[index::shares], []
  nas.check()
  for number, uid in enumerate(mine, 1):
    made = nas.evaluate(uid)
    if not config.quiet:
      print(f"[{number}/{len(mine)}] nb201-{uid}: {len(made)} cells", file=sys.stderr, flush=True)
  results = list(nas.results(made)) if made else []
  if not results:
    print("other processes are still at work; the last one writes the data set" if mine else "no cells in this share")
    return 0
  about = {"cells": config.cells, "network": _network(nas), "train": _recipe(nas), "suite": config.suite}
  for folder in write_dataset(config.out, results, about):
    print(f"{len(uids)} cells in {folder}")
  return 0


def _share(config: ConfigDict, process: int, processes: int) -> tuple[int, int]:
  """Returns which share of the cells this process takes: of a job array, or of a distributed run."""
  if config.shares < 1 or not 0 <= config.index < config.shares:
    raise InputError(f"index must be 0 to {config.shares - 1}, got {config.index} of {config.shares} shares")
  if processes > 1 and config.shares > 1:
    raise InputError("a run is shared by --distributed or by --index and --shares, not by both")
  return (process, processes) if processes > 1 else (config.index, config.shares)


def _cells(config: ConfigDict, first: int) -> CellTrainer | LoadedCells:
  """Returns where cells come from: trained by the recipe, or loaded with the width and depth of the first."""
  from jaxrobust.nas.trainer import CellTrainer
  from jaxrobust.training.config import make_train_config

  if config.models:
    return _loaded(config.models, first)
  return CellTrainer(make_train_config({"arch": "nb201-0", **config.train.to_dict()}))


def _loaded(folder: str, first: int) -> LoadedCells:
  from jaxrobust.evaluation.nas.run import LoadedCells
  from jaxrobust.nas.trainer import PREFIX, stored_program

  return LoadedCells(stored_program(Path(folder) / f"{PREFIX}{first}"), folder)


def _network(nas: Any) -> dict[str, int]:
  program = nas.cells.program
  return {"width": program.width, "depth": program.depth, "num_classes": program.num_classes}


def _recipe(nas: Any) -> dict[str, Any] | None:
  """Returns the recipe that all cells were trained by; None where they were loaded."""
  from jaxrobust.nas.trainer import CellTrainer

  if not isinstance(nas.cells, CellTrainer):
    return None
  known = nas.cells.config.identity()
  return {name: value for name, value in known.items() if name != "arch"}


def _search(argv: list[str]) -> int:
  (folder,), rest = _paths(argv, 1, "search takes the folder of a data set, which holds meta.json")
  config = parse("nas", rest, SEARCH, USAGE)
  from jaxrobust.nas.search import METHODS, Landscape, curve, report, search
  from jaxrobust.nas.table import load_table, usual_set

  table = load_table(folder, usual_set(folder, config.table))
  if config.measured:
    from jaxrobust.evaluation.nas.measured import read_rows
    from jaxrobust.nas.measures import measured_columns

    table = table.beside(measured_columns(table.ids, read_rows(Path(config.measured))))
  landscape = Landscape.of(table, *config.objective.split(","))
  methods = [*METHODS, "bananas"] if config.method == "all" else config.method.split(",")
  names = [name for name in ("clean", *table.attacks()) if name == "clean" or name.endswith("@1")]
  names += ["corruption"] if table.corruptions() else []
  for method in methods:
    found = search(method, landscape, config.runs, config.queries, config.seed)
    line = curve(found)
    row = {"method": method, "objective": config.objective, "runs": config.runs, "queries": config.queries}
    row |= {"best": float(line.mean[-1]), "low": float(line.low[-1]), "high": float(line.high[-1])}
    row |= report(found, table, names)
    if "," in config.objective:
      row["front"] = found.front().tolist()
    if config.json:
      print(json.dumps(row))
    else:
      shown = "  ".join(f"{name} {100 * row[name]:.2f}" for name in names)
      print(f"{method:<10} {row['best']:.4f} [{row['low']:.4f}, {row['high']:.4f}]  {shown}")
      if "front" in row:
        print(f"  on the front, by rising {landscape.names[0]}: {' '.join(map(str, _rising(landscape, row['front'])))}")
  return 0


def _rising(landscape: Landscape, uids: list[int]) -> list[int]:
  """Orders cells by the first objective."""
  return sorted(uids, key=lambda uid: float(landscape.values[uid, 0]))


def _compare(argv: list[str]) -> int:
  (first, second), rest = _paths(argv, 2, "compare takes the folders of two data sets, each with its meta.json")
  config = parse("nas", rest, COMPARE, USAGE)
  from jaxrobust.analysis.cell_tables import compare_tables
  from jaxrobust.nas.table import load_table, usual_set

  one, _, other = config.table.partition("=")
  tables = load_table(first, usual_set(first, one)), load_table(second, usual_set(second, other or one))
  for row in compare_tables(*tables, config.columns.split(",")):
    if config.json:
      print(json.dumps(row._asdict()))
    else:
      pair = row.first if row.first == row.second else f"{row.first} {row.second}"
      print(f"{pair:<28} tau {row.tau:+.3f} [{row.low:+.3f}, {row.high:+.3f}] over {row.cells} cells")
  return 0


def _measure(argv: list[str]) -> int:
  config = parse("nas", argv, MEASURE, USAGE)
  if not config.cells:
    raise InputError("say which cells: --cells=13714,0-9")
  enable_compilation_cache()
  from jaxrobust.core.stopping import StopRequest
  from jaxrobust.data.registry import load_data
  from jaxrobust.evaluation.nas.measured import MeasureRun
  from jaxrobust.nas.measures import MEASURES
  from jaxrobust.nas.one_program import OneProgram
  from jaxrobust.nas.space import choose_cells

  uids, data = choose_cells(config.cells, config.seed), load_data(config.data)
  loaded = _loaded(config.models, uids[0]) if config.models else None
  program = loaded.program if loaded else OneProgram(config.width, config.depth, data.num_classes)
  names = tuple(config.measures.split(",")) if config.measures else MEASURES
  how = (config.n, config.batches, config.seed, config.projections)
  measured = MeasureRun(tuple(uids), program, loaded, data, names, *how)
  with StopRequest() as stop:
    for row in measured.rows(Path(config.out) if config.out else None):
      print(json.dumps(row), flush=True)
      if stop.asked and row["uid"] != uids[-1]:
        raise stop.error(f"after nb201-{row['uid']}")
  return 0


def _figures(argv: list[str]) -> int:
  (folder,), rest = _paths(argv, 1, "figures takes the folder of a data set, which holds meta.json")
  config = parse("nas", rest, FIGURES, USAGE)
  from jaxrobust.evaluation.nas.measured import read_rows
  from jaxrobust.report.nas.documents import chosen_sets, write_cell_figures

  rows = read_rows(Path(config.measured)) if config.measured else []
  names = chosen_sets(Path(folder), config.table)
  for name, drawn in write_cell_figures(Path(folder), names, Path(config.out), config.objective, rows).items():
    print(f"{name}: {len(drawn)} figures in {config.out}: {', '.join(figure.name for figure in drawn)}")
  return 0
