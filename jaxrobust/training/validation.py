"""Accuracy on held-out examples during training, clean and under attack, and what its course gives away."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import numpy as np

from jaxrobust.attacks.schedule import CleanPass
from jaxrobust.core.classifier import Classifier
from jaxrobust.engine.api import attack_images
from jaxrobust.engine.memory import default_slots
from jaxrobust.engine.options import EngineOptions
from jaxrobust.training.technique import Objective

# One-step training that breaks down loses its robustness to PGD within an epoch while its own attack seems beaten.
COLLAPSE = 0.5
COLLAPSE_GAP = 0.15


class Score(NamedTuple):
  """Fractions of the held-out examples."""

  clean: float
  robust: float


class _LeftError(Exception):
  """Leaves an attack that is under way."""


def validate(
  objective: Objective,
  classifier: Classifier,
  images: np.ndarray,
  labels: np.ndarray,
  steps: int,
  stopping: Callable[[], bool] = lambda: False,
  ids: np.ndarray | None = None,
  total: Callable[[np.ndarray], np.ndarray] = lambda counts: counts,
) -> Score | None:
  """Returns clean accuracy, and accuracy under attack with the budget trained for; None if asked to stop halfway.

  Robust is an example that no point breaks of all that the attack, usually PGD, looks at, each verified outside of it.
  At most as many are as withstand the last point alone, which is what is often reported.

  Args:
    images, labels: float images in [0, 1] with their classes; of a run of several processes, this one's share.
    steps: of the attack; an objective without a budget is not attacked.
    ids: names of the examples for their random starts, which then do not depend on the share; positions by default.
    total: the sum over all processes of some counts; all return the same score, or None if any was asked to stop.
  """
  counted = None if stopping() else _count(objective, classifier, images, labels, steps, stopping, ids)
  mine = (0, 0, 0, 1) if counted is None else (*counted, len(labels), 0)
  clean, robust, examples, stopped = total(np.array(mine, np.int32)).tolist()
  return None if stopped else Score(clean / examples, robust / examples)


def _count(
  objective: Objective,
  classifier: Classifier,
  images: np.ndarray,
  labels: np.ndarray,
  steps: int,
  stopping: Callable[[], bool],
  ids: np.ndarray | None,
) -> tuple[int, int] | None:
  """Returns how many examples are right, and how many robust; None if asked to stop."""

  def look_up(_: object) -> None:
    if stopping():
      raise _LeftError

  budget = objective.budget
  attack = objective.judged_by(steps) if budget else CleanPass()
  options = _options(len(labels), images.shape[1:])
  try:
    # The precision of training: an epoch is chosen here, and judged elsewhere.
    result = attack_images(
      attack, classifier, images, labels, budget, ids=ids, options=options, precision="default", progress=look_up
    )
  except _LeftError:
    return None
  return int(result.correct.sum()), int(result.robust.sum())


def _options(count: int, image_shape: tuple[int, ...]) -> EngineOptions:
  """Returns options for all devices of this process, with no more slots than examples; compiled once."""
  devices, usual = jax.local_device_count(), default_slots(EngineOptions.for_platform(), image_shape)
  slots = -(-max(count, 1) // devices) * devices
  return EngineOptions.for_platform(min(slots, usual), shrink=False)


def overfitted(scores: list[Score], training_accuracy: float) -> str | None:
  """Names catastrophic overfitting (Wong et al. 2020): PGD accuracy halves while training accuracy soars.

  >>> overfitted([Score(0.6, 0.3), Score(0.7, 0.02)], 0.8)
  'catastrophic overfitting: accuracy under PGD fell from 0.300 to 0.020 while the training attack is beaten (0.800)'
  >>> overfitted([Score(0.6, 0.3), Score(0.65, 0.31)], 0.4) is None
  True
  """
  if len(scores) < 2:
    return None
  best, now = max(score.robust for score in scores[:-1]), scores[-1].robust
  if now < COLLAPSE * best and training_accuracy > now + COLLAPSE_GAP:
    return (
      f"catastrophic overfitting: accuracy under PGD fell from {best:.3f} to {now:.3f} while the training attack"
      f" is beaten ({training_accuracy:.3f})"
    )
  return None
