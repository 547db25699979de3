"""Robustness curves, each from one run: accuracy against budget, attack strength or severity.

A point of a curve is an accuracy; what is compared are whole curves, by the area below them and by where they cross
(ARES, Dong et al. 2020, arXiv:1912.11852). The budget curve comes from per-example distances of a minimal attack or a
minimum-budget search, the strength curve from the step at which each example broke: nothing is run again.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jaxrobust.core.budget import inside
from jaxrobust.core.errors import InputError


@dataclass(frozen=True, eq=False)
class Curve:
  """y over rising x.

  >>> Curve([0, 1, 3], [1.0, 0.5, 0.0]).at(2)
  0.25
  """

  x: np.ndarray
  y: np.ndarray

  def __post_init__(self) -> None:
    x, y = np.asarray(self.x, np.float64), np.asarray(self.y, np.float64)
    if x.ndim != 1 or x.shape != y.shape or x.size == 0:
      raise InputError(f"a curve needs as many x as y, and at least one; got shapes {x.shape} and {y.shape}")
    if (np.diff(x) <= 0).any() or not np.isfinite(x).all() or not np.isfinite(y).all():
      raise InputError("a curve needs finite values at rising x")
    object.__setattr__(self, "x", x)
    object.__setattr__(self, "y", y)

  def at(self, x: float) -> float:
    """Returns y at x, linear between points and flat outside."""
    return float(np.interp(x, self.x, self.y))

  def plain(self) -> dict[str, Any]:
    """Returns it as JSON."""
    return {"x": self.x.tolist(), "y": self.y.tolist()}


def accuracy_vs_budget(distance: np.ndarray, correct: np.ndarray, eps_list: Iterable[float]) -> Curve:
  """Returns the share of examples that are right and not broken within each budget.

  Args:
    distance: of the closest adversarial image, infinity where there is none.
    correct: right without an attack.
    eps_list: budgets, in any order.

  >>> accuracy_vs_budget(np.array([0.1, 0.3, np.inf, 0.0]), np.array([1, 1, 1, 0]), [0, 0.2, 0.4]).y.tolist()
  [0.75, 0.5, 0.25]
  """
  budgets = np.unique(np.asarray(list(eps_list), np.float64))
  distance, correct = _rows(distance, correct)
  # NaN is no distance at all: such an example is never counted as robust.
  robust = correct & ~np.isnan(distance) & ~inside(distance, budgets[:, None])
  return Curve(budgets, robust.mean(1))


def success_rate(x: Iterable[float], broken: np.ndarray, correct: np.ndarray, targeted: bool = False) -> Curve:
  """Returns the attack success rate at rising budgets or strengths, with the denominators of ARES (arXiv:1912.11852).

  Args:
    x: the budgets or strengths.
    broken: (points, N), whether the goal has been reached at each of them.
    correct: right without an attack.
    targeted: over all N examples, right before or not, instead of over those right before.

  >>> broken = np.array([[0, 0, 0, 1], [1, 0, 0, 1]])
  >>> correct = np.array([1, 1, 0, 0])
  >>> success_rate([1, 2], broken, correct).y.tolist(), success_rate([1, 2], broken, correct, targeted=True).y.tolist()
  ([0.0, 0.5], [0.25, 0.5])
  """
  counted = np.ones(np.shape(correct), bool) if targeted else np.asarray(correct, bool)
  if not counted.any():
    raise InputError("no example is right without an attack: there is no success rate")
  return Curve(np.asarray(list(x), np.float64), np.asarray(broken, bool)[:, counted].mean(1))


def accuracy_vs_strength(
  broken_at: np.ndarray, correct: np.ndarray, strengths: Iterable[int], robust: np.ndarray | None = None
) -> Curve:
  """Returns the accuracy left after each number of attack steps, or of queries.

  Args:
    broken_at: steps (or queries) after which an example broke; negative where it never did.
    correct: right without an attack.
    strengths: numbers of steps, in any order.
    robust: the final flags, where not all that did not break are robust (outputs that are not numbers).

  >>> accuracy_vs_strength(np.array([0, 2, 5, -1]), np.array([0, 1, 1, 1]), [0, 2, 5]).y.tolist()
  [0.75, 0.5, 0.25]
  """
  steps = np.unique(np.asarray(list(strengths), np.int64))
  broken_at, correct = _rows(broken_at, correct)
  if robust is not None:
    correct = correct & ((broken_at >= 0) | np.asarray(robust, bool))
  standing = (broken_at < 0) | (broken_at > steps[:, None])
  return Curve(steps, (correct & standing).mean(1))


def accuracy_vs_severity(accuracies: Mapping[int, float | Sequence[float]], clean: float | None = None) -> Curve:
  """Returns the accuracy at each severity, averaged over the corruptions given; severity 0 is the clean accuracy.

  >>> accuracy_vs_severity({1: [0.9, 0.7], 3: 0.5}, clean=1.0).y.tolist()
  [1.0, 0.8, 0.5]
  """
  points = {severity: float(np.mean(values)) for severity, values in accuracies.items()}
  if clean is not None:
    points[0] = float(clean)
  order = sorted(points)
  return Curve(np.array(order, np.float64), np.array([points[severity] for severity in order]))


def area(curve: Curve, low: float | None = None, high: float | None = None) -> float:
  """Returns the mean height between two x (the ends by default): area under the curve over the width.

  A single point's mean height is its y.

  >>> area(Curve([0, 1, 2], [1.0, 0.5, 0.0])), area(Curve([0, 1, 2], [1.0, 0.5, 0.0]), high=1)
  (0.5, 0.75)
  """
  low = float(curve.x[0]) if low is None else low
  high = float(curve.x[-1]) if high is None else high
  if high <= low:
    return curve.at(low)
  x = np.unique(np.concatenate([[low, high], curve.x[(curve.x > low) & (curve.x < high)]]))
  y = np.interp(x, curve.x, curve.y)
  return float(np.sum(np.diff(x) * (y[1:] + y[:-1]) / 2) / (high - low))


def is_success_rate(name: str) -> bool:
  """Tells a curve of success rates, which rise with the budget, from one of accuracies, by its name in a summary.

  >>> is_success_rate("budget, success rate: linf-mim"), is_success_rate("budget: linf-mim")
  (True, False)
  """
  return "success rate" in name


def crossings(first: Curve, second: Curve) -> list[float]:
  """Returns the x at which two curves cross: before it one is higher, after it the other. Touching is not crossing.

  >>> crossings(Curve([0, 2], [1.0, 0.0]), Curve([0, 2], [0.75, 0.25])), crossings(Curve([0], [1]), Curve([0], [0]))
  ([1.0], [])
  """
  low, high = max(first.x[0], second.x[0]), min(first.x[-1], second.x[-1])
  x = np.unique(np.concatenate([first.x, second.x]))
  x = x[(x >= low) & (x <= high)]
  gap = np.interp(x, first.x, first.y) - np.interp(x, second.x, second.y)
  known = np.flatnonzero(np.abs(gap) > 1e-12)
  found = []
  for before, after in itertools.pairwise(known):
    if gap[before] * gap[after] < 0:
      # Where they are equal for a while, they cross where they first meet.
      weight = gap[before] / (gap[before] - gap[before + 1])
      found.append(float(x[before] + weight * (x[before + 1] - x[before])))
  return found


def _rows(values: np.ndarray, correct: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
  values, correct = np.asarray(values), np.asarray(correct, bool)
  if values.ndim != 1 or values.shape != correct.shape or values.size == 0:
    raise InputError(f"a curve needs one value per example, got {values.shape} for {correct.shape}")
  return values, correct
