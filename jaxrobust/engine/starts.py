"""Starting points for attacks that need one: images of the data set that meet the goal already.

The start of an example depends on the seed and its class alone, and comes from a fixed pool (the first examples of the
whole data set), so it is the same for any share of the examples, order or number of processes.
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import numpy as np

from jaxrobust.core.errors import InputError

# Examples of the data set that starting points are chosen from.
POOL = 500


class StartPool(NamedTuple):
  """Images with what the classifier calls them; -1 for an output that is not finite."""

  images: np.ndarray
  labels: np.ndarray
  predictions: np.ndarray

  def choose(self, seed: int, label: int, target: int) -> np.ndarray:
    """Returns an image that is rightly called `target` or, without a target, one that is not called `label`."""
    if target >= 0:
      rows = np.flatnonzero((self.predictions == target) & (self.labels == target))
      rows = rows if len(rows) else np.flatnonzero(self.predictions == target)
    else:
      rows = np.flatnonzero((self.predictions != label) & (self.predictions == self.labels))
      rows = rows if len(rows) else np.flatnonzero(self.predictions != label)
    if not len(rows):
      wanted = f"as class {target}" if target >= 0 else f"as anything but class {label}"
      raise InputError(f"no starting point: none of {len(self.images)} images is classified {wanted}")
    words = np.array([seed, 1 if target >= 0 else 0, target if target >= 0 else label], np.int64).tobytes()
    number = int.from_bytes(hashlib.blake2b(words, digest_size=8).digest(), "little")
    return self.images[rows[number % len(rows)]]
