"""Work items on their way through a pool: the ticket that goes in, and what comes out with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from jaxrobust.attacks.schedule import Case, Item
from jaxrobust.engine.wire import Books


@dataclass
class Ticket:
  """A work item and the example it belongs to."""

  item: Item
  case: Case


class Finished(NamedTuple):
  """An item that left its slot; `distance`, `margin` and `logits` are those of a success already `verified`."""

  ticket: Ticket
  image: np.ndarray
  found: bool
  steps: int
  nan: int
  flat: int
  verified: bool = False
  distance: float = float("inf")
  margin: float = -float("inf")
  logits: np.ndarray | None = None


def finished(ticket: Ticket, image: np.ndarray, books: Books, row: int) -> Finished:
  """What the books say of the item in `row`."""
  return Finished(
    ticket,
    image,
    bool(books.found[row]),
    int(books.step[row]),
    int(books.nan[row]),
    int(books.flat[row]),
    bool(books.verified[row]),
    float(books.distance[row]),
    float(books.margin[row]),
    np.array(books.logits[row]),
  )
