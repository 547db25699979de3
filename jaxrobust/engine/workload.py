"""How much work a schedule is, and which share of it a run has done, in forward passes of one image.

Counting examples would tell nothing: most break in the first steps, and the few that stand take nearly all the time.
"""

from __future__ import annotations

import itertools

import numpy as np

from jaxrobust.attacks.schedule import Schedule, Stage
from jaxrobust.engine.scheduler import Engine

# Of one gradient, in forward passes.
BACKWARD = 2


def passes(stage: Stage) -> int:
  """Returns the forward passes of a stage that is gone through to its end.

  >>> from jaxrobust.attacks.registry import make_attack
  >>> passes(Stage(make_attack("pgd", num_steps=10))), passes(Stage(make_attack("square", num_steps=10)))
  (30, 10)
  """
  cost = stage.attack.cost
  return stage.attack.num_steps * (cost.forward + BACKWARD * cost.backward)


def passes_to_the_end(schedule: Schedule) -> list[int]:
  """Returns for each stage its passes and those of all later ones; a last 0 for an example that is through.

  A schedule that may run a stage several times (`max_items`) counts as if it did.
  """
  times = schedule.max_items
  ahead = itertools.accumulate((times * passes(stage) for stage in reversed(schedule.stages)), initial=0)
  return list(ahead)[::-1]


def share_done(engine: Engine) -> float:
  """Returns the share of a run's work that is done, if whatever stands now stands to the end: time left comes out too
  long at first, never too short for long."""
  ahead = passes_to_the_end(engine.schedule)
  stages, judged = engine.items_left()
  left = int(np.array(ahead)[stages + judged].sum())
  left *= max((pool.program.samples for pool in engine.pools), default=1)
  spent = engine.stats.forwards + BACKWARD * engine.stats.backwards
  # An example not read yet is taken to cost what those read do.
  read = engine.opened
  unread = len(engine.source) - read
  total = (spent + left) * (1 + unread / max(read, 1))
  return spent / total if total else read / max(len(engine.source), 1)
