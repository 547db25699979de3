"""What a cascade spends: AutoAttack as it is, in the order of measured yield, and AutoAE, on one network.

Evaluations are counted and not timed, so that the rows are the same on any machine: queries are forward passes, and
among passes a gradient counts as two more. The flags of both orders must be equal.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator

from jaxrobust.attacks.by_yield import ByYield
from jaxrobust.attacks.cascade_text import parse_cascade
from jaxrobust.attacks.schedule import Schedule
from jaxrobust.bench.rows import Row
from jaxrobust.bench.workloads import Workload, workload
from jaxrobust.core.errors import InputError
from jaxrobust.engine.options import EngineOptions
from jaxrobust.evaluation.evaluate import evaluate
from jaxrobust.evaluation.job import RunOptions
from jaxrobust.evaluation.suites.entry import entry_of
from jaxrobust.results import Result

EPS = "8/255"


def run(n: int = 200, pilot: int = 50, stages: str = "autoattack", other: str = "autoae") -> Iterator[Row]:
  """Yields queries and robust accuracy of a cascade in both orders, what the order saves, and another cascade's."""
  yield from compare(workload("cnn_a_adv4", n), pilot, stages, other, EPS)


def compare(work: Workload, pilot: int, stages: str, other: str, eps: str) -> Iterator[Row]:
  """Yields the rows for one network."""
  cascade = parse_cascade(stages)
  schedules: dict[str, Schedule] = {
    stages: cascade,
    f"{stages} by yield": ByYield(cascade, pilot),
    other: parse_cascade(other),
  }
  found = {}
  with tempfile.TemporaryDirectory() as out:
    for name, schedule in schedules.items():
      found[name] = _evaluated(work, schedule, out, eps)
      yield from _rows(f"{work.name}, {name}@{eps}", found[name])
  usual, ordered = found[stages], found[f"{stages} by yield"]
  if (usual.examples["robust"] != ordered.examples["robust"]).any():
    raise InputError(f"the flags of {stages} depend on the order of its stages")
  told = ordered.summary["cascade"]
  saved = 1 - ordered.summary["queries"] / usual.summary["queries"]
  yield Row(f"{work.name}, {stages} by yield, queries saved", saved, "fraction", "its own order")
  passes = 1 - told["pilot_ordered"] / told["pilot_usual"] if told["pilot_usual"] else 0.0
  yield Row(f"{work.name}, {stages} by yield, passes saved on the pilot", passes, "fraction", "its own order")
  yield Row(f"{work.name}, {stages} by yield, passes to measure", told["measuring"] / pilot, "per pilot image")


def _evaluated(work: Workload, schedule: Schedule, out: str, eps: str) -> Result:
  data = work.images, work.labels
  options = RunOptions(EngineOptions.for_platform(), quiet=True)
  return evaluate(work.classifier, data, [entry_of(schedule, eps)], out=out, options=options).results[0]


def _rows(name: str, result: Result) -> Iterator[Row]:
  count = result.summary["n"]
  yield Row(f"{name}, queries", result.summary["queries"] / count, "per image")
  yield Row(f"{name}, robust accuracy", result.summary["robust_accuracy"], "fraction")
