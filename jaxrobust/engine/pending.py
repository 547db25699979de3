"""What has been sent to the devices and not been taken in yet; arrays here are futures."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from jaxrobust.engine.example import Examples, WorkItem
from jaxrobust.engine.program import Program


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
  rows: Examples
  packed: list[Any]
  logits: np.ndarray | None = None


@dataclass
class Departures:
  """Items that left their slots.

  Attributes:
    works, rows: the items, and their rows in `status` and `images`.
    verified: items that a peek has judged already: (item, row, slot in `packed`).
    failed: items that found nothing and have nothing left to judge. All others wait in the outbox.
  """

  turn: int
  program: Program
  status: Any
  images: Any
  packed: Any = None
  works: list[WorkItem] = field(default_factory=list)
  rows: list[int] = field(default_factory=list)
  verified: list[tuple[WorkItem, int, int]] = field(default_factory=list)
  failed: list[WorkItem] = field(default_factory=list)


@dataclass
class Judged:
  """Candidates at the judges.

  Attributes:
    entries: (row in the arrays, item, steps after which the candidate was taken).
    packed: the judgments to come, one array per judge. images: the candidates, where somebody wants them.
  """

  turn: int
  entries: list[tuple[int, WorkItem, int]]
  packed: list[Any]
  images: Any = None

  @property
  def works(self) -> list[WorkItem]:
    return [work for _, work, _ in self.entries]
