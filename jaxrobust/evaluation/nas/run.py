"""Runs the NAS robustness evaluation on many cells: trains or loads each, and puts it through the suite `nas-cell`.

Programs are compiled for the first cell and serve all others (`nas.one_program`). Every number is a cell on disk, made
by the ordinary runner: what is there is not computed again, what was stopped goes on where it was. Processes and job
arrays share the work by architectures, never by examples; whoever finishes last writes the data set.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import jax.numpy as jnp

from jaxrobust.core.classifier import Classifier
from jaxrobust.core.errors import InputError
from jaxrobust.core.nas_cells import cell_string, operations_of
from jaxrobust.data.source import DataSource
from jaxrobust.evaluation.context import ModelContext, SourceCache
from jaxrobust.evaluation.job import RunOptions
from jaxrobust.evaluation.nas.readings import foolbox_cell, foolbox_specs, run_foolbox
from jaxrobust.evaluation.suite_jobs import SuiteJobs, find_jobs
from jaxrobust.evaluation.suites.suite import Setting, Suite, make_suite
from jaxrobust.nas.one_program import OneProgram
from jaxrobust.nas.size import count_params
from jaxrobust.nas.trainer import PREFIX, CellTrainer, load_cell
from jaxrobust.results import Cell, Result, load_result

MODELS_FOLDER, RESULTS_FOLDER = "models", "results"


class LoadedCells:
  """Takes trained cells from a folder with a classifier `nb201-ID` for each."""

  def __init__(self, program: OneProgram, folder: str | Path):
    self.program, self.folder = program, Path(folder)

  def train(self, uid: int, folder: str | Path = "") -> Classifier:
    """Reads a cell; `folder`, where it would be trained, is not looked at."""
    del folder
    found = load_cell(self.program, uid, self.folder / f"{PREFIX}{uid}")
    if found is None:
      raise InputError(f"no trained cell in {self.folder / f'{PREFIX}{uid}'}")
    return found


@dataclass(frozen=True, eq=False)
class NasRun:
  """A run over many cells.

  Attributes:
    uids: all cells, whichever process takes them.
    cells: where their weights come from: trained here, or loaded.
    data: what they are evaluated on.
    suite: `nas-cell` or another with its options, as `nas-cell,small,generated`.
    out: the folder of the run.
    options: of the evaluation.
    only: of the suite's cells those whose `data/condition/attack@eps` matches this shell pattern; empty for all.
    foolbox: whether FGSM and PGD are read as Foolbox does too.
  """

  uids: tuple[int, ...]
  cells: CellTrainer | LoadedCells
  data: DataSource
  suite: str
  out: Path
  options: RunOptions
  only: str = ""
  foolbox: bool = True

  def __post_init__(self) -> None:
    check_classes(self.cells.program, self.data)

  @cached_property
  def asked(self) -> Suite:
    """Returns the suite."""
    suite = make_suite(self.suite, Setting.of(self.data.name, None, None))
    return suite.only(self.only) if self.only else suite

  @cached_property
  def _sources(self) -> SourceCache:
    return SourceCache(shared=True)

  @property
  def root(self) -> Path:
    return self.out / RESULTS_FOLDER

  def check(self) -> None:
    """Refuses what cannot be evaluated before anything is trained: a suite, data that are not there, their size."""
    classes = self.data.num_classes
    unknown = Classifier.from_function(lambda images: jnp.zeros((len(images), classes)), classes, name="unknown")
    self._jobs("unknown", ModelContext(unknown))  # No cell on disk is its.

  def _jobs(self, name: str, context: ModelContext) -> SuiteJobs:
    """Returns the jobs of a cell, if all of their data are there: its data set would have holes."""
    jobs = find_jobs(self.asked, context, name, self.data, None, self.root, self.options)
    for missing, why in jobs.missing.items():
      hint = "; nas-cell,generated makes corruptions on the fly" if "-c" in missing else ""
      raise InputError(f"{missing}: {why}{hint}")
    return jobs

  def evaluate(self, uid: int) -> list[Cell]:
    """Trains or loads a cell, computes what is missing of it, and returns the cells that answer it."""
    classifier = self.cells.train(uid, self.out / MODELS_FOLDER / f"{PREFIX}{uid}")
    name, program = f"{PREFIX}{uid}", self.cells.program
    params = count_params(operations_of(uid), program.width, program.depth, program.num_classes)
    about = {"arch": cell_string(operations_of(uid)), "family": "nas-bench-201", "params": params}
    context = ModelContext(classifier, about, sources=self._sources)
    jobs = self._jobs(name, context)
    jobs.run(quiet=True)
    cells = [job.cell for job in jobs.jobs]
    if self.foolbox:
      specs = foolbox_specs(entry for part in self.asked.parts for entry in part.entries)
      cells += [result.cell for result in run_foolbox(name, context, self.data, specs, self.root, self.options)]
    return cells

  def results(self, cells: Sequence[Cell]) -> Iterator[Result]:
    """Reads what answers all cells of the run, given those of one architecture; nothing where one is missing.

    Args:
      cells: of any architecture that is finished.
    """
    wanted = [_renamed(cell, f"{PREFIX}{uid}") for uid in self.uids for cell in cells]
    if all(cell.path(self.root).exists() for cell in wanted):
      yield from (load_result(cell.path(self.root)) for cell in wanted)


def _renamed(cell: Cell, model: str) -> Cell:
  """Returns the same cell of another model."""
  if not cell.attack.startswith("transfer:"):
    return replace(cell, model=model)
  return foolbox_cell(replace(cell, model=model, attack=cell.attack.split(":", 2)[2]))


def check_classes(program: OneProgram, data: DataSource) -> None:
  """Refuses data of other classes than the cells'."""
  if program.num_classes != data.num_classes:
    raise InputError(f"cells of {program.num_classes} classes cannot be evaluated on {data.name}: {data.num_classes}")
