"""Open examples as a table: all that the host knows of an example, and of the item it is at, in one row.

What comes back from the devices concerns many examples at once, and is written down in one assignment per column.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from jaxrobust.attacks.schedule import Example, Item
from jaxrobust.core.budget import inside
from jaxrobust.engine.example import Examples

Answers = dict[tuple[float, int, int], np.ndarray]
"""Logits of other classifiers by (eps, steps, which of them); steps are 0 for the clean image."""

# The example: its place in the source and its id there, what it is, and what the clean pass said of it (`softmax`: the
# output looks like probabilities; a prediction of -1: it is not finite).
_EXAMPLE = "position:i8 id:i8 label:i4 target:i4 correct:? softmax:? margin:f4 clean_prediction:i4"
# What attacks have made of it. `stage` found the closest success; `broken_at` are the steps after which it was first
# broken (0: the clean image or a random start was adversarial); `nan` and `flat` count points where logits or gradients
# were not finite, or the gradient zero; `disagreements` successes that the verification did not confirm; `nearest` the
# largest margin of the goal among the points that were judged, the clean image's at first.
_OUTCOME = "success:? distance:f8 stage:i4 broken_at:i8 queries:i8 steps:i8 nan:i8 flat:i8 disagreements:i8 nearest:f4"
# The item it is at: which of the schedule's stops comes next, and what its slot has counted so far.
_ITEM = "item_stage:i4 item_target:i4 item_eps:f8 pause:i4 found:?"
_COUNTS = "item_steps:i8 item_queries:i8 item_nan:i8 item_flat:i8"
# Whether the row is in use; images that are on their way to the host; whether nothing else is missing.
_ROW = "open:? images_due:i4 decided:?"
_REACHED = ("reached_step", "reached_query", "item_reached_step", "item_reached_query")
_UNKNOWN = {
  **dict.fromkeys(("clean_prediction", "stage", "broken_at", *_REACHED), -1),
  **dict.fromkeys(("margin", "nearest"), np.nan),
  "distance": np.inf,
}


def record_type(classes: int, budgets: int) -> np.dtype:
  """Returns the columns of a table.

  Args:
    classes: of the classifier: `ranking` has the wrong ones, most likely first, and `logits` those of the adversarial
      image; without one of the last point that was judged, or of the clean image.
    budgets: for which it is kept when a success within each was first seen; -1 for never.
  """
  numbers = [column.split(":") for group in (_EXAMPLE, _OUTCOME, _ITEM, _COUNTS, _ROW) for column in group.split()]
  rows: list[Any] = [("ranking", "i4", (max(classes - 1, 0),)), ("logits", "f4", (classes,))]
  return np.dtype([*map(tuple, numbers), *rows, *((name, "i4", (budgets,)) for name in _REACHED)])


class Verdicts:
  """The verdicts of some examples: rows that have left the table.

  Attributes:
    records: their columns; `verdicts[name]` is one of them.
    images: adversarial ones as `judge.shown` has them, where they were asked for. answers: what other classifiers
      said. None for nothing.
    tolerance: how far beyond a budget rounding may carry a distance.
  """

  def __init__(self, records: np.ndarray, images: np.ndarray, answers: np.ndarray, tolerance: float):
    self.records, self.images, self.answers, self.tolerance = records, images, answers, tolerance

  def __len__(self) -> int:
    return len(self.records)

  def __getitem__(self, name: str) -> np.ndarray:
    return self.records[name]

  def __iter__(self) -> Iterator[Verdict]:
    return (Verdict(self, row) for row in range(len(self)))

  def broken(self, eps: float) -> np.ndarray:
    """Returns which successes count within `eps`; a minimal attack's may lie beyond it."""
    return self["success"] & inside(self["distance"], eps, self.tolerance)

  def robust(self, eps: float) -> np.ndarray:
    """Returns which are right before the attacks and after them; an output that is not a number never is."""
    return self["correct"] & ~self.broken(eps) & (self["nan"] == 0)


class Verdict:
  """One of some verdicts, its columns as attributes.

  Attributes:
    image: the adversarial image, where it was asked for; None for the original itself.
    answers: what other classifiers said.
  """

  def __init__(self, verdicts: Verdicts, row: int):
    self._verdicts, self._row = verdicts, row
    self.image: np.ndarray | None = verdicts.images[row]
    self.answers: Answers | None = verdicts.answers[row]

  def __getattr__(self, name: str) -> Any:
    if name.startswith("_"):
      raise AttributeError(name)
    value = self._verdicts[name][self._row]
    return value if value.ndim else value.item()

  def broken(self, eps: float) -> bool:
    """Returns whether the success counts within `eps`."""
    return bool(self._verdicts.broken(eps)[self._row])


class ExampleTable:
  """The examples that have been opened and have no verdict yet.

  Attributes:
    records: the columns; rows are used again.
    originals: images as the source has them. images: the best adversarial ones, where they were asked for.
    memos: what the rule of the schedule carries along with each item.
    none: no verdicts.
    answers: what other classifiers said. These four are columns of objects; None for nothing.
  """

  def __init__(self, classes: int, budgets: int, eps: float, tolerance: float):
    self.eps, self.tolerance = eps, tolerance
    self.records = np.zeros(0, record_type(classes, budgets))
    self.originals, self.images, self.memos, self.answers = (np.full(0, None) for _ in range(4))
    self.free: list[int] = []
    self._blank: Any = np.zeros((), self.records.dtype)
    blank: Any = self._blank
    for name, value in _UNKNOWN.items():
      blank[name] = value
    blank["open"] = True
    self.none = Verdicts(self.records, self.images, self.answers, tolerance)

  def __getitem__(self, name: str) -> np.ndarray:
    return self.records[name]

  @property
  def rows(self) -> np.ndarray:
    """Returns the rows in use."""
    return np.flatnonzero(self["open"])

  def resize(self, size: int) -> None:
    """Makes room for more rows."""
    more = size - len(self.records)
    self.records = np.concatenate([self.records, np.zeros(more, self.records.dtype)])
    self.free += range(size - 1, size - more - 1, -1)
    self.originals, self.images, self.memos, self.answers = (
      np.concatenate([column, np.full(more, None)])
      for column in (self.originals, self.images, self.memos, self.answers)
    )

  def open(self, positions: np.ndarray, examples: Examples) -> np.ndarray:
    """Returns rows for examples that nothing is known of yet."""
    count = len(positions)
    if count > len(self.free):
      self.resize(max(2 * len(self.records), len(self.records) + count))
    rows = np.array([self.free.pop() for _ in range(count)], np.int64)
    self.records[rows] = self._blank
    for name, column in (
      ("position", positions),
      ("id", examples.ids),
      ("label", examples.labels),
      ("target", examples.targets),
    ):
      self[name][rows] = column
    return rows

  def close(self, rows: np.ndarray) -> Verdicts:
    """Takes rows out of the table."""
    verdicts = Verdicts(self.records[rows], self.images[rows], self.answers[rows], self.tolerance)
    self["open"][rows] = False
    self.originals[rows] = self.images[rows] = self.answers[rows] = None
    self.free += rows.tolist()
    return verdicts

  def begin(self, rows: np.ndarray, items: list[Item]) -> None:
    """Writes down the items that examples are at from now on."""
    stages, targets, budgets, memos = zip(*items, strict=True)
    self["item_stage"][rows], self["item_target"][rows], self["item_eps"][rows] = stages, targets, budgets
    for name in ("pause", "found", "item_steps", "item_queries", "item_nan", "item_flat"):
      self[name][rows] = 0
    for name in ("item_reached_step", "item_reached_query"):
      self[name][rows] = -1
    self.memos[rows] = None
    for row, memo in zip(rows.tolist(), memos, strict=True) if any(memos) else ():
      self.memos[row] = memo

  def shown(self, rows: np.ndarray) -> list[Example]:
    """Returns what the rule of the schedule may know of examples."""
    positions, targets, margins = (self[name][rows].tolist() for name in ("position", "target", "margin"))
    return list(map(Example, positions, targets, [self.eps] * len(rows), self["ranking"][rows], margins))

  def items(self, rows: np.ndarray) -> list[Item]:
    """Returns the items that examples are at."""
    columns = (self[name][rows].tolist() for name in ("item_stage", "item_target", "item_eps"))
    return [Item(stage, to, eps, memo or ()) for stage, to, eps, memo in zip(*columns, self.memos[rows], strict=True)]

  def answer(self, row: int, eps: float, steps: int, judge: int, logits: np.ndarray) -> None:
    """Records what another classifier says of an image."""
    answers = self.answers[row]
    if answers is None:
      answers = self.answers[row] = {}
    answers[eps, steps, judge] = logits


def join(parts: list[Verdicts], table: ExampleTable) -> Verdicts:
  """Returns some verdicts as one value, in their order."""
  if len(parts) < 2:
    return parts[0] if parts else table.none
  columns = ([part.records for part in parts], [part.images for part in parts], [part.answers for part in parts])
  records, images, answers = map(np.concatenate, columns)
  return Verdicts(records, images, answers, table.tolerance)
