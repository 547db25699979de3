"""Runs a study: trains each network and evaluates it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from jaxrobust.core.config_file import load_config
from jaxrobust.core.errors import JaxrobustError, StoppedError
from jaxrobust.evaluation.job import RunOptions
from jaxrobust.evaluation.studies.evaluator import EvalSpec, StudyEvaluator
from jaxrobust.evaluation.studies.rows import save_index
from jaxrobust.evaluation.studies.runs import MODELS_FOLDER, StudyRun, study_runs
from jaxrobust.results import check_writable
from jaxrobust.training.config import TrainConfig, make_train_config
from jaxrobust.training.loop import check_train_config, train


class StudyRunner:
  """Trains and evaluates the runs of the study FILE.py:ARG in a folder.

  Everything is read before anything is trained: a typo must not cost an hour.

  Args:
    path: the study.
    out: its folder.
    options: of the evaluations.
    n: how many examples networks are evaluated on; 0 for all.
  """

  def __init__(self, path: str, out: str | Path, options: RunOptions, n: int = 0):
    study, self.out, self.runs = load_config(path), Path(out), study_runs(path, out)
    self.configs = {one.name: _train_config(one) for one in self.runs if not one.model}
    spec = EvalSpec(**{**study.evaluation.to_dict(), "n": n})
    check_writable(out)
    save_index(out, study.study, spec, [{**asdict(one), "options": None} for one in self.runs])
    self.evaluator = StudyEvaluator(spec, out, options)

  def run(self, one: StudyRun) -> str | None:
    """Trains one network, unless it is there, and evaluates it; returns what went wrong: the others go on."""
    try:
      folder = one.model or self._train(one)
      if one.judged:
        self.evaluator(one.name, folder)
    except StoppedError:
      raise
    except JaxrobustError as error:
      return f"failed: {one.name}: {error}"
    return None

  def _train(self, one: StudyRun) -> Path:
    return train(self.configs[one.name], self.out / MODELS_FOLDER / one.name, title=one.name, quiet=True)


def _train_config(one: StudyRun) -> TrainConfig:
  config = make_train_config(one.options)
  check_train_config(config)
  return config
