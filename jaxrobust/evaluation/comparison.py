"""Two results of the same cell, side by side: which examples differ, and what the results were computed with."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from jaxrobust.results import Result, to_text
from jaxrobust.results.plain import Difference, differences

# What an answer is made of; the rest (queries, gradients seen, confidences) may differ in the last digits.
VERDICTS = ("correct", "robust", "nan", "prediction", "clean_prediction", "broken_at")
SHOWN = 5


@dataclass(frozen=True)
class Comparison:
  """Lists what differs between a stored result and a new one.

  Attributes:
    identical: the same bytes, provenance aside.
    verdicts: the flags of all examples are equal.
    examples: array -> (number of differing examples, the first of them).
    config, provenance: entries that differ.
  """

  identical: bool
  verdicts: bool
  examples: Mapping[str, tuple[int, tuple[int, ...]]]
  config: tuple[Difference, ...]
  provenance: tuple[Difference, ...]

  def lines(self) -> list[str]:
    """Returns lines for a reader, the verdict first."""
    if self.identical:
      head = "matches: every number of the cell is the same"
    elif self.verdicts:
      head = "matches: every verdict is the same; other arrays differ"
    else:
      head = "DIFFERS"
    rows = [head]
    rows += [
      f"  {name}: {count} examples differ, first {', '.join(map(str, first))}"
      for name, (count, first) in self.examples.items()
    ]
    rows += [f"  config {entry.key}: stored {entry.left}, now {entry.right}" for entry in self.config]
    rows += [f"  provenance {entry.key}: stored {entry.left}, now {entry.right}" for entry in self.provenance]
    return rows


def compare(stored: Result, new: Result) -> Comparison:
  """Compares two results of one cell example by example."""
  found: dict[str, tuple[int, tuple[int, ...]]] = {}
  for name in sorted(stored.examples.keys() & new.examples.keys()):
    one, other = stored.examples[name], new.examples[name]
    apart = np.flatnonzero(~((one == other) | ((one != one) & (other != other))))
    if len(apart):
      found[name] = len(apart), tuple(int(row) for row in apart[:SHOWN])
  bare = [to_text(dataclasses.replace(result, provenance={})) for result in (stored, new)]
  verdicts = not any(name in found for name in VERDICTS) and stored.cell == new.cell
  return Comparison(
    bare[0] == bare[1],
    verdicts,
    found,
    tuple(differences(stored.config, new.config)),
    tuple(differences(stored.provenance, new.provenance)),
  )
