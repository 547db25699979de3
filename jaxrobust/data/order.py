"""Orders that any first n examples of are a fair sample: for sets whose examples lie class by class.

Classes come in turn, each in the order of the SHA-256 of its examples' names, so that the first n hold every class in
proportion, whatever n is. Sets that are made from one another (ImageNet, -C, stylized) name their files alike, so their
subsets pair up.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np


def balanced_order(labels: np.ndarray, names: Sequence[str]) -> np.ndarray:
  """Returns an order whose first n examples have every class in proportion to its examples.

  >>> labels = np.repeat([0, 1, 2], 4)
  >>> labels[balanced_order(labels, [str(i) for i in range(12)])[:6]].tolist()
  [2, 1, 0, 2, 1, 0]
  """
  labels = np.asarray(labels)
  keys = (hashlib.sha256(f"{label}/{name}".encode()).digest() for label, name in zip(labels, names, strict=True))
  draw = np.array([int.from_bytes(key[:6], "big") / 2**48 for key in keys])
  order = np.lexsort((draw, labels))
  _, first, counts = np.unique(labels[order], return_index=True, return_counts=True)
  rank = np.arange(len(labels)) - np.repeat(first, counts)
  place = np.empty(len(labels))
  place[order] = (rank + draw[order]) / np.repeat(counts, counts)
  return np.lexsort((labels, place))


def is_sorted(labels: np.ndarray) -> bool:
  """Tells whether examples come class by class, so that the first of them are no sample of the whole.

  >>> is_sorted(np.array([0, 0, 1, 3])), is_sorted(np.array([0, 1, 0])), is_sorted(np.zeros(3))
  (True, False, False)
  """
  return len(labels) > 1 and bool((np.diff(labels) >= 0).all() and labels[0] != labels[-1])


def listed_order(files: Sequence[str], listed: Sequence[str], rest: np.ndarray) -> np.ndarray:
  """Returns an order that begins with the files of a list, by relative or by mere file name, and ends with the others.

  >>> listed_order(["a/1.png", "a/2.png", "b/3.png"], ["x/3.png", "a/1.png"], np.arange(3))
  array([2, 0, 1])
  """
  place = {file.rpartition("/")[2]: i for i, file in enumerate(files)} | {file: i for i, file in enumerate(files)}
  found = [name if name in place else name.rpartition("/")[2] for name in listed]
  first = list(dict.fromkeys(place[name] for name in found if name in place))
  taken = set(first)
  return np.array([*first, *(int(i) for i in rest if int(i) not in taken)], int)
