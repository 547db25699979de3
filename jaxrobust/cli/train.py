"""`jaxrobust train --config configs/cifar10.py:pgd-at`: one classifier; the same command continues a stopped run."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict
from typing import Any

from ml_collections import ConfigDict

from jaxrobust.cli.configuration import parse
from jaxrobust.core.compilation import enable_compilation_cache
from jaxrobust.core.errors import InputError, JaxrobustError, first_line

# Another process of a distributed run is gone; start all of them again to continue.
LOST = 76


def run(argv: list[str]) -> int:
  from jaxrobust.training.config import TrainConfig, make_train_config

  defaults: dict[str, Any] = {name: _open(value) for name, value in asdict(TrainConfig()).items()}
  extra = {"out": "", "distributed": False, "processes": 0, "quiet": False}
  config = parse("train", argv, {**defaults, **extra}, "train one classifier, from a config")
  if not config.out:
    raise InputError("say where the run goes: --out=FOLDER")
  enable_compilation_cache()
  settings = make_train_config({name: config[name] for name in defaults})
  import jax

  from jaxrobust.evaluation.distributed import process_share
  from jaxrobust.training.loop import check_train_config, train

  process, processes = process_share(config.distributed, config.processes)
  check_train_config(settings)
  if not config.quiet and process == 0:
    devices = f"{jax.device_count()} {jax.default_backend()} devices in {processes} processes"
    print(f"training {settings.arch} on {settings.data}: {devices}, sharding {settings.sharding}", file=sys.stderr)
  try:
    folder = train(settings, config.out, title=f"train {settings.arch}", quiet=config.quiet)
  except JaxrobustError:
    raise
  except Exception as error:
    if processes == 1:
      raise
    # A collective failed because another process is gone. An orderly exit would wait for it.
    reason = first_line(error)
    print(f"error: process {process} lost the others: {reason}", file=sys.stderr, flush=True)
    os._exit(LOST)
  if process == 0:
    print(f"the classifier is in {folder}")
  return 0


def _open(value: Any) -> Any:
  return ConfigDict(value) if isinstance(value, dict) else value
