"""What the engine reads and counts: rows of a source, kept clean logits, running totals."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np


class Examples(NamedTuple):
  """Some rows of a source: ids decide the keys, images are float32 in [0, 1] or bytes, a target of -1 means none."""

  ids: np.ndarray
  images: np.ndarray
  labels: np.ndarray
  targets: np.ndarray


@runtime_checkable
class Source(Protocol):
  """A source of examples; rows are read by position, a few at a time."""

  @property
  def image_shape(self) -> tuple[int, int, int]: ...

  def __len__(self) -> int: ...

  def take(self, positions: np.ndarray) -> Examples: ...


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
