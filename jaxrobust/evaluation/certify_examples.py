"""What is certified of the examples of a data set, in whatever order it becomes known: by bounds or by votes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np

from jaxrobust.attacks.minimum_budget import START
from jaxrobust.certify.certifier import Certifier, certified_radii
from jaxrobust.certify.smoothing import Smoothing
from jaxrobust.certify.vote_slots import Ballot, More, Rule, Tally, most_slots
from jaxrobust.core.budget import Budget
from jaxrobust.core.classifier import Classifier
from jaxrobust.data.source import DataSource
from jaxrobust.evaluation.certificates import examples_of

# Examples that are read at once, and that bounds are asked for at once.
_CHUNK = 32

Decided = list[tuple[int, tuple[bool, float]]]
"""Examples, each with whether it is right, and its radius."""


class Asking(Protocol):
  """A way to certify examples."""

  def run(self, ids: np.ndarray, tallies: dict[int, Tally]) -> Iterator[Decided]:
    """Yields what was decided, perhaps nothing, as often as one may stop; goes on from tallies of examples."""

  def tallies(self) -> dict[int, Tally]:
    """Returns what is known of examples that `run` has begun and not decided."""


class ByBounds:
  """Asks for bounds at a budget, and for the largest radius where that is searched for."""

  def __init__(self, data: DataSource, certifier: Certifier, norm: str, budget: Budget, search: bool):
    self.data, self.certifier, self.budget, self.search = data, certifier, budget.value, search
    self.start = min(budget.value, START[norm])

  def run(self, ids: np.ndarray, tallies: dict[int, Tally]) -> Iterator[Decided]:
    """Decides a chunk after the other."""
    for rows, images, labels in _chunks(self.data, ids):
      found = self.certifier(images, labels, np.full(len(labels), self.budget))
      radii = np.where(found.certified, self.budget, 0.0)
      if self.search:
        radii = np.maximum(radii, np.nan_to_num(certified_radii(self.certifier, images, labels, self.start)))
      yield list(zip(rows.tolist(), zip(found.correct.tolist(), radii.tolist(), strict=True), strict=True))

  def tallies(self) -> dict[int, Tally]:
    """Returns nothing: a chunk is decided as a whole."""
    return {}


class ByVotes:
  """Counts votes up to the radius of each example; with `eps`, until it is known whether that is as large."""

  def __init__(self, data: DataSource, smoothing: Smoothing, classifier: Classifier, eps: float | None):
    self.data, self.smoothing, self.eps, self.classes = data, smoothing, eps, classifier.num_classes
    shape = data.take(np.zeros(1, int))[0].shape[1:]
    self.slots = smoothing.slots(classifier, shape, min(most_slots(), len(data)))

  def run(self, ids: np.ndarray, tallies: dict[int, Tally]) -> Iterator[Decided]:
    """Decides examples in slots."""
    return self.slots.run(
      Ballot(one, image, self._rule(label), tallies.get(one, Tally.empty(self.classes)))
      for rows, images, labels in _chunks(self.data, ids)
      for one, image, label in zip(rows.tolist(), images, labels.tolist(), strict=True)
    )

  def tallies(self) -> dict[int, Tally]:
    """Returns the votes of examples that are in slots."""
    return self.slots.tallies()

  def _rule(self, label: int) -> Rule:
    first = self.smoothing.certify_rule if self.eps is None else self.smoothing.decide_rule(label, self.eps)

    def rule(tally: Tally) -> More | tuple[bool, float]:
      found = first(tally)
      if isinstance(found, More):
        return found
      if self.eps is None or found.radius > 0:
        right = found.prediction == label
        return right, found.radius if right else 0.0
      # What is right beyond eps is a guess by `n0` copies.
      chosen = self.smoothing.choose_rule(tally)
      return chosen if isinstance(chosen, More) else (chosen == label, 0.0)

    return rule


def _chunks(data: DataSource, ids: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
  for first in range(0, len(ids), _CHUNK):
    rows = ids[first : first + _CHUNK]
    yield rows, *examples_of(data, rows)
