"""Intervals by resampling models: a zoo is a sample too, and another one would have given another line.

Models are drawn with replacement, pairs (x, y) together, so nothing is assumed about how the scatter depends on x.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from jaxrobust.analysis.lines import Line, to_scale
from jaxrobust.core.errors import InputError

DRAWS = 2000
LEVEL = 0.95
# Below, most resamples hold so few different models that their spread says nothing.
FEWEST_FOR_INTERVAL = 8
# Of resampled zoos, those that may have no value.
MOST_UNDEFINED = 0.05
_CHUNK = 2_000_000


class Interval(NamedTuple):
  """The ends of an interval; NaN where there are too few models for one."""

  low: float
  high: float


UNKNOWN = Interval(float("nan"), float("nan"))


def resamples(n: int, draws: int = DRAWS, seed: int = 0) -> np.ndarray:
  """Draws models with replacement.

  Args:
    n: models in the zoo.
    draws: zoos to make of it.
    seed: of the draws; the same seed gives the same zoos.

  Returns:
    Indices, (draws, n).

  >>> resamples(4, draws=3).shape
  (3, 4)
  """
  if draws < 1:
    raise InputError(f"a bootstrap needs at least 1 draw, got {draws}")
  return np.random.default_rng(seed).integers(0, n, (draws, n))


def percentile_interval(draws: np.ndarray, level: float = LEVEL) -> Interval:
  """Takes the middle `level` of bootstrap values as an interval (Efron 1979); a few that are NaN are left out.

  Where more than 1 in 20 are, as of a column in which a single model differs from all others, the rest says nothing of
  the models at hand, and there is no interval.

  >>> percentile_interval(np.arange(101.0), 0.5), percentile_interval(np.array([0.1, 0.2, np.nan]))
  (Interval(low=25.0, high=75.0), Interval(low=nan, high=nan))
  """
  known = draws[np.isfinite(draws)]
  if known.size < 2 or known.size < (1 - MOST_UNDEFINED) * draws.size:
    return UNKNOWN
  low, high = np.quantile(known, [(1 - level) / 2, (1 + level) / 2])
  return Interval(float(low), float(high))


def expanded_level(n: int, level: float = LEVEL, parameters: int = 2) -> float:
  """Widens the level of a percentile interval so that it covers as often as it says with few models.

  A bootstrap zoo scatters less than the zoos it imitates, by sqrt((n - k) / n), and its quantiles are the normal's
  where they should be Student's. Both are put right by cutting off tails of Φ(-sqrt(n / (n - k)) t), t the quantile of
  Student's distribution with n - k degrees of freedom.

  Args:
    n: models.
    level: to be covered.
    parameters: k, fitted to the models; 2 for a line.

  Returns:
    The level to cut bootstrap values at.

  Source: Hesterberg 2015, arXiv:1411.5279, for a mean (k = 1).

  >>> round(expanded_level(8), 4), round(expanded_level(20), 4), round(expanded_level(1000), 4)
  (0.9953, 0.9732, 0.9505)
  """
  quantile = float(stdtrit(n - parameters, (1 + level) / 2))
  return 1 - 2 * NormalDist().cdf(-math.sqrt(n / (n - parameters)) * quantile)


def line_intervals(
  x: np.ndarray, y: np.ndarray, line: Line, draws: int = DRAWS, seed: int = 0, level: float = LEVEL
) -> dict[str, Interval]:
  """Bounds the slope, intercept, R² and upper limit of a line by resampling the models behind it.

  Slope, intercept and limit get expanded percentile intervals (`expanded_level`). On 1,000 simulated zoos each of
  12, 20 and 65 models they cover 92-97 % where they say 95 %, of 8 models 98-99 %; plain ones go down to 88 %, and R²,
  which has one, is to be read accordingly.

  Args:
    x: as given to `fit_line`.
    y: as given to `fit_line`.
    line: what `fit_line` found.
    draws: zoos to resample.
    seed: of the draws.
    level: the share of intervals that should hold the truth.

  Returns:
    Intervals by name: `slope`, `intercept`, `r2`, `limit` (capped like the limit). NaN with fewer than 8 models.

  Source: pairs are resampled as in Freedman, Annals of Statistics 9, 1981.

  >>> from jaxrobust.analysis.lines import fit_line
  >>> x = np.linspace(40, 70, 20)
  >>> y = 0.7 * x - 5 + np.sin(9 * x)
  >>> found = line_intervals(x, y, fit_line(x, y), draws=500)
  >>> found["slope"].low < 0.7 < found["slope"].high, found["limit"].high - found["limit"].low < 10
  (True, True)
  """
  x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
  known = np.isfinite(x) & np.isfinite(y)
  x, y = (to_scale(values[known], line.scale, line.top) for values in (x, y))
  if x.size < FEWEST_FOR_INTERVAL:
    return dict.fromkeys(("slope", "intercept", "r2", "limit"), UNKNOWN)
  slope, intercept, r2 = resampled_lines(x, y, draws, seed)
  wide = expanded_level(x.size, level)
  limit = percentile_interval(line.top * slope + intercept, wide)
  if line.scale == "probit":
    limit = Interval(line.limit(), line.limit())
  return {
    "slope": percentile_interval(slope, wide),
    "intercept": percentile_interval(intercept, wide),
    "limit": Interval(*(float(np.clip(end, 0, line.top)) for end in limit)),
    "r2": percentile_interval(r2, level),
  }


def resampled_lines(x: np.ndarray, y: np.ndarray, draws: int = DRAWS, seed: int = 0) -> np.ndarray:
  """Fits a line to every resampled zoo.

  Args:
    x, y: without gaps, on the scale of the line.
    draws: zoos to resample.
    seed: of the draws.

  Returns:
    Slopes, intercepts and R², (3, draws); NaN where all models drawn have the same x.
  """
  rows = resamples(x.size, draws, seed)
  # In pieces that fit into memory.
  pieces = np.array_split(rows, max(1, -(-rows.size // _CHUNK)))
  return np.concatenate([_fits(x[piece], y[piece]) for piece in pieces], axis=1)


def _fits(x: np.ndarray, y: np.ndarray) -> np.ndarray:
  """Fits a line to every row; returns slopes, intercepts and R², (3, rows), NaN where a row has no line."""
  dx, dy = x - x.mean(1, keepdims=True), y - y.mean(1, keepdims=True)
  sxx, sxy, syy = np.sum(dx * dx, 1), np.sum(dx * dy, 1), np.sum(dy * dy, 1)
  # A resample of one model alone.
  sxx[sxx <= 1e-12 * np.sum(x * x, 1)] = np.nan
  slope = sxy / sxx
  with np.errstate(divide="ignore", invalid="ignore"):
    return np.stack([slope, y.mean(1) - slope * x.mean(1), slope * sxy / syy])


def bootstrap_interval(
  statistic: Callable[[np.ndarray], float], n: int, draws: int = DRAWS, seed: int = 0, level: float = LEVEL
) -> Interval:
  """Bounds any statistic of models by the percentile bootstrap.

  Args:
    statistic: takes the indices of a resampled zoo and returns a number, or NaN where there is none.
    n: models in the zoo.
    draws: zoos to resample.
    seed: of the draws.
    level: the share of intervals that should hold the truth.

  Returns:
    The interval; NaN with fewer than 8 models.

  >>> values = np.arange(50.0)
  >>> low, high = bootstrap_interval(lambda rows: values[rows].mean(), 50, draws=400)
  >>> 18 < low < 24.5 < high < 31
  True
  """
  if n < FEWEST_FOR_INTERVAL:
    return UNKNOWN
  return percentile_interval(np.array([statistic(rows) for rows in resamples(n, draws, seed)], np.float64), level)
