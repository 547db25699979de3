"""`jaxrobust train --config configs/cifar10.py:pgd-at`: one classifier; the same command continues a stopped run.

`--index=7` takes one run of a study (configs/studies.py) and puts it below `--out`.
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any, NoReturn

from ml_collections import ConfigDict

from jaxrobust.cli.configuration import parse
from jaxrobust.core.compilation import enable_compilation_cache
from jaxrobust.core.config_file import load_config
from jaxrobust.core.errors import InputError, JaxrobustError, StoppedError, first_line
from jaxrobust.core.terminal import say
from jaxrobust.evaluation.studies.runs import MODELS_FOLDER, pick_run

# Another process of a distributed run is gone; start all of them again to continue.
LOST = 76
_GRACE = 2.0


def run(argv: list[str]) -> int:
  from jaxrobust.training.config import TrainConfig, make_train_config

  defaults: dict[str, Any] = {name: _open(value) for name, value in asdict(TrainConfig()).items()}
  extra = {"out": "", "index": -1, "distributed": False, "processes": 0, "profile": False, "quiet": False}
  study = _Study()
  config = parse("train", argv, {**defaults, **extra}, "train one classifier, from a config", study)
  if not config.out:
    raise InputError("say where the run goes: --out=FOLDER")
  out = Path(config.out) / study.folder
  enable_compilation_cache()
  settings = make_train_config({name: config[name] for name in defaults})
  import jax

  from jaxrobust.core.distributed import process_share
  from jaxrobust.core.mesh import fitting_mesh
  from jaxrobust.training.loop import check_train_config, train

  process, processes = process_share(config.distributed, config.processes)
  mesh = fitting_mesh(settings.batch_size, jax.devices())
  if not config.quiet and process == 0:
    devices = f"{jax.device_count()} {jax.default_backend()} devices in {processes} processes"
    layout = f"a mesh of {mesh.size}, sharding {settings.sharding}"
    print(f"training {settings.arch} on {settings.data}: {devices}, {layout}", file=sys.stderr)
  try:
    check_train_config(settings)
    folder = train(settings, out, title=f"train {settings.arch}", quiet=config.quiet, mesh=mesh, profile=config.profile)
  except StoppedError:
    raise  # All processes leave together.
  except Exception as error:
    if processes == 1:
      raise
    _leave(process, error)
  if process == 0:
    print(f"the classifier is in {folder}")
  return 0


def _leave(process: int, error: Exception) -> NoReturn:
  """Ends one process of several at once: an orderly exit would wait for the others, who wait for this one."""
  # A collective that fails does so because another process is gone.
  text, code = f"process {process} lost the others: {first_line(error)}", LOST
  if isinstance(error, JaxrobustError):
    text, code = str(error), error.exit_code
  say(f"error: {text}", error=True)
  if process == 0:
    time.sleep(_GRACE)  # It holds the runtime together: those who found the same error have time to say so.
  os._exit(code)


class _Study:
  """Reads a config, or the run of a study that `--index` names."""

  def __init__(self) -> None:
    self.folder = ""

  def __call__(self, path: str, overrides: dict[str, str]) -> ConfigDict:
    loaded, index = load_config(path), overrides.get("index", "")
    if "runs" not in loaded:
      if index:
        raise InputError(f"{path} is one run, not a study: leave --index out")
      return loaded
    if not index.isdigit() or not overrides.get("out"):
      raise InputError(f"{path} is a study of {len(loaded.runs)} runs: choose one by --index, and a folder by --out")
    chosen = pick_run(path, int(index), overrides["out"])
    self.folder = f"{MODELS_FOLDER}/{chosen.name}"
    return chosen.options


def _open(value: Any) -> Any:
  return ConfigDict(value) if isinstance(value, dict) else value
