"""The jobs of a suite: finds their data, says what they will cost, and runs what is not there yet, cheap ones first.

A data set that cannot be had is no error: it is reported with how to get it, and everything else runs. Jobs share one
clean pass per data set and condition, their compiled programs and their loaded data (`ModelContext`).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import jax
import numpy as np

from jaxrobust.attacks.schedule import CleanPass
from jaxrobust.core.errors import InputError, JaxrobustError
from jaxrobust.core.progress import ProgressFn, show_all
from jaxrobust.data.registry import DATASETS, load_data
from jaxrobust.data.source import DataSource
from jaxrobust.data.subsets import first_of
from jaxrobust.engine.options import EngineOptions
from jaxrobust.engine.scheduler import Engine
from jaxrobust.evaluation.conditions import under
from jaxrobust.evaluation.context import ModelContext
from jaxrobust.evaluation.job import Job, RunOptions, ShareSource
from jaxrobust.evaluation.kinds import make_job
from jaxrobust.evaluation.measures import with_measures
from jaxrobust.evaluation.runner import is_done, run_job
from jaxrobust.evaluation.suites.suite import Part, Suite
from jaxrobust.results import Result

# Images that one forward pass is timed on.
SMALL_SET = 128


@dataclass(frozen=True)
class SuiteJobs:
  """Holds the jobs of a suite for one classifier.

  Attributes:
    jobs: in the order of the suite.
    missing: data set or condition -> why it cannot be had, and how to get it.
    stored: the cells that are on disk already.
  """

  suite: Suite
  jobs: tuple[Job, ...]
  missing: dict[str, str]
  stored: frozenset[Path]

  @property
  def left(self) -> list[Job]:
    """Returns what is to be computed, cheapest first, each cell once."""
    jobs: dict[Path, Job] = {}
    for job in self.jobs:
      jobs.setdefault(job.path, job)
    return sorted((job for path, job in jobs.items() if path not in self.stored), key=lambda job: job.cost)

  def describe(self, seconds: float | None) -> Iterator[str]:
    """Says what will run, in lines for a reader; `seconds` of one forward pass of one image, if measured."""
    left = self.left
    places = len({_where(job) for job in self.jobs})
    where = "1 data set and condition" if places == 1 else f"{places} data sets and conditions"
    cells = len({job.path for job in self.jobs})
    yield f"{self.suite.name}{self.suite.setting.suffix}: {_cells(cells)} on {where}, " + (
      f"{cells - len(left)} of them there already" if self.stored else "none of them there yet"
    )
    attacks: dict[str, list[Job]] = {}
    for job in left:
      attacks.setdefault(job.entry.title, []).append(job)
    for title, jobs in attacks.items():
      examples = sum(job.cell.n for job in jobs)
      times = "" if seconds is None else f", at most {readable(seconds * sum(job.cost for job in jobs))}"
      yield f"  {title}: {_cells(len(jobs))}, {examples} examples{times}"
    if seconds is not None and left:
      total = seconds * sum(job.cost for job in left)
      yield f"at most {readable(total)} in all, compilation aside; less where examples break early"
    yield from missing_lines(self.missing)

  def run(self, quiet: bool = False) -> list[Result]:
    """Computes what is left and returns all results, in the order of the jobs."""
    left = self.left
    total, done = max(sum(job.cost for job in left), 1), 0
    results: dict[Path, Result] = {}
    with show_all(self.jobs[0].cell.model if self.jobs else self.suite.name, quiet=quiet) as show:
      for number, job in enumerate(left, 1):
        title = " ".join([f"cell {number}/{len(left)}", *_where(job), job.entry.title])

        progress = partial(_show_share, show, title, done / total, job.cost / total)
        progress(0.0)
        results[job.path] = run_job(job, progress)
        done += job.cost
    # A cell that another job has just computed may lack what only this one asks to be measured.
    return [with_measures(job, results[job.path]) if job.path in results else run_job(job) for job in self.jobs]


def _show_share(show: ProgressFn, title: str, before: float, part: float, done: float, text: str = "") -> None:
  """Shows how much of all is done, once a share of one part is."""
  show(before + part * done, text or title)


def _where(job: Job) -> tuple[str, str]:
  assert job.part is not None
  return job.part.data, job.part.condition


def _cells(count: int) -> str:
  return "1 cell" if count == 1 else f"{count} cells"


def find_jobs(
  suite: Suite, context: ModelContext, model: str, source: DataSource, n: int | None, out: str | Path,
  options: RunOptions, preprocess: str = "",
) -> SuiteJobs:  # fmt: skip
  """Finds the data of a suite and makes its jobs.

  Args:
    suite: what is asked.
    context: of the classifier.
    model: its name.
    source: the classifier's own data set; others are looked up by name.
    n: this many examples of each set, all of those that have fewer; by default what the suite or the name of the data
      set says.
    out: the results folder.
    options: of the run.
    preprocess: how pictures become arrays.
  """
  if n is not None and n > len(source):
    source.subset(n)  # Says how many there are.
  known: dict[str, DataSource | str] = {suite.setting.data: source}
  cut: dict[tuple[str, int | None], DataSource] = {}
  conditions: dict[tuple[str, str, int | None], DataSource] = {}
  jobs: list[Job] = []
  missing: dict[str, str] = {}
  for part in suite.parts:
    if part.data not in known:
      known[part.data] = _look_up(part.data, context.classifier.num_classes, preprocess)
    found = known[part.data]
    if isinstance(found, str):
      missing[part.data.partition(":")[0]] = found
      continue
    most = suite.setting.subset if n is None and part.data != suite.setting.data else n
    most = part.n if most is None else most
    if (part.data, most) not in cut:
      cut[part.data, most] = found if most is None or most >= len(found) else first_of(found, most)
    place = part.data, part.condition, most
    try:
      if place not in conditions:
        conditions[place] = under(cut[part.data, most], part.condition, options.seed)
    except InputError as error:
      if len(suite.parts) == 1:
        raise
      missing[_place(part)] = str(error)
      continue
    jobs += [make_job(context, model, conditions[place], entry, out, options, part) for entry in part.entries]
  stored = frozenset(job.path for job in jobs if is_done(job))
  made = SuiteJobs(suite, tuple(jobs), missing, stored)
  used = Counter(job.config["data_fingerprint"] for job in made.left)
  context.repeated = frozenset(name for name, times in used.items() if times > 1)
  return made


def _place(part: Part) -> str:
  return part.data if part.condition == "none" else f"{part.data} under {part.condition}"


def _look_up(name: str, classes: int, preprocess: str) -> DataSource | str:
  """Returns a data set by name, or the reason why not."""
  try:
    source = load_data(name, preprocess=preprocess)
  except JaxrobustError as error:
    entry = DATASETS.get(name.partition(":")[0])
    reason = str(error)
    return reason if entry is None or entry.source in reason else f"{reason}; get it from {entry.source}: {entry.get}"
  if source.num_classes != classes:
    return f"it has {source.num_classes} classes, the classifier {classes}"
  return source


def measure_forward(job: Job) -> float:
  """Returns the seconds of one bare evaluation of one image: a clean pass over a batch, once compiled."""
  options = job.options
  layout = options.engine or EngineOptions.for_platform()
  count = min(job.cell.n, layout.slots or SMALL_SET)
  share = ShareSource(job.data, np.arange(count), job.image_shape())

  def clean_pass() -> float:
    with jax.default_matmul_precision(options.precision):
      engine = Engine(
        job.classifier, CleanPass(), share, eps=0.0, verdict_samples=options.verdict_samples, options=layout
      )
      start = time.perf_counter()
      for _ in engine.run():
        pass
    return (time.perf_counter() - start) / count

  clean_pass()  # Compiles, and reads the images.
  return clean_pass()


def missing_lines(missing: Mapping[str, str]) -> Iterator[str]:
  """Says what could not be had and how to get it, a line for each reason.

  >>> list(missing_lines({"a": "no such folder", "b": "not installed", "c": "not installed"}))
  ['missing: a: no such folder', 'missing: b and 1 more: not installed']
  """
  reasons: dict[str, list[str]] = {}
  for name, reason in missing.items():
    reasons.setdefault(reason, []).append(name)
  for reason, names in reasons.items():
    yield f"missing: {names[0]}" + (f" and {len(names) - 1} more" if len(names) > 1 else "") + f": {reason}"


def readable(seconds: float) -> str:
  """Writes a time for people.

  >>> readable(42), readable(600), readable(2e4)
  ('42 s', '10 min', '5.6 h')
  """
  if seconds < 100:
    return f"{seconds:.0f} s" if seconds >= 1 else "1 s"
  return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
