"""Real handwritten digits that need no download: scikit-learn's, as 32x32 RGB.

The 1797 images of 8x8 gray levels 0 … 16 that ship inside scikit-learn's wheel are scaled up to
32x32 by bilinear interpolation and repeated over three channels. All weights are multiples of 1/8
and all levels multiples of 1/16, so every product and sum is exact in float32: the arrays are the
same bytes on every machine and with every version of numpy.

Split: within each class the images are ordered by the SHA-256 of their id; the first 50 are test
(500 in all), the rest (1297) train. No random generator is involved. Test examples are dealt out
one class after the other, so the first 10 k of them hold each class k times.
"""

from __future__ import annotations

import hashlib
import importlib.util
from pathlib import Path

import numpy as np

from jaxrobust.core.errors import CorruptFileError
from jaxrobust.data.source import ArraySource, Dataset

SIZE = 32
CLASSES = 10
TEST_PER_CLASS = 50
TOTAL = 1797


def bilinear_weights(size: int, new_size: int) -> np.ndarray:
  """Returns the (new_size, size) matrix that resamples one axis: half-pixel centers, clamped at the edges.

  Example:
    >>> bilinear_weights(2, 4)
    array([[1.  , 0.  ],
           [0.75, 0.25],
           [0.25, 0.75],
           [0.  , 1.  ]])
  """
  position = np.clip((np.arange(new_size) + 0.5) * size / new_size - 0.5, 0, size - 1)
  return np.maximum(0, 1 - np.abs(position[:, None] - np.arange(size)))


def split_ids(labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
  """Returns the ids of the test and of the train examples, in their fixed orders.

  Example:
    >>> test, train = split_ids(np.arange(TOTAL) % CLASSES)
    >>> len(test), len(train), len(np.intersect1d(test, train))
    (500, 1297, 0)
  """
  order = np.array(sorted(range(len(labels)), key=_hash))
  by_class = [order[labels[order] == c] for c in range(CLASSES)]
  test = np.stack([ids[:TEST_PER_CLASS] for ids in by_class], axis=1).reshape(-1)
  return test, order[~np.isin(order, test)]


def _hash(example: int) -> bytes:
  return hashlib.sha256(f"digits32/{example}".encode()).digest()


def _stored_digits() -> tuple[np.ndarray, np.ndarray]:
  """Returns the gray levels and labels of scikit-learn's file: rows of 64 levels and a label.

  Where it lies as usual it is read without importing scikit-learn, which takes two seconds.
  """
  package = importlib.util.find_spec("sklearn")
  path = Path(package.origin if package and package.origin else "").parent / "datasets" / "data" / "digits.csv.gz"
  if path.is_file():
    rows = np.loadtxt(path, delimiter=",")
    return rows[:, :-1].reshape(-1, 8, 8), rows[:, -1].astype(np.int32)
  from sklearn.datasets import load_digits

  digits = load_digits()
  return digits.images, np.asarray(digits.target, np.int32)


def _load(name: str, train: bool) -> ArraySource:
  levels, labels = _stored_digits()
  if levels.shape != (TOTAL, 8, 8):
    raise CorruptFileError(f"scikit-learn's digits have the shape {levels.shape}, not ({TOTAL}, 8, 8)")
  ids = split_ids(labels)[1 if train else 0]
  weights = bilinear_weights(8, SIZE)
  gray = (weights @ (levels[ids] / 16) @ weights.T).astype(np.float32)
  images = np.repeat(gray[..., None], 3, axis=-1)
  return ArraySource(name, images, labels[ids], CLASSES, tuple(str(c) for c in range(CLASSES)))


def load_test() -> ArraySource:
  """Returns the 500 test digits."""
  return _load("digits32", train=False)


def load_train() -> ArraySource:
  """Returns the 1297 training digits."""
  return _load("digits32-train", train=True)


_SOURCE = "UCI Optical Recognition of Handwritten Digits (test part), as shipped in scikit-learn"
_LICENSE = "CC BY 4.0"

TEST = Dataset(load_test, "handwritten digits, 32x32 RGB, test part", 500, CLASSES, _SOURCE, _LICENSE)
TRAIN = Dataset(load_train, "handwritten digits, 32x32 RGB, training part", 1297, CLASSES, _SOURCE, _LICENSE)
