"""Jobs that put the stages of a cascade in the order of their measured yield, and then attack.

Every stage is run alone on the pilot, the first examples of the data set: ordinary cells (`linf-apgd-t-100,rank=2`, n =
pilot), taken from disk where they are there. From their flags and costs follows the order (`metrics.cascades`), before
anything else is attacked. It is a function of model, data, seed and cascade alone, so that devices, processes and a run
that is continued have the same one; each process makes the pilot by itself, because the order is all that it needs.

The cell has an id of its own (`linf-autoattack-by-yield-50`) and the flags of the cascade in any order. Its config
lists stages as they are written, and `stage` of an example is an index into that; `summary["cascade"]` says in which
order they ran (`order`), what the pilot spent on both orders (`pilot_usual`, `pilot_ordered`) and what measuring
cost (`measuring`), in forward passes where a gradient counts as two more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from jaxrobust.attacks.by_yield import ByYield
from jaxrobust.attacks.schedule import Cascade, Stage
from jaxrobust.core.progress import ProgressFn
from jaxrobust.data.subsets import first_of
from jaxrobust.engine.workload import BACKWARD, passes_to_the_end
from jaxrobust.evaluation.attack_job import AttackRun
from jaxrobust.evaluation.audit_job import alone, phase
from jaxrobust.evaluation.job import Arrays, Job, JobKind
from jaxrobust.evaluation.metrics.cascades import cascade_cost, order_by_yield
from jaxrobust.evaluation.runner import run_job
from jaxrobust.evaluation.suites.entry import stage_id
from jaxrobust.results import Result


class Pilot(NamedTuple):
  """Is what the stages of a cascade do alone.

  Attributes:
    broken: (stages, examples that the classifier has right), whether each breaks each.
    cost: of the same shape, in forward passes where a gradient counts as two more.
    order: of the stages.
  """

  broken: np.ndarray
  cost: np.ndarray
  order: tuple[int, ...]

  def told(self, stages: Sequence[Stage], examples: int) -> dict[str, Any]:
    """Returns what the cell says of it."""
    usual, ordered = (cascade_cost(order, self.broken, self.cost) for order in (range(len(stages)), self.order))
    return {
      "order": list(self.order),
      "stages": [stage_id(stages[index]) for index in self.order],
      "pilot": examples,
      "pilot_usual": usual,
      "pilot_ordered": ordered,
      "measuring": float(self.cost.sum()),
    }


class OrderedRun(AttackRun):
  """Runs a cascade in another order; its arrays number the stages as they are written."""

  def __init__(self, order: Sequence[int], job: Job, positions: np.ndarray):
    self.order = np.array(order, np.int32)
    schedule = _schedule(job).cascade.ordered(order)
    super().__init__(replace(job, entry=replace(job.entry, schedule=schedule)), positions)

  def finish(self, path: Path, positions: np.ndarray) -> list[Arrays]:
    found = super().finish(path, positions)
    return [arrays | {"stage": written_stages(self.order, arrays["stage"])} for arrays in found]


def written_stages(order: np.ndarray, stage: np.ndarray) -> np.ndarray:
  """Returns the stages that broke examples by their numbers in the cascade, from those in the order of the run.

  >>> written_stages(np.array([2, 0, 1]), np.array([0, -1, 2])).tolist()
  [2, -1, 1]
  """
  return np.where(stage < 0, stage, order[np.maximum(stage, 0)]).astype(np.int32)


def run_by_yield(job: Job, progress: ProgressFn) -> Result:
  """Returns the result of a cascade in the order that its pilot decides."""
  schedule, count = _schedule(job), min(_schedule(job).pilot, job.cell.n)
  share = count / (count + job.cell.n)
  pilot = measure_pilot(job, count, lambda done, text="": progress(share * done, text))
  kind = JobKind(partial(OrderedRun, pilot.order), _passes)
  noted = replace(job, kind=kind, note={"cascade": pilot.told(schedule.stages, count)})
  return run_job(noted, lambda done, text="": progress(share + (1 - share) * done, text))


def measure_pilot(job: Job, count: int, progress: ProgressFn) -> Pilot:
  """Runs every stage alone on the first `count` examples, and orders them."""
  schedule = _schedule(job)
  broken, cost = [], []
  for number, stage in enumerate(schedule.stages):
    examples = run_job(stage_job(job, stage, count)).examples
    right = examples["correct"]
    broken.append(right & ~examples["robust"])
    cost.append(passes_per_query(stage) * queries_within(examples, job.cell.eps))
    progress((number + 1) / len(schedule.stages))
  flags, costs = np.array(broken)[:, right], np.array(cost)[:, right]
  return Pilot(flags, costs, tuple(order_by_yield(flags, costs, schedule.behind)))


def stage_job(job: Job, stage: Stage, count: int) -> Job:
  """Returns the ordinary job of one stage alone on the first `count` examples."""
  data = first_of(job.data, count) if count < job.cell.n else job.data
  made = phase(alone(job), Cascade((stage,)))
  # Alone, a minimal attack goes on to the closest success; in a cascade it ends at the first inside the budget.
  reached = (job.entry.eps,) if stage.attack.minimal and job.entry.eps is not None else ()
  config = {**made.config, "data_fingerprint": data.fingerprint()}
  entry, cell = replace(made.entry, strengths=reached), replace(made.cell, n=count)
  return replace(made, data=data, entry=entry, cell=cell, config=config)


def queries_within(examples: Mapping[str, np.ndarray], eps: str | None) -> np.ndarray:
  """Returns the queries of each example until a success within the budget, or all that were made.

  >>> found = {"queries": np.array([9, 9]), "reached_query@0.5": np.array([4, -1])}
  >>> queries_within(found, "0.5").tolist(), queries_within(found, "1").tolist()
  ([4.0, 9.0], [9.0, 9.0])
  """
  made = examples["queries"].astype(np.float64)
  reached = examples.get(f"reached_query@{eps}")
  return made if reached is None else np.where(reached >= 0, reached, made)


def passes_per_query(stage: Stage) -> float:
  """Returns what one query of an attack costs, in forward passes where a gradient counts as two more.

  >>> from jaxrobust.attacks.registry import make_attack
  >>> passes_per_query(Stage(make_attack("apgd-ce"))), passes_per_query(Stage(make_attack("square")))
  (3.0, 1.0)
  """
  cost = stage.attack.cost
  return 1 + BACKWARD * cost.backward / cost.forward


def order_line(told: Mapping[str, Any]) -> str:
  """Says in a line which order a pilot has decided, and what that saved.

  >>> told = {"order": [1, 0], "stages": ["a", "b"], "pilot": 50, "pilot_usual": 400.0, "pilot_ordered": 300.0}
  >>> order_line({**told, "measuring": 500.0})
  'order by yield on 50 examples: a, b; 300 passes in place of 400 (25.0 % saved), 500 to measure'
  """
  usual, ordered = told["pilot_usual"], told["pilot_ordered"]
  saved = 100 * (1 - ordered / usual) if usual else 0.0
  passes = f"{ordered:,.0f} passes in place of {usual:,.0f} ({saved:.1f} % saved), {told['measuring']:,.0f} to measure"
  return f"order by yield on {told['pilot']} examples: {', '.join(told['stages'])}; {passes}"


def _schedule(job: Job) -> ByYield:
  assert isinstance(job.entry.schedule, ByYield)
  return job.entry.schedule


def _passes(job: Job) -> int:
  """Returns the most passes of an example, with those of the pilot shared by all."""
  whole = passes_to_the_end(job.entry.schedule)[0]
  return 1 + whole + whole * min(_schedule(job).pilot, job.cell.n) // job.cell.n


BY_YIELD = JobKind(AttackRun, _passes, run=run_by_yield)
