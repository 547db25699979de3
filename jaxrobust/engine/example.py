"""An example on its way through the engine: what is read of it, what is known of it, what becomes of it."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple, Protocol

import numpy as np

from jaxrobust.attacks.schedule import Item
from jaxrobust.core.budget import BALL_ATOL, inside


class Examples(NamedTuple):
  """Some rows of a source: ids decide the keys, images are float32 in [0, 1] or bytes, a target of -1 means none."""

  ids: np.ndarray
  images: np.ndarray
  labels: np.ndarray
  targets: np.ndarray


class Source(Protocol):
  """Where examples come from; rows are read by position, a few at a time."""

  @property
  def image_shape(self) -> tuple[int, int, int]: ...

  def __len__(self) -> int: ...

  def take(self, positions: np.ndarray) -> Examples: ...


@dataclasses.dataclass(slots=True)
class ExampleState:
  """What the clean pass said of an example, and the best success so far.

  `logits` are the last that the classifier itself gave: of the best success, of the point an attack without one
  ended at where that was judged, otherwise of the clean image. `image` is the original as the source has it.
  """

  position: int
  id: int
  image: np.ndarray
  label: int
  target: int
  eps: float
  ranking: np.ndarray
  correct: bool = False
  margin: float = float("nan")
  softmax: bool = False
  success: bool = False
  distance: float = float("inf")
  best: np.ndarray | None = None
  stage: int = -1
  queries: int = 0
  steps: int = 0
  nan: int = 0
  flat: int = 0
  disagreements: int = 0
  clean_prediction: int = -1
  broken_at: int = -1
  logits: np.ndarray | None = None
  reached_step: np.ndarray | None = None
  reached_query: np.ndarray | None = None
  answers: dict[tuple[float, int, int], np.ndarray] | None = None

  def answer(self, eps: float, steps: int, judge: int, logits: np.ndarray) -> None:
    """Records what another classifier says of an image."""
    self.answers = {} if self.answers is None else self.answers
    self.answers[eps, steps, judge] = logits


@dataclasses.dataclass(slots=True, eq=False)
class WorkItem:
  """One attack on one example, and how it went once it has left its slot.

  Attributes:
    pause: which of `item.stops` comes next.
    found, steps, queries, nan, flat: as the slot had them.
    reached: steps and queries, counted over the example, at which each budget was first reached; -1 for never.
  """

  item: Item
  example: ExampleState
  pause: int = 0
  found: bool = False
  steps: int = 0
  queries: int = 0
  nan: int = 0
  flat: int = 0
  reached: tuple[np.ndarray, np.ndarray] | None = None


class Verdict(NamedTuple):
  """What became of one example.

  Attributes:
    position, id: its place in the source, and its id there.
    correct: classified as its label before any attack.
    success: a verified adversarial image was found, or the clean image already was one.
    distance: of the image to the original, as the threat measures it; infinity without success.
    image: the adversarial image where it was asked for; None for the original itself.
    stage: the stage that found it; -1 for the clean image or none.
    queries: forward passes the attacks spent on it. steps: attack steps.
    nan: points where logits or gradients were not finite. flat: points with a zero gradient.
    disagreements: successes that an attack saw but the verification did not confirm.
    softmax: the clean output looks like probabilities instead of logits.
    label, target: of the example. clean_prediction: of the clean image; -1 for an output that is not finite.
    broken_at: attack steps after which it was first broken (a step moves, then the point is evaluated); 0 where the
      clean image or a random start already was adversarial, -1 where it never was.
    logits: of the adversarial image; without one of the last point that was judged, or of the clean image.
    tolerance: how far beyond a budget rounding may carry the distance; that of the verification.
    reached_step, reached_query: for each of the run's budgets, when a success within it was first seen; -1 for never.
    answers: logits of other classifiers by (eps, steps, which of them); steps are 0 for the clean image.
  """

  position: int
  id: int
  correct: bool
  success: bool
  distance: float
  image: np.ndarray | None
  stage: int
  queries: int
  steps: int
  nan: int
  flat: int
  disagreements: int
  softmax: bool
  label: int
  target: int
  clean_prediction: int
  broken_at: int
  logits: np.ndarray | None
  tolerance: float = BALL_ATOL
  reached_step: np.ndarray | None = None
  reached_query: np.ndarray | None = None
  answers: dict[tuple[float, int, int], np.ndarray] | None = None

  def broken(self, eps: float) -> bool:
    """Returns whether the success counts within `eps`; a minimal attack's may lie beyond it."""
    return self.success and bool(inside(self.distance, eps, self.tolerance))

  def robust(self, eps: float) -> bool:
    """Returns whether it is right before the attacks and after them; an output that is not a number never is."""
    return self.correct and not self.broken(eps) and not self.nan


def verdict_of(example: ExampleState, tolerance: float) -> Verdict:
  """Returns what is known of an example as its verdict."""
  return Verdict(
    example.position,
    example.id,
    example.correct,
    example.success,
    example.distance,
    example.best,
    example.stage,
    example.queries,
    example.steps,
    example.nan,
    example.flat,
    example.disagreements,
    example.softmax,
    example.label,
    example.target,
    example.clean_prediction,
    example.broken_at,
    example.logits,
    tolerance,
    example.reached_step,
    example.reached_query,
    example.answers,
  )


CleanLogits = dict[tuple[int, int], np.ndarray]
"""Logits of unperturbed images by (first position, number) of the batch they were computed in: runs of several attacks
over the same examples share one clean pass, and each reads the very bits it would have computed."""


@dataclasses.dataclass
class EngineStats:
  """Running totals; `useful` over `slot` steps is the fraction of device work that was needed.

  `forwards`, `backwards` and `judged` are what the attacks need as they are written: a gradient at every point
  they evaluate, and a verification of every success. Judging candidates first needs less than that, so efficiency may
  exceed one. `waited` are seconds for which the host waited for the devices.
  """

  examples: int = 0
  useful_steps: int = 0
  slot_steps: int = 0
  forwards: int = 0
  backwards: int = 0
  judged: int = 0
  dispatches: int = 0
  waited: float = 0.0
