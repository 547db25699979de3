"""What goes into the engine and what comes out: examples, verdicts, totals."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple, Protocol

import numpy as np

from jaxrobust.core.threat import BALL_ATOL, inside


class Examples(NamedTuple):
  """Some rows of a source: ids decide the keys, a target of -1 means none."""

  ids: np.ndarray
  images: np.ndarray
  labels: np.ndarray
  targets: np.ndarray


CleanLogits = dict[tuple[int, int], np.ndarray]
"""Logits of unperturbed images by (first position, number) of the batch they were computed in: runs of several attacks
over the same examples share one clean pass, and each reads the very bits it would have computed."""


class Source(Protocol):
  """Where examples come from; rows are read by position, a few at a time."""

  @property
  def image_shape(self) -> tuple[int, int, int]: ...

  def __len__(self) -> int: ...

  def take(self, positions: np.ndarray) -> Examples: ...


class Verdict(NamedTuple):
  """What became of one example.

  Attributes:
    position, id: its place in the source, and its id there.
    correct: classified as its label before any attack.
    success: a verified adversarial image was found, or the clean image already was one.
    distance: of the image to the original, in the attack's norm; infinity without success.
    image: the adversarial image, or the original without success.
    stage: the stage that found it; -1 for the clean image or none.
    queries: forward passes the attacks spent on it. steps: attack steps.
    nan: points where logits or gradients were not finite. flat: points with a zero gradient.
    disagreements: successes that an attack saw but the verification did not confirm.
    softmax: the clean output looks like probabilities instead of logits.
    label, clean_prediction: of the example before any attack; -1 for an output that is not finite.
    broken_at: attack steps after which it was first broken (a step moves, then the point is looked at); 0 where the
      clean image or a random start already was adversarial, -1 where it never was.
    logits: of the adversarial image; without one of the last point that was judged, or of the clean image.
    slack: how far beyond a budget rounding may carry the distance; that of the verification.
  """

  position: int
  id: int
  correct: bool
  success: bool
  distance: float
  image: np.ndarray
  stage: int
  queries: int
  steps: int
  nan: int
  flat: int
  disagreements: int
  softmax: bool
  label: int = -1
  clean_prediction: int = -1
  broken_at: int = -1
  logits: np.ndarray | None = None
  slack: float = BALL_ATOL

  def broken(self, eps: float) -> bool:
    """Whether the success counts within `eps`; a minimal attack's may lie beyond it."""
    return self.success and bool(inside(self.distance, eps, self.slack))

  def robust(self, eps: float) -> bool:
    """Right before the attacks and after them; an output that is not a number is never robust."""
    return self.correct and not self.broken(eps) and not self.nan


@dataclasses.dataclass
class EngineStats:
  """Running totals; `useful` over `slot` steps is the fraction of device work that was needed.

  `forwards`, `backwards` and `judged` are what the attacks need as they are written: a gradient at every point
  they look at, and a verification of every success. Peeking needs less than that, so efficiency may exceed one.
  """

  examples: int = 0
  useful_steps: int = 0
  slot_steps: int = 0
  forwards: int = 0
  backwards: int = 0
  judged: int = 0
