"""Means over examples with their uncertainty, of numbers that are no shares."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from jaxrobust.core.errors import InputError


class MeanInterval(NamedTuple):
  """A mean, its 95 % interval and the number of examples."""

  value: float
  low: float
  high: float
  n: int


def mean_interval(values: np.ndarray, z: float = 1.96) -> MeanInterval:
  """Returns mean ± z s / sqrt(n), with the standard deviation s of a sample; for a hundred examples and more.

  >>> found = mean_interval(np.array([1.0, 2.0, 3.0, 4.0]))
  >>> found.value, round(found.low, 4), round(found.high, 4), found.n
  (2.5, 1.2348, 3.7652, 4)
  """
  values = np.asarray(values, np.float64)
  if not values.size or not np.isfinite(values).all():
    raise InputError("a mean needs at least one number, and finite ones")
  half = z * float(values.std(ddof=1)) / math.sqrt(values.size) if values.size > 1 else 0.0
  mean = float(values.mean())
  return MeanInterval(mean, mean - half, mean + half, int(values.size))
