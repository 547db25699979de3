"""A whole benchmark on a pod: hours, cost and what it waits for, from compiled programs and what is known of hosts.

  time = max(chips, hosts, input) + compilation, where
  chips    examples · steps · seconds of a step at the chip's peaks / slots, over all chips
  hosts    dispatches · seconds that a host takes for one
  input    examples read and decoded, by all cores of all hosts

Times at a chip's peaks are never reached: they are divided by what large convolutions and attention reach on TPUs. Host
seconds and decoded images per core were measured by `bench engine` and `bench train`, on two cores of a server's CPU.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from jaxrobust.attacks.registry import attack_id
from jaxrobust.core.contract import contract_of
from jaxrobust.data.registry import DATASETS
from jaxrobust.engine.workload import BACKWARD
from jaxrobust.evaluation.suites.suite import Setting, Suite, make_suite
from jaxrobust.pods.chips import Chip
from jaxrobust.pods.measure import PodRow
from jaxrobust.results import load_results

# The part of a chip's peak that steps of networks reach.
OF_PEAK = 0.4
# `bench engine`: seconds of the host per dispatch (2,048 slots, two devices); chips and cores that a host of a pod has.
DISPATCH_SECONDS, STEPS_PER_DISPATCH, CHIPS_PER_HOST, CORES_PER_HOST = 5e-3, 4, 8, 112
# `bench train`: pictures of 500x375 that a core decodes in a second, and the same for arrays of 32 pixels.
DECODED, ARRAYS = 350.0, 50_000.0
# A program compiles in a minute on a quiet host, once for all chips and models of one architecture.
COMPILE_SECONDS = 60.0
# Forward passes that a step with one gradient is worth.
GRADIENT = 1 + BACKWARD
# A data set whose size nobody has written down.
USUAL_SIZE = 10_000


def suite_of(name: str, data: str) -> Suite:
  """Returns a suite by name, for a data set that need not be there."""
  return make_suite(name, Setting.of(data, None, None))


class Load(NamedTuple):
  """One attack of a suite: its program's name, and how many examples go through how many steps of it at the most.

  Attributes:
    passes: forward passes that a step is worth; a gradient is two more.
  """

  program: str
  examples: float
  steps: int
  passes: int = 3


def suite_loads(suite: Suite) -> list[Load]:
  """Returns what a suite asks of each of its attacks, clean passes left out; restarts and targets count."""
  loads = []
  for part in suite.parts:
    for entry in part.entries:
      count = min(_size(part.data), part.n or math.inf, entry.first or math.inf)
      schedule = entry.schedule
      for stage in schedule.stages:
        rule = contract_of(stage.attack)
        passes = rule.cost.forward + BACKWARD * rule.cost.backward
        loads.append(Load(attack_id(stage.attack), count * schedule.max_items, rule.num_steps, passes))
  return loads


def _size(data: str) -> float:
  entry = DATASETS.get(data.partition("@")[0].partition(":")[0])
  return float(entry.size or USUAL_SIZE) if entry is not None else float(USUAL_SIZE)


@dataclass(frozen=True)
class Forecast:
  """Hours of each part of the machine for a whole benchmark; the longest is the bottleneck."""

  chips: float
  hosts: float
  input: float
  compilation: float
  count: int
  price: float

  @property
  def hours(self) -> float:
    return max(self.chips, self.hosts, self.input) + self.compilation

  @property
  def bottleneck(self) -> str:
    return max((self.chips, "chips"), (self.hosts, "hosts"), (self.input, "input"))[1]

  @property
  def cost(self) -> float:
    """Returns US dollars."""
    return self.hours * self.count * self.price

  def line(self) -> str:
    """Says it in one line."""
    parts = (
      f"chips {self.chips:.3g}, hosts {self.hosts:.3g}, input {self.input:.3g}, compilation {self.compilation:.3g}"
    )
    return (
      f"{self.hours:.3g} hours on {self.count} chips, ${self.cost:,.0f}; bound by {self.bottleneck} ({parts} hours)"
    )


def forecast(
  loads: Sequence[Load],
  rows: Sequence[PodRow],
  chip: Chip,
  chips: int,
  *,
  models: int = 1,
  shares: Mapping[str, float] | None = None,
  price: float = 0.0,
  decoded: float = ARRAYS,
) -> Forecast:
  """Predicts a benchmark.

  Args:
    loads: what it asks of each attack.
    rows: their programs, with `seconds` of one step for `rows` slots; one that is not there takes as long as its passes
      do in the first row, which is one of a gradient.
    shares: of its steps that an example takes in the mean, by program; 1 where it is not known.
    decoded: images that a core reads in a second.

  >>> from jaxrobust.pods.chips import CHIPS
  >>> row = PodRow("linf-pgd-10", "resnet20", "float32", "highest", "v5e:2x2", 100, seconds=0.4)
  >>> forecast([Load("linf-pgd-10", 3.6e6, 10)], [row], CHIPS["v5e"], 100).chips
  1.0
  """
  known, shares = {row.program: row for row in rows}, shares or {}
  programs = {load.program for load in loads}
  device = dispatches = examples = 0.0
  for load in loads:
    row, passes = known.get(load.program, rows[0]), 1.0 if load.program in known else load.passes / GRADIENT
    steps = load.examples * load.steps * shares.get(load.program, 1.0) * models
    device += steps * passes * row.seconds / row.rows / OF_PEAK
    # A dispatch serves all chips of a host.
    dispatches += steps / (row.rows * STEPS_PER_DISPATCH * CHIPS_PER_HOST)
    examples += load.examples * models
  hosts = max(chips / CHIPS_PER_HOST, 1)
  return Forecast(
    device / chips / 3600,
    dispatches * DISPATCH_SECONDS / hosts / 3600,
    examples / (decoded * CORES_PER_HOST * hosts) / 3600,
    len(programs) * COMPILE_SECONDS / 3600,
    chips,
    price or chip.price,
  )


def steps_taken(folder: str) -> dict[str, float]:
  """Returns the mean share of its steps that an example takes in stored cells, by attack; counted in queries."""
  taken: dict[str, list[float]] = {}
  for result in load_results(folder):
    queries = result.examples.get("queries")
    steps = str(result.cell.attack).partition(",")[0].rpartition("-")[2]
    if queries is not None and len(queries) and steps.isdigit():
      taken.setdefault(str(result.cell.attack), []).append(float(np.mean(queries)) / int(steps))
  return {attack: min(float(np.mean(parts)), 1.0) for attack, parts in taken.items()}
