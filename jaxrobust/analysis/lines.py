"""Straight lines through models: what performance under a shift to expect of performance without one.

A line is fitted by least squares, y = a x + b, on the numbers as they are (OODRobustBench, section 4.1,
arXiv:2310.12793) or after the probit Φ⁻¹(x / top), which spreads out accuracies near 0 and 100 % (Miller et al. 2021,
arXiv:2107.04649). Numbers are percentages unless `top` says otherwise (1 for fractions).
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from jaxrobust.core.errors import InputError
from jaxrobust.core.registry import unknown_name

SCALES = ("raw", "probit")
FEWEST = 3
# Nobody has measured an accuracy closer to 0 or 1: half an image of ten thousand.
CLIP = 5e-5

_NORMAL = NormalDist()
_inverse = np.vectorize(_NORMAL.inv_cdf, otypes=[np.float64])
_forward = np.vectorize(_NORMAL.cdf, otypes=[np.float64])


def probit(values: np.ndarray, top: float = 100.0) -> np.ndarray:
  """Maps accuracies to the normal quantiles Φ⁻¹(v / top), clipped to half an image of ten thousand at both ends.

  Args:
    values: accuracies in [0, top].
    top: the largest accuracy there can be.

  Returns:
    Quantiles; NaN stays NaN.

  Source: the axes of Miller et al. 2021, arXiv:2107.04649.

  >>> probit([50, 97.72]).round(2).tolist(), probit([0.0], top=1).round(2).tolist()
  ([0.0, 2.0], [-3.89])
  """
  share = np.clip(np.asarray(values, np.float64) / top, CLIP, 1 - CLIP)
  known = np.isfinite(share)
  return np.where(known, _inverse(np.where(known, share, 0.5)), np.nan)


def inverse_probit(quantiles: np.ndarray, top: float = 100.0) -> np.ndarray:
  """Maps normal quantiles back to accuracies, top · Φ(q).

  Args:
    quantiles: any real numbers.
    top: the largest accuracy there can be.

  Returns:
    Accuracies in [0, top].

  >>> inverse_probit(probit([12.5, 80.0])).round(6).tolist()
  [12.5, 80.0]
  """
  quantiles = np.asarray(quantiles, np.float64)
  known = np.isfinite(quantiles)
  return np.where(known, top * _forward(np.where(known, quantiles, 0)), np.nan)


def to_scale(values: np.ndarray, scale: str, top: float = 100.0) -> np.ndarray:
  """Maps accuracies to the axis that a line is straight on, `raw` or `probit`.

  >>> to_scale([50, 60], "raw").tolist(), to_scale([50], "probit").tolist()
  ([50.0, 60.0], [0.0])
  """
  if scale not in SCALES:
    raise unknown_name("scale", scale, list(SCALES))
  return probit(values, top) if scale == "probit" else np.asarray(values, np.float64)


@dataclass(frozen=True)
class Line:
  """A fitted line and what it was fitted to.

  Attributes:
    slope: a of y = a x + b, on the line's scale.
    intercept: b, on the line's scale.
    r2: the share of the variance of y that the line explains, which is the squared correlation.
    slope_error: the standard error of the slope, sqrt(Σe² / (n - 2) / Σ(x - x̄)²).
    n: models in the fit.
    scale: `raw` or `probit`.
    top: the largest value of both axes before scaling.
  """

  slope: float
  intercept: float
  r2: float
  slope_error: float
  n: int
  scale: str = "raw"
  top: float = 100.0

  @property
  def of_shares(self) -> bool:
    """Tells accuracies, in per cent or as fractions, from columns of another sort such as parameters."""
    return self.top in (1.0, 100.0)

  def predict(self, x: np.ndarray) -> np.ndarray:
    """Returns the y that the line expects at x, both in accuracies; not capped.

    >>> Line(0.5, 10.0, 1.0, 0.0, 9).predict([40.0, 100.0]).tolist()
    [30.0, 60.0]
    """
    expected = self.slope * to_scale(x, self.scale, self.top) + self.intercept
    return inverse_probit(expected, self.top) if self.scale == "probit" else expected

  def limit(self) -> float:
    """Returns the y at the end of the x axis, top · a + b, capped to [0, top].

    The best that can be hoped for if ID performance became perfect and the trend went on (OODRobustBench, eq. 4). On
    the probit scale every rising line ends at the top: such a limit says nothing.

    >>> round(Line(0.7221, -5.889, 0.9674, 0.0167, 65).limit(), 2), Line(1.3, -4.0, 1.0, 0.0, 9).limit()
    (66.32, 100.0)
    """
    if self.scale == "probit":
      return self.top if self.slope > 0 else 0.0
    return float(np.clip(self.slope * self.top + self.intercept, 0.0, self.top))

  def conversion_rate(self, at: float | None = None) -> float:
    """Returns the points gained under the shift for one point gained without it: the slope (OODRobustBench, section 5).

    On the probit scale the rate depends on where one stands: a φ(a q + b) / φ(q) at q = Φ⁻¹(at / top).

    Args:
      at: ID accuracy; needed on the probit scale only.

    >>> Line(0.1, 2.0, 1.0, 0.0, 9).conversion_rate()
    0.1
    >>> round(Line(1.0, -0.5, 1.0, 0.0, 9, "probit").conversion_rate(at=90), 3)
    1.675
    """
    if self.scale == "raw":
      return self.slope
    if at is None:
      raise InputError("on the probit scale a conversion rate needs the ID accuracy it is asked for")
    place = float(probit(np.array(at), self.top))
    return self.slope * _NORMAL.pdf(self.slope * place + self.intercept) / _NORMAL.pdf(place)

  def plain(self) -> dict[str, Any]:
    """Returns the line as JSON."""
    return {
      "slope": self.slope,
      "intercept": self.intercept,
      "r2": self.r2,
      "slope_error": self.slope_error,
      "n": self.n,
      "scale": self.scale,
      "limit": self.limit(),
    }


def known_pairs(x: np.ndarray, y: np.ndarray, names: tuple[str, str] = ("x", "y")) -> np.ndarray:
  """Marks the models that have both numbers, and refuses what no line can be fitted to, by name.

  Args:
    x: one number per model, NaN where there is none.
    y: the same for the other axis.
    names: of the axes, for the message.

  Returns:
    Flags.

  Raises:
    InputError: fewer than three models have both, or all have the same x or the same y.

  >>> known_pairs([1, 2, 3, 4], [5, 6, np.nan, 7]).tolist()
  [True, True, False, True]
  """
  x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
  if x.ndim != 1 or x.shape != y.shape:
    raise InputError(f"{names[0]} and {names[1]} need one number per model each, got shapes {x.shape} and {y.shape}")
  known = np.isfinite(x) & np.isfinite(y)
  count = int(known.sum())
  if count < FEWEST:
    raise InputError(f"a trend of {names[1]} over {names[0]} needs at least {FEWEST} models with both, got {count}")
  for name, values in zip(names, (x[known], y[known]), strict=True):
    if np.ptp(values) <= 1e-9 * max(1.0, float(np.abs(values).max())):
      raise InputError(f"{name} is {values[0]:g} for all {count} models: a constant axis has no trend")
  return known


def fit_line(
  x: np.ndarray,
  y: np.ndarray,
  scale: str = "raw",
  top: float = 100.0,
  names: tuple[str, str] = ("x", "y"),
) -> Line:
  """Fits y = a x + b by least squares over models.

  a = Σ(x - x̄)(y - ȳ) / Σ(x - x̄)², b = ȳ - a x̄, R² = (Σ(x - x̄)(y - ȳ))² / (Σ(x - x̄)² Σ(y - ȳ)²).

  Args:
    x: ID accuracy or robustness of each model.
    y: the same models' accuracy or robustness under a shift; pairs with a NaN are left out.
    scale: `raw`, or `probit` to fit Φ⁻¹(y / top) over Φ⁻¹(x / top).
    top: the largest value of both axes.
    names: of the axes, for messages.

  Returns:
    The line.

  Raises:
    InputError: fewer than three models, or an axis without any spread.

  Source: OODRobustBench, section 4.1, arXiv:2310.12793; probit: Miller et al. 2021, arXiv:2107.04649.

  >>> line = fit_line([40, 50, 60], [20, 26, 30])
  >>> round(line.slope, 6), round(line.intercept, 6), round(line.r2, 4), line.n
  (0.5, 0.333333, 0.9868, 3)
  >>> fit_line([40, 50], [20, 26], names=("ID accuracy", "fog accuracy"))
  Traceback (most recent call last):
  jaxrobust.core.errors.InputError: a trend of fog accuracy over ID accuracy needs at least 3 models with both, got 2
  """
  known = known_pairs(x, y, names)
  x, y = (to_scale(np.asarray(values, np.float64)[known], scale, top) for values in (x, y))
  if scale == "probit":
    # What differs outside the clipped range is the same on this scale.
    known_pairs(x, y, (f"probit of {names[0]}", f"probit of {names[1]}"))
  dx, dy = x - x.mean(), y - y.mean()
  sxx, sxy, syy = float(dx @ dx), float(dx @ dy), float(dy @ dy)
  slope = sxy / sxx
  intercept = float(y.mean() - slope * x.mean())
  rest = float(np.sum((dy - slope * dx) ** 2))
  error = float(np.sqrt(rest / (x.size - 2) / sxx))
  return Line(slope, intercept, min(sxy * sxy / (sxx * syy), 1.0), error, int(x.size), scale, top)
