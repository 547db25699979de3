"""Other images of the data set for attacks that need some: a start that meets the goal already, or other classes.

The start of an example depends on the seed and its class alone, its other images on the seed and itself. They come from
a fixed pool, so they are the same for any share of the examples, order or number of processes. The pool are the first
examples of the whole data set and, of each class that is wanted and not among them, the first later one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from jaxrobust.core.errors import InputError
from jaxrobust.core.keys import OTHERS_STAGE, item_key_data
from jaxrobust.engine.example import Examples, Source

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

  def others(self, seed: int, example: int, label: int, count: int) -> np.ndarray:
    """Returns images whose label is another; one comes twice only where there are fewer."""
    rows = np.flatnonzero(self.labels != label)
    if not len(rows):
      raise InputError(f"no other images: all {len(self.images)} in the pool are of class {label}")
    draw = np.random.default_rng(item_key_data(seed, example, OTHERS_STAGE, 0))
    return self.images[draw.choice(rows, count, replace=len(rows) < count)]


def make_starts(
  source: Source, predict: Callable[[Examples], np.ndarray], batch: int, classes: Iterable[int]
) -> StartPool:
  """Returns the pool of starting points.

  Args:
    source: the whole data set, in its order.
    predict: what the classifier calls some examples; -1 for an output that is not finite.
    batch: examples that are read at once beyond the first ones.
    classes: that starting points are wanted of, because they are targets.

  Raises:
    InputError: no image of the data set is called a class that is wanted.
  """
  rows = source.take(np.arange(min(POOL, len(source))))
  said = predict(rows)
  parts: list[tuple[np.ndarray, ...]] = [(rows.images, np.asarray(rows.labels), said)]
  wanted = set(classes) - set(said[said == rows.labels].tolist())
  wrongly: dict[int, tuple[np.ndarray, ...]] = {}
  for first in range(POOL, len(source), batch):
    if not wanted:
      break
    rows = source.take(np.arange(first, min(first + batch, len(source))))
    said = predict(rows)
    for row in np.flatnonzero(np.isin(said, list(wanted))).tolist():
      one = tuple(np.asarray(column)[row : row + 1] for column in (rows.images, rows.labels, said))
      called = int(said[row])
      if called == rows.labels[row] and called in wanted:
        parts.append(one)
        wanted.discard(called)
      wrongly.setdefault(called, one)  # Of another class, though called so: better than none.
  parts += [wrongly[called] for called in sorted(wanted & set(wrongly))]
  pool = StartPool(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
  missing = sorted(wanted - set(pool.predictions.tolist()))
  if missing:
    some = ", ".join(map(str, missing[:10])) + (" and more" if len(missing) > 10 else "")
    raise InputError(f"no starting points: none of {len(source)} images is classified as {some}, which are targets")
  return pool
