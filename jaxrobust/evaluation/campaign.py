"""Runs a plan: looks for its data, says what it will cost, and computes what is not there yet, cheap cells first.

A data set that cannot be had is no error: it is reported with how to get it, and everything else runs. Cells share one
clean pass per data set and condition, their compiled programs and their loaded data (`Shared`).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import jax
import numpy as np

from jaxrobust.attacks.schedule import CleanPass, Schedule
from jaxrobust.core.classifier import check_logits
from jaxrobust.core.errors import InputError, JaxrobustError
from jaxrobust.core.progress import show_all
from jaxrobust.data.registry import DATASETS, load_data
from jaxrobust.data.source import DataSource
from jaxrobust.engine.options import EngineOptions
from jaxrobust.engine.scheduler import Engine
from jaxrobust.engine.workload import passes_to_the_end
from jaxrobust.evaluation.conditions import under
from jaxrobust.evaluation.job import Job, RunOptions, ShareSource, make_job
from jaxrobust.evaluation.plan import Part, Plan, title_of
from jaxrobust.evaluation.runner import find_stored, run_job
from jaxrobust.evaluation.sequences import SequenceSource
from jaxrobust.evaluation.shared import Shared
from jaxrobust.evaluation.suites import Entry
from jaxrobust.results import Result


@dataclass(frozen=True)
class Task:
  """An entry of a part, and the job that answers it."""

  part: Part
  entry: Entry
  job: Job

  @property
  def cost(self) -> int:
    """Forward passes it needs at the most, if every example stands to the end."""
    return cost_of(self.job)


@dataclass(frozen=True)
class Campaign:
  """A plan with its data found, for one classifier.

  Attributes:
    tasks: in the order of the plan.
    missing: data set or condition -> why it cannot be had, and how to get it.
    stored: the cells that are on disk already.
  """

  plan: Plan
  tasks: tuple[Task, ...]
  missing: dict[str, str]
  stored: frozenset[Path]

  @property
  def left(self) -> list[Task]:
    """What is to be computed, cheapest first, each cell once."""
    tasks: dict[Path, Task] = {}
    for task in self.tasks:
      tasks.setdefault(task.job.cell.path(task.job.root), task)
    waiting = [task for path, task in tasks.items() if path not in self.stored]
    return sorted(waiting, key=lambda task: task.cost)

  def describe(self, seconds: float | None) -> Iterator[str]:
    """What will run, in lines for a reader; `seconds` of one forward pass of one image, if measured."""
    left = self.left
    places = len({(task.part.data, task.part.condition) for task in self.tasks})
    where = "1 data set and condition" if places == 1 else f"{places} data sets and conditions"
    cells = len({task.job.cell.path(task.job.root) for task in self.tasks})
    yield f"{self.plan.name}{self.plan.setting.suffix}: {_cells(cells)} on {where}, " + (
      f"{cells - len(left)} of them there already" if self.stored else "none of them there yet"
    )
    attacks: dict[str, list[Task]] = {}
    for task in left:
      attacks.setdefault(task.entry.title, []).append(task)
    for title, tasks in attacks.items():
      examples = sum(task.job.cell.n for task in tasks)
      times = "" if seconds is None else f", at most {readable(seconds * sum(task.cost for task in tasks))}"
      yield f"  {title}: {_cells(len(tasks))}, {examples} examples{times}"
    if seconds is not None and left:
      total = seconds * sum(task.cost for task in left)
      yield f"at most {readable(total)} in all, compilation aside; less where examples break early"
    yield from missing_lines(self.missing)


def _cells(count: int) -> str:
  return "1 cell" if count == 1 else f"{count} cells"


def prepare(
  plan: Plan, shared: Shared, model: str, source: DataSource, n: int | None, out: str | Path, options: RunOptions
) -> Campaign:
  """Finds the data of a plan and makes its jobs.

  Args:
    source: the classifier's own data set; others are looked up by name.
    n: the first n examples of each set, all of those that have fewer.
  """
  known: dict[str, DataSource | str] = {plan.setting.data: source if n is None else source.subset(n)}
  conditions: dict[tuple[str, str], DataSource] = {}
  tasks, missing = [], {}
  for part in plan.parts:
    place = part.data, part.condition
    title = part.data if part.condition == "none" else f"{part.data} under {part.condition}"
    if part.data not in known:
      known[part.data] = _look_up(part.data, n, shared.classifier.num_classes)
    found = known[part.data]
    if isinstance(found, str):
      missing[part.data.partition(":")[0]] = found
      continue
    try:
      if place not in conditions:
        conditions[place] = under(found, part.condition, options.seed)
    except InputError as error:
      if len(plan.parts) == 1:
        raise
      missing[title] = str(error)
      continue
    for entry in part.entries:
      job = make_job(shared, model, conditions[place], entry, out, options)
      tasks.append(Task(part, entry, replace(job, title=title_of(part, entry))))
  stored = frozenset(task.job.cell.path(task.job.root) for task in tasks if find_stored(task.job) is not None)
  campaign = Campaign(plan, tuple(tasks), missing, stored)
  used = Counter(task.job.config["data_fingerprint"] for task in campaign.left)
  shared.repeated = frozenset(name for name, times in used.items() if times > 1)
  return campaign


def _look_up(name: str, n: int | None, classes: int) -> DataSource | str:
  """A data set by name, or the reason why not."""
  try:
    source = load_data(name)
  except JaxrobustError as error:
    entry = DATASETS.get(name.partition(":")[0])
    reason = str(error)
    return reason if entry is None or entry.source in reason else f"{reason}; get it from {entry.source}: {entry.get}"
  if source.num_classes != classes:
    return f"it has {source.num_classes} classes, the classifier {classes}"
  return source if n is None else source.subset(min(n, len(source)))


def run_campaign(campaign: Campaign, quiet: bool = False) -> list[Result]:
  """Computes what is left and returns all results, in the order of the tasks."""
  left = campaign.left
  total = max(sum(task.cost for task in left), 1)
  done = 0
  results: dict[Path, Result] = {}
  who = campaign.tasks[0].job.cell.model if campaign.tasks else campaign.plan.name
  with show_all(who, quiet=quiet) as show:
    for number, task in enumerate(left, 1):
      title = f"cell {number}/{len(left)} {task.part.data} {task.part.condition} {task.entry.title}"

      def tell(share: float, task: Task = task, title: str = title, before: int = done) -> None:
        show((before + task.cost * share) / total, title)

      tell(0.0)
      results[task.job.cell.path(task.job.root)] = run_job(task.job, tell)
      done += task.cost
  found = []
  for task in campaign.tasks:
    path = task.job.cell.path(task.job.root)
    found.append(results[path] if path in results else run_job(task.job))
  return found


def cost_of(job: Job) -> int:
  """Forward passes a job needs at the most: the clean pass, and every step of every stage."""
  schedule: Schedule = job.entry.schedule
  if isinstance(job.data, SequenceSource):
    return job.cell.n * job.data.sequence.frames
  return job.cell.n * (1 + passes_to_the_end(schedule)[0])


def measure_forward(job: Job) -> float:
  """Seconds of one bare evaluation of one image: a clean pass over a batch, once compiled."""
  options = job.options
  layout = options.engine or EngineOptions.for_platform()
  count = min(job.cell.n, layout.slots)
  shape = tuple(job.data.take(np.zeros(1, int))[0].shape[1:])
  check_logits(job.classifier, shape)
  share = ShareSource(job.data, np.arange(count), shape)

  def clean_pass() -> float:
    with jax.default_matmul_precision(options.precision):
      engine = Engine(job.classifier, CleanPass(), share, eps=0.0, samples=options.samples, options=layout)
      start = time.perf_counter()
      for _ in engine.run():
        pass
    return (time.perf_counter() - start) / count

  clean_pass()  # Compiles, and reads the images.
  return clean_pass()


def missing_lines(missing: Mapping[str, str]) -> Iterator[str]:
  """What could not be had and how to get it, a line for each reason.

  >>> list(missing_lines({"a": "no such folder", "b": "not installed", "c": "not installed"}))
  ['missing: a: no such folder', 'missing: b and 1 more: not installed']
  """
  reasons: dict[str, list[str]] = {}
  for name, reason in missing.items():
    reasons.setdefault(reason, []).append(name)
  for reason, names in reasons.items():
    yield f"missing: {names[0]}" + (f" and {len(names) - 1} more" if len(names) > 1 else "") + f": {reason}"


def readable(seconds: float) -> str:
  """A time for people.

  >>> readable(42), readable(600), readable(2e4)
  ('42 s', '10 min', '5.6 h')
  """
  if seconds < 100:
    return f"{seconds:.0f} s" if seconds >= 1 else "1 s"
  return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
