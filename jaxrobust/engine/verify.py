"""The last word on a candidate: inside the box, inside its ball, and called otherwise by the classifier itself.

And on what it has cost: no step makes more queries than its attack declares, or fewer than none.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jaxrobust.attacks.registry import attack_name
from jaxrobust.attacks.schedule import Stage
from jaxrobust.core.budget import inside
from jaxrobust.core.contract import contract_of
from jaxrobust.core.errors import VerificationError
from jaxrobust.core.types import Attack
from jaxrobust.engine.judge import Judgment
from jaxrobust.engine.table import ExampleTable


def check_candidates(
  table: ExampleTable,
  rows: np.ndarray,
  judged: Judgment,
  places: np.ndarray,
  stages: Sequence[Stage],
  all_used: bool,
) -> np.ndarray:
  """Returns which candidates are successes within their budgets.

  Args:
    rows, places: of the examples, in the table and in the judgment.
    all_used: whether every candidate is shown to somebody, success or not.

  Raises:
    VerificationError: a candidate in use is not an image, is not what its witness renders or, from a budget attack,
      lies outside its ball.
  """
  valid, distance = judged.valid[places], judged.distance[places]
  met = judged.met[places] & valid
  eps, stage = table["item_eps"][rows].astype(np.float32), table["item_stage"][rows]
  within = inside(distance, eps, table.tolerance)
  found = table["found"][rows]
  used = met | found | all_used
  rules = [contract_of(one.attack) for one in stages]
  bounded = np.array([not rule.minimal for rule in rules])[stage]
  # A last point outside is no success of an attack that may leave its ball, and no error.
  bounded &= np.array([not rule.may_leave_ball for rule in rules])[stage] | found | all_used
  for how, bad in (
    ("not finite, outside [0, 1] or not what its witness renders", used & ~valid),
    ("outside its ball", used & ~within & bounded),
  ):
    if bad.any():
      at = int(np.argmax(bad))
      raise VerificationError(
        f"{attack_name(stages[stage[at]].attack)} returned an image {how} for example {table['id'][rows[at]]}:"
        f" distance {distance[at]:.7g}, eps {eps[at]:.7g}"
      )
  return met & within


def check_counts(attack: Attack, samples: int, ids: np.ndarray, steps: np.ndarray, queries: np.ndarray) -> None:
  """Raises VerificationError for items that report more queries than so many steps may make, or fewer than none."""
  # A success is seen before its step is over.
  most = (steps.astype(np.int64) + 1) * attack.cost.forward * samples
  bad = (queries < 0) | (queries > most)
  if bad.any():
    at = int(np.argmax(bad))
    raise VerificationError(
      f"{attack_name(attack)} reports {queries[at]} queries in {steps[at]} steps for example {ids[at]}:"
      f" {attack.cost} allows 0 to {most[at]}"
    )
