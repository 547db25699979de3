"""Does the best model stay the best? Ranks without and with a shift, and how far they agree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from jaxrobust.analysis.bootstrap import DRAWS, FEWEST_FOR_INTERVAL, LEVEL, UNKNOWN, Interval, percentile_interval
from jaxrobust.analysis.bootstrap import resamples as draw_resamples
from jaxrobust.core.errors import InputError

# Pairs that all resampled zoos may have together, zoos there are at least, and pairs looked at at once.
_PAIRS, _LEAST_DRAWS, _BLOCK = 500_000_000, 200, 8_000_000


def ranks(values: np.ndarray) -> np.ndarray:
  """Ranks models from the largest value, 1, down; equals share the smallest rank they could have.

  Args:
    values: one number per model.

  Returns:
    Ranks; NaN where the value is.

  >>> ranks([50.0, 70.0, np.nan, 60.0, 60.0]).tolist()
  [4.0, 1.0, nan, 2.0, 2.0]
  """
  values = np.asarray(values, np.float64)
  known = np.isfinite(values)
  order = np.sort(-values[known])
  found = np.full(values.shape, np.nan)
  found[known] = 1 + np.searchsorted(order, -values[known], side="left")
  return found


def kendall(x: np.ndarray, y: np.ndarray) -> float:
  """Measures how far two orders agree: Kendall's τ_b, which allows for ties.

  τ_b = Σ sign(xᵢ - xⱼ) sign(yᵢ - yⱼ) / sqrt(Σ |sign(xᵢ - xⱼ)| · Σ |sign(yᵢ - yⱼ)|) over pairs: 1 for the same order, -1
  for the reverse, 0 for none.

  Args:
    x: one number per model.
    y: another one; pairs with a NaN are left out.

  Returns:
    τ_b; NaN where all x or all y are equal.

  Source: Kendall, Biometrika 33, 1945.

  >>> round(kendall([1, 2, 3, 4], [1, 2, 4, 3]), 4), round(kendall([1, 2, 2, 3], [1, 2, 3, 4]), 4)
  (0.6667, 0.9129)
  """
  x, y = _known(x, y)
  return float(Orders(np.stack([x, y]), np.ones((1, x.size), np.float32)).between(0, [1])[0, 0])


def kendall_interval(x: np.ndarray, y: np.ndarray, draws: int = DRAWS, seed: int = 0, level: float = LEVEL) -> Interval:
  """Bounds Kendall's τ_b by the percentile bootstrap over models.

  A resampled zoo is a vector w of how often each model was drawn, and its sums over pairs are w' S w: no pair is
  looked at again. Thousands of models get fewer draws, 200 at least: their pairs are many, and their intervals narrow.

  Args:
    x: one number per model.
    y: another one; pairs with a NaN are left out.
    draws: zoos to resample.
    seed: of the draws.
    level: the share of intervals that should hold the truth.

  Returns:
    The interval; NaN with fewer than 8 models.

  >>> low, high = kendall_interval(np.arange(30), np.arange(30) + 8 * np.sin(np.arange(30)), draws=300)
  >>> 0.3 < low < high < 1
  True
  """
  x, y = _known(x, y)
  if x.size < FEWEST_FOR_INTERVAL:
    return UNKNOWN
  weights = multiplicities(x.size, Orders.draws(x.size, draws), seed)
  return percentile_interval(Orders(np.stack([x, y]), weights).between(0, [1])[0], level)


def multiplicities(n: int, draws: int = DRAWS, seed: int = 0) -> np.ndarray:
  """Counts how often each model occurs in each resampled zoo.

  Returns:
    Counts (draws, n), of the same zoos that `bootstrap.resamples` draws.

  >>> multiplicities(5, draws=2).sum(1).tolist()
  [5.0, 5.0]
  """
  rows = draw_resamples(n, draws, seed) + n * np.arange(draws)[:, None]
  return np.bincount(rows.ravel(), minlength=draws * n).reshape(draws, n).astype(np.float32)


def _known(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
  x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
  if x.shape != y.shape:
    raise InputError(f"two orders need the same models, got {len(x)} and {len(y)}")
  known = np.isfinite(x) & np.isfinite(y)
  return x[known], y[known]


def _signs(values: np.ndarray, rows: slice) -> np.ndarray:
  return np.sign(values[rows, None] - values[None]).astype(np.float32)


class Orders:
  """Kendall's τ_b between any two of several columns, in many resampled zoos at once.

  Args:
    columns: without gaps, (columns, models).
    weights: how often each zoo holds each model, (zoos, models), as `multiplicities` counts it.
  """

  def __init__(self, columns: np.ndarray, weights: np.ndarray):
    self._columns, self._weights = columns, weights.astype(np.float32)
    # Pairs that are no ties: those of a column with itself.
    self._differing = np.stack([self._agreeing(column, column) for column in columns])

  @staticmethod
  def draws(n: int, draws: int) -> int:
    """Returns how many zoos of n models are resampled where so many are asked for."""
    return min(draws, max(_LEAST_DRAWS, _PAIRS // n**2))

  def between(self, at: int, others: Sequence[int]) -> np.ndarray:
    """Returns τ_b of one column and of each of the others, (others, zoos); NaN where all are equal."""
    agreeing = np.stack([self._agreeing(self._columns[at], self._columns[other]) for other in others])
    with np.errstate(divide="ignore", invalid="ignore"):
      return agreeing / np.sqrt(self._differing[at] * self._differing[list(others)])

  def _agreeing(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Counts pairs in the same order less those in the other one, some rows at a time, so that they fit into memory."""
    found, weights = np.zeros(len(self._weights)), self._weights
    step = max(1, _BLOCK // max(x.size, 1))
    for start in range(0, x.size, step):
      rows = slice(start, start + step)
      found += np.einsum(
        "br,br->b", weights @ (_signs(x, rows) * _signs(y, rows)).T, weights[:, rows], dtype=np.float64
      )
    return found


class Standing(NamedTuple):
  """A model's two ranks; positive `gain` where it stands better under the shift."""

  model: str
  id_rank: int
  ood_rank: int

  @property
  def gain(self) -> int:
    return self.id_rank - self.ood_rank


def standings(models: Sequence[str], id_values: np.ndarray, ood_values: np.ndarray) -> list[Standing]:
  """Ranks models without and with a shift, among those that have both numbers.

  Args:
    models: their names.
    id_values: what the first rank is by.
    ood_values: what the second is by; OODRobustBench ranks by (OOD_d + OOD_t) / 2 (Table 1, arXiv:2310.12793).

  Returns:
    One entry per model, the largest change of rank first.

  >>> [(s.model, s.id_rank, s.ood_rank, s.gain) for s in standings("abc", [70.0, 60.0, 50.0], [40.0, 30.0, 45.0])]
  [('c', 3, 1, 2), ('a', 1, 2, -1), ('b', 2, 3, -1)]
  """
  first, second = np.asarray(id_values, np.float64), np.asarray(ood_values, np.float64)
  known = np.isfinite(first) & np.isfinite(second)
  pairs = zip(np.array(list(models), object)[known], ranks(first[known]), ranks(second[known]), strict=True)
  found = [Standing(str(model), int(one), int(other)) for model, one, other in pairs]
  return sorted(found, key=lambda item: (-abs(item.gain), item.id_rank, item.model))
