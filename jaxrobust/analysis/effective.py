"""Effective robustness: what a model keeps under a shift beyond what its ID performance lets one expect.

E(f) = R_ood(f) - β(R_id(f)), with β a line through a zoo (Taori et al. 2020, arXiv:2007.00644; OODRobustBench, eq. 5,
arXiv:2310.12793): effective robustness (ER) where R is accuracy, adversarial effective robustness (AER) where R is
robustness. It depends on the zoo behind β: never compare two that were measured from different lines.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from jaxrobust.analysis.lines import Line, fit_line
from jaxrobust.core.errors import InputError

# Percent of the top. OODRobustBench's Table 2 has no AER where ID robustness is 1.0 % or less, and one at 8.5 %.
LEAST_ID = 5.0

# The lines of OODRobustBench's own zoos (396 and 56 models), which are not published: recovered from the effective
# robustness printed in its Tables 6-10, where 24 and 9 distinct rows fit one line each to ±0.01 points.
PUBLISHED_LINES = {
  ("cifar10-linf", "OOD_d accuracy"): Line(0.9356, -12.259, 0.99, float("nan"), 396),
  ("cifar10-linf", "OOD_d robustness"): Line(0.7134, -5.238, 0.99, float("nan"), 396),
  ("cifar10-linf", "OOD_t robustness"): Line(0.4674, 4.817, float("nan"), float("nan"), 396),
  ("imagenet-linf", "OOD_d accuracy"): Line(1.0204, -36.236, float("nan"), float("nan"), 56),
  ("imagenet-linf", "OOD_d robustness"): Line(0.4853, -5.777, float("nan"), float("nan"), 56),
  ("imagenet-linf", "OOD_t robustness"): Line(0.5573, -3.613, float("nan"), float("nan"), 56),
}


def effective_robustness(
  id_values: np.ndarray, ood_values: np.ndarray, line: Line, least: float = LEAST_ID
) -> np.ndarray:
  """Subtracts from each model's performance under a shift what a line expects of it.

  E = y - β(x) in points, on either scale of the line.

  Args:
    id_values: x, accuracy (for ER) or robustness (for AER) without the shift.
    ood_values: y, the same under the shift.
    line: β.
    least: models below this percent of the top at x get none: at the end of a line everything lies on it.

  Returns:
    Points above the line; NaN where x is below `least` or either number is missing.

  Source: Taori et al. 2020, arXiv:2007.00644; the rule of validity is ours, see `LEAST_ID`.

  >>> beta = PUBLISHED_LINES["cifar10-linf", "OOD_t robustness"]
  >>> effective_robustness([53.84, 49.92, 0.1], [46.20, 34.70, 0.0], beta).round(2).tolist()
  [16.22, 6.55, nan]
  """
  id_values, ood_values = np.asarray(id_values, np.float64), np.asarray(ood_values, np.float64)
  residual = ood_values - line.predict(id_values)
  return np.where(id_values >= least / 100 * line.top, residual, np.nan)


class HeldOut(NamedTuple):
  """A group of models seen from the line through all others.

  Attributes:
    group: its name.
    n: models in it that have both numbers.
    line: through the other groups; None where they are too few or all alike.
    mean_error: mean distance of the group above that line, in points; its effective robustness.
    mean_absolute_error: mean distance from that line.
  """

  group: str
  n: int
  line: Line | None
  mean_error: float
  mean_absolute_error: float


def leave_one_group_out(
  x: np.ndarray, y: np.ndarray, groups: Sequence[str], scale: str = "raw", top: float = 100.0
) -> list[HeldOut]:
  """Predicts each group of models from the line through all the others.

  A trend that holds for techniques it has never seen predicts; one that fails there only describes.

  Args:
    x: ID performance.
    y: performance under the shift.
    groups: the group of each model.
    scale: of the lines.
    top: the largest value of both axes.

  Returns:
    One entry per group, in the order of their names; groups without a model that has both numbers are left out.

  >>> x = np.array([40.0, 45, 50, 55, 60, 48])
  >>> found = leave_one_group_out(x, 0.5 * x + [0, 0, 0, 0, 0, 8], ["at"] * 5 + ["new"])
  >>> [(entry.group, entry.n, round(entry.mean_error, 6)) for entry in found if entry.line]
  [('new', 1, 8.0)]
  """
  x, y, names = np.asarray(x, np.float64), np.asarray(y, np.float64), np.asarray(groups)
  known = np.isfinite(x) & np.isfinite(y)
  found = []
  for group in sorted(set(names[known].tolist())):
    inside = known & (names == group)
    outside = known & ~inside
    line, error = None, np.array([np.nan])
    # Too few others, or all alike on the scale: there is no line.
    with contextlib.suppress(InputError):
      line = fit_line(x[outside], y[outside], scale, top)
      error = y[inside] - line.predict(x[inside])
    found.append(HeldOut(str(group), int(inside.sum()), line, float(error.mean()), float(np.abs(error).mean())))
  return found
