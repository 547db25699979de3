"""Says which factors of a supernet's subnets go with accuracy and robustness (RobustART, arXiv:2109.05211, figure 4).

Two readings of a factor: among subnets drawn at random, where all factors vary, and among those in which it alone does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from jaxrobust.analysis.bootstrap import DRAWS
from jaxrobust.analysis.correlations import pearson, pearson_interval
from jaxrobust.nas.supernets.study import StudyRow

TARGETS = ("clean", "robust")


class FactorEffect(NamedTuple):
  """The correlation of a factor with an accuracy.

  Attributes:
    group: "random", or the factor that alone was varied.
    factor: as `space.describe` names it.
    target: `clean` or `robust`.
    r: Pearson's; NaN where the factor does not vary, and with fewer than 3 subnets: two always lie on a line.
    r_low, r_high: its 95 % interval over subnets; NaN with fewer than 8.
    subnets: different ones in the group.
  """

  group: str
  factor: str
  target: str
  r: float
  r_low: float
  r_high: float
  subnets: int


def factor_effects(rows: Sequence[StudyRow], draws: int = DRAWS) -> list[FactorEffect]:
  """Correlates factors with accuracies: every factor among random subnets, else the one that varies.

  A subnet that was drawn twice counts once: of a factor with two values there are two, however many were drawn, and
  two correlate with nothing.

  >>> rows = [StudyRow("random", {"size": s, "depth": d}, 0.1 * d, 0.1) for s, d in ((8, 1), (12, 2), (8, 3))]
  >>> [(effect.factor, effect.target, round(effect.r, 2)) for effect in factor_effects(rows)][2:]
  [('depth', 'clean', 1.0), ('depth', 'robust', nan)]
  """
  found = []
  for group in dict.fromkeys(row.group for row in rows):
    mine = distinct([row for row in rows if row.group == group])
    for factor in mine[0].factors:
      if group != "random" and factor.split()[-1] != group:
        continue
      x = np.array([row.factors[factor] for row in mine])
      for target in TARGETS:
        y = np.array([getattr(row, target) for row in mine])
        ends = pearson_interval(x, y, draws)
        found.append(FactorEffect(group, factor, target, correlate(x, y), ends.low, ends.high, len(mine)))
  return found


def correlate(x: np.ndarray, y: np.ndarray) -> float:
  """Returns Pearson's r; NaN of fewer than three points.

  >>> correlate(np.arange(3.0), np.arange(3.0)), correlate(np.arange(2.0), np.arange(2.0))
  (1.0, nan)
  """
  return pearson(x, y) if len(x) > 2 else float("nan")


def distinct(rows: Sequence[StudyRow]) -> list[StudyRow]:
  """Returns rows without those of subnets that were drawn before."""
  return list({repr(row): row for row in rows}.values())
