"""The smallest budget at which any attack of a cascade succeeds, by bisection for each example.

ARES-Bench (Liu et al. 2023, arXiv:2302.14301, section 3.1.2) draws AutoAttack's robustness curves so: a binary search
per example, and the share of examples whose minimum lies below each eps. At each eps an example goes through the
stages of the cascade until one succeeds; the bounds then close in from both sides. Doubling from `start` finds the
first bracket.

Norms and losses: the cascade's own. The answer is the distance of the closest verified success, infinity without one.
The paper gives neither the first budget nor the precision: 1/255 (l2 0.125) and 5 % of the budget are this project's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from jaxrobust.attacks.cascade_rule import CascadeRule
from jaxrobust.attacks.schedule import Cascade, Example, Item, Outcome
from jaxrobust.core.errors import InputError

START = {"linf": 1 / 255, "l2": 0.125, "l1": 1.0}


class Bounds(NamedTuple):
  """Bounds of an example's minimum budget: all attacks failed at `low`, one succeeded at `high`."""

  low: float
  high: float
  used: float


@dataclass(frozen=True)
class CascadeBudget(CascadeRule):
  """The search as a schedule; use it wherever a cascade is taken.

  Attributes:
    cascade: of attacks within a budget.
    start: the first budget to try; 0 for the norm's default.
    tolerance: relative distance of the bounds at which the search ends.
    max_items: budgets per example at the most.
    largest: the largest budget to try, relative to `start`.

  Example:
    >>> from jaxrobust.attacks.autoattack import autoattack
    >>> CascadeBudget(autoattack()).title
    'linf-autoattack-minimum-budget'
  """

  cascade: Cascade
  start: float = 0.0
  tolerance: float = 0.05
  max_items: int = 12
  largest: float = 64.0
  name: str = "minimum-budget"
  minimal = True

  def __post_init__(self) -> None:
    if self.cascade.minimal:
      raise InputError("this cascade finds minimal distances by itself; search only with attacks within a budget")
    if self.start < 0 or not 0 < self.tolerance < 1 or self.max_items < 1:
      raise InputError("a search needs start >= 0, a tolerance in (0, 1) and at least one budget")

  @property
  def title(self) -> str:
    """Names it in cells."""
    return f"{self.norm}-{self.cascade.name or 'cascade'}-{self.name}"

  def first(self, example: Example) -> Item | None:
    return self._at(example, 0, self.start or START[self.norm], Bounds(0.0, math.inf, 1.0))

  def follow(self, example: Example, item: Item, outcome: Outcome) -> Item | None:
    bounds = Bounds(*item.memo)
    if outcome.success:
      bounds = bounds._replace(high=min(outcome.distance, item.eps, bounds.high))
    else:
      later = self._at(example, item.stage + 1, item.eps, bounds)
      if later is not None:
        return later
      bounds = bounds._replace(low=item.eps)
    narrow = math.isfinite(bounds.high) and bounds.high - bounds.low <= self.tolerance * bounds.high
    beyond = bounds.low >= self.largest * (self.start or START[self.norm])
    if narrow or beyond or bounds.used >= self.max_items:
      return None
    middle = 2 * bounds.low if math.isinf(bounds.high) else 0.5 * (bounds.low + bounds.high)
    return self._at(example, 0, middle, bounds._replace(used=bounds.used + 1))

  def _at(self, example: Example, stage: int, eps: float, bounds: Bounds) -> Item | None:
    """Returns the item of a stage at a budget; None behind the last one."""
    item = self.cascade.item(example, stage)
    return None if item is None else item._replace(eps=eps, memo=bounds)
