"""The runs of a study: a config whose `runs` are rows, each a base config and what is changed in it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ml_collections import ConfigDict

from jaxrobust.core.config_file import find_config, load_config
from jaxrobust.core.errors import InputError
from jaxrobust.core.spelling import current_keys, current_name

MODELS_FOLDER = "models"
# Where a run's options speak of the networks of its study.
_PLACEHOLDER = "{models}"


@dataclass(frozen=True)
class StudyRun:
  """Is one row of a study.

  Attributes:
    name: of the run and of its folder.
    group: the setting it belongs to; the seeds of one setting share it.
    against: the group it is compared with; empty for none.
    judged: whether it is evaluated: a pre-training is not.
    options: of training.
    model: a classifier's folder or zoo name that is judged as it is, without training; empty for what is trained.
  """

  name: str
  group: str
  against: str
  judged: bool
  options: ConfigDict
  model: str = ""


def study_runs(path: str, out: str | Path) -> list[StudyRun]:
  """Returns all runs of the study FILE.py:ARG whose networks go below `out`."""
  config = load_config(path)
  if "runs" not in config:
    raise InputError(f"{path} is not a study: its config has no runs")
  folder = find_config(path)[0].parent
  return [_resolve(row, folder, Path(out) / MODELS_FOLDER) for row in config.runs]


def pick_run(path: str, index: int, out: str | Path) -> StudyRun:
  """Returns one run of a study by its number, to be trained."""
  runs = study_runs(path, out)
  if not 0 <= index < len(runs):
    raise InputError(f"{path} has the runs 0 … {len(runs) - 1}, not {index}")
  if runs[index].model:
    raise InputError(f"{runs[index].name} judges {runs[index].model} as it is: there is nothing to train")
  return runs[index]


def _resolve(row: ConfigDict, folder: Path, models: Path) -> StudyRun:
  options = load_config(str(folder / row.base)) if row.base else ConfigDict()
  named, drop, add = (tuple(map(current_name, names)) for names in (options.get("techniques", ()), row.drop, row.add))
  techniques = tuple(name for name in named if name not in drop) + add
  details = {**current_keys(dict(options.get("options", {}))), **current_keys(row.options.to_dict())}
  merged = {
    **current_keys(options.to_dict()),
    **current_keys(row.change.to_dict()),
    "techniques": techniques,
    "options": {name: value for name, value in details.items() if name in techniques},
  }
  placed = ConfigDict(_placed(merged, str(models)))
  return StudyRun(row.name, row.group, row.against, row.judged, placed, _placed(row.get("model", ""), str(models)))


def _placed(value: Any, models: str) -> Any:
  """Returns options with the folder of the study's networks in its place."""
  if isinstance(value, str):
    return value.replace(_PLACEHOLDER, models)
  if isinstance(value, dict | ConfigDict):
    return {key: _placed(inner, models) for key, inner in dict(value).items()}
  if isinstance(value, tuple | list):
    return tuple(_placed(inner, models) for inner in value)
  return value
