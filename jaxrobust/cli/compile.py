"""`jaxrobust compile --topology v5e:4x4 --arch wrn-28-10 --attack autoattack`: programs for chips that are not there.

`--train configs/ares_bench.py:resnet50` compiles a training step, `--suite oodrb --data cifar10` every attack of a
suite. With `--chips` a suite's hours and cost are predicted (`pods/forecast.py`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ml_collections import ConfigDict

from jaxrobust.cli.configuration import parse
from jaxrobust.core.errors import InputError, SliceError
from jaxrobust.core.terminal import say

if TYPE_CHECKING:
  from jaxrobust.pods.measure import PodRow
  from jaxrobust.pods.work import Work

DEFAULTS = {
  "topology": "v5e:2x2",
  "arch": "",
  "attack": "",
  "options": ConfigDict(),
  "suite": "",
  "data": "cifar10",
  "train": "",
  "dtype": "float32",
  "precision": "highest",
  "rows": 0,
  "fit": False,
  "shares": True,
  "chips": 0,
  "models": 1,
  "cells": "",
  "price": 0.0,
  "out": "",
  "json": False,
}


def run(argv: list[str]) -> int:
  config = parse("compile", argv, DEFAULTS, "programs for slices of accelerators, by their own compilers")
  if bool(config.train) == bool(config.arch):
    raise InputError("say what to compile: --arch with --attack or --suite, or --train=CONFIG")
  if config.chips and not config.suite:
    raise InputError("hours and cost are predicted for a suite: --suite with --chips")
  from jaxrobust.engine.options import check_dtype, check_precision
  from jaxrobust.pods.chips import Slice
  from jaxrobust.pods.topology import set_environment, slice_mesh

  check_precision(config.precision)
  check_dtype(config.dtype)
  where = Slice.parse(config.topology)
  works = _works(config)
  set_environment()
  mesh = slice_mesh(where)
  rows = _compile(config, where, works(mesh))
  if config.chips:
    _forecast(config, where, rows)
  refused = [row for row in rows if row.reason]
  if refused:
    raise SliceError(refused[0].reason + (f" ({len(refused)} programs in all)" if len(refused) > 1 else ""))
  return 0


def _works(config: ConfigDict) -> Any:
  """Returns a function of the mesh that yields what to compile; names and options are looked up before."""
  from jaxrobust.models.registry import MODELS
  from jaxrobust.pods.work import PodNetwork, evaluation_works

  if config.train:
    settings = _train_config(config)

    def training(mesh: Any) -> Iterator[Work]:
      from jaxrobust.pods.training_work import training_work

      yield training_work(settings, mesh)

    return training
  MODELS[config.arch]
  network = PodNetwork(config.arch, config.dtype, config.precision)
  if config.suite:
    from jaxrobust.pods.forecast import suite_of

    attacks = [entry.schedule for part in suite_of(config.suite, config.data).parts for entry in part.entries]
  else:
    from jaxrobust.attacks.registry import make_attack

    attacks = [make_attack(name, **config.options.to_dict()) for name in (config.attack or "pgd").split(",")]
  return lambda mesh: evaluation_works(network, attacks, mesh)


def _train_config(config: ConfigDict) -> Any:
  from jaxrobust.core.config_file import load_config
  from jaxrobust.training.config import make_train_config

  return make_train_config({**load_config(config.train).to_dict(), **config.options.to_dict()})


def _compile(config: ConfigDict, where: Any, works: Iterator[Work]) -> list[PodRow]:
  """Compiles what is not in the folder yet, and says each row as it comes."""
  from jaxrobust.cli.table import print_texts
  from jaxrobust.pods.measure import PodRow, SliceCompiler, fit
  from jaxrobust.pods.store import HEADER, RowStore, texts

  store, compiler, done = RowStore(Path(config.out) if config.out else None), SliceCompiler(where), []
  for work in works:
    network = work.network
    named = PodRow(work.name, network.arch, network.dtype, network.precision, where.text, 0)
    row = store.find(named, config.rows or None)
    if row is None:
      row = fit(compiler, work) if config.fit else compiler.row(work, config.rows or None)
      row = compiler.with_shares(work, row) if config.shares else row
      store.add(row)
    done.append(row)
    if config.json:
      print(json.dumps(row.as_dict()), flush=True)
    else:
      say(
        f"{row.program} on {row.arch}: {row.reason or f'{row.seconds * 1e3:.3g} ms, bound by {row.bound}'}", error=True
      )
  store.write_pages()
  if not config.json:
    print_texts(f"programs for {where.text}", HEADER, [texts(row) for row in done])
  return done


def _forecast(config: ConfigDict, where: Any, rows: list[PodRow]) -> None:
  """Prints what a whole suite would take."""
  from jaxrobust.pods.forecast import ARRAYS, DECODED, forecast, steps_taken, suite_loads, suite_of

  decoded = DECODED if config.data.startswith("imagenet") else ARRAYS
  told = forecast(
    suite_loads(suite_of(config.suite, config.data)),
    rows,
    where.chip,
    config.chips,
    models=config.models,
    shares=steps_taken(config.cells) if config.cells else None,
    price=config.price,
    decoded=decoded,
  )
  say(f"{config.suite} on {config.data}, {config.models} of {config.arch}: {told.line()}")
