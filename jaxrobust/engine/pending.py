"""What has been sent to the devices and not been taken in yet; arrays here are futures.

`rows` are those of the table of examples, `places` the rows of the same examples in the arrays to come.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from jaxrobust.engine.example import Examples


@dataclass
class CleanBatch:
  """Unperturbed images at the judges.

  Attributes:
    turn: in which it was sent off.
    packed: the judgments to come, one array per judge.
    logits: instead of them, what an earlier run has kept.
  """

  turn: int
  positions: np.ndarray
  examples: Examples
  packed: list[Any]
  logits: np.ndarray | None = None


@dataclass
class Departures:
  """Items that left their slots.

  Attributes:
    pool: number of the pool they left.
    status: what their slots have counted, to come.
    packed: of a peek, the judgments to come of all slots of the group. slots: those that they left.
    images: the candidates of those that a peek has judged, where somebody wants them.
    verified: which a peek has judged already.
    failed: which found nothing and have nothing left to judge. All others wait in the outbox.
  """

  turn: int
  pool: int
  status: Any
  images: Any
  packed: Any
  rows: np.ndarray
  places: np.ndarray
  slots: np.ndarray
  verified: np.ndarray
  failed: np.ndarray


@dataclass
class Judged:
  """Candidates at the judges.

  Attributes:
    stops: steps after which each candidate was taken; -1 for an item without pauses.
    packed: the judgments to come, one array per judge. images: the candidates, where somebody wants them.
  """

  turn: int
  rows: np.ndarray
  places: np.ndarray
  stops: np.ndarray
  packed: list[Any]
  images: Any = None


@dataclass
class Fetched:
  """Images of successes on their way to the host, as `Device.fetch` returned them, and their distances."""

  turn: int
  rows: np.ndarray
  distance: np.ndarray
  images: Any


Pending = CleanBatch | Departures | Judged | Fetched
