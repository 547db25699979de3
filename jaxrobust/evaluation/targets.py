"""Targets of targeted attacks: one wrong class per example, uniformly at random (ARES, arXiv:1912.11852).

They are classes of the classifier, of which a data set may show only some.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

from jaxrobust.core.errors import InputError
from jaxrobust.core.keys import item_key_data
from jaxrobust.data.source import DataSource, SourceView

# Beside the stages of attacks, which are hashes below 2**30.
TARGET_STAGE = 0x7FFFFFFD


def random_targets(seed: int, ids: np.ndarray, labels: np.ndarray, classes: int) -> np.ndarray:
  """Returns a wrong class for each example, the same whatever the batch.

  >>> random_targets(0, np.arange(4), np.array([0, 1, 2, 0]), 3).tolist()
  [2, 2, 0, 2]
  """
  if classes < 2:
    raise InputError(f"random targets need a classifier of at least 2 classes, got {classes}")
  draws = np.array([item_key_data(seed, int(example), TARGET_STAGE, 0)[0] for example in ids], np.int64)
  return ((np.asarray(labels) + 1 + draws % (classes - 1)) % classes).astype(np.int32)


@dataclass(frozen=True, eq=False)
class WiderSource(SourceView):
  """A source among more classes than it has itself: those of the classifier, which targets are drawn from."""

  source: DataSource
  classes: int

  @property
  def num_classes(self) -> int:
    return self.classes

  def fingerprint(self) -> str:
    """Identifies the data and the number of classes, which decides the targets."""
    return hashlib.sha256(f"{self.source.fingerprint()} {self.classes}".encode()).hexdigest()[:16]


def among(data: DataSource, classes: int) -> DataSource:
  """Returns the data as a classifier of so many classes sees it, for targeted attacks."""
  return data if data.num_classes == classes else WiderSource(data, classes)
