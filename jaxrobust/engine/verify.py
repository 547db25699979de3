"""The last word on a candidate: inside the box, inside its ball, and called otherwise by the classifier itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxrobust.attacks.registry import attack_name
from jaxrobust.core.budget import inside
from jaxrobust.core.errors import VerificationError
from jaxrobust.engine.example import WorkItem
from jaxrobust.engine.judge import Judgment


def check_candidates(
  entries: Sequence[tuple[int, WorkItem, int]],
  judged: Judgment,
  attacks: Sequence[Any],
  tolerance: float,
  all_used: bool,
) -> np.ndarray:
  """Returns which rows of a judgment are successes within their budgets.

  Args:
    all_used: whether every candidate is shown to somebody, success or not.

  Raises:
    VerificationError: a candidate in use is not an image, is not what its witness renders or, from a budget attack,
      lies outside its ball.
  """
  success = judged.met & judged.valid
  rows = [row for row, _, _ in entries]
  eps = np.array([work.item.eps for _, work, _ in entries], np.float32)
  within = inside(judged.distance[rows], eps, tolerance)
  used = success[rows] | np.array([work.found for _, work, _ in entries]) | all_used
  invalid, outside = used & ~judged.valid[rows], used & ~within
  if outside.any():
    outside &= np.array([not attack.minimal for attack in attacks])
  for how, bad in (
    ("not finite, outside [0, 1] or not what its witness renders", invalid),
    ("outside its ball", outside),
  ):
    if bad.any():
      at = int(np.argmax(bad))
      raise _left(attacks[at], how, entries[at][1], judged.distance[rows[at]], eps[at])
  success[rows] &= within
  return success


def _left(attack: Any, how: str, work: WorkItem, distance: Any, eps: Any) -> VerificationError:
  return VerificationError(
    f"{attack_name(attack)} returned an image {how} for example {work.example.id}:"
    f" distance {distance:.7g}, eps {eps:.7g}"
  )
