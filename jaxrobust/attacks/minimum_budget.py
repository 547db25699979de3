"""Minimum-budget search: the smallest eps at which a budget attack succeeds, for each example.

The robustness curves of ARES (Dong et al. 2020, arXiv:1912.11852) need it: one search per example serves every eps.
There, all examples go through 5 doublings and 10 bisections of full attacks. Here each example searches on its own,
  * from the margin that the last attack left, by the secant rule, where it is known, and by doubling and bisection
    where not; a success replaces the upper bound by the distance it really needed;
  * until upper and lower bound agree to `tolerance`, or after `max_items` attacks;
and items of all examples and budgets share the slots, so a success ends an item at once.

Norms and losses: the attack's own. The answer is the distance of the closest verified success (infinity without one),
so the search is a minimal attack. Budget attacks are not quite monotone in eps: as in ARES, a failure is believed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from jaxrobust.attacks.schedule import Case, Item, Outcome, Stage
from jaxrobust.core.errors import InputError
from jaxrobust.core.types import Attack

# A first guess that needs no tuning: between these the search grows or shrinks it as needed.
START = {"linf": 4 / 255, "l2": 0.5, "l1": 5.0}


@dataclass(frozen=True)
class MinimumBudget:
  """The search as a schedule; use it wherever an attack is taken.

  Attributes:
    attack: the budget attack.
    start: the first budget to try; 0 for the norm's default.
    tolerance: relative distance of the bounds at which the search ends.
    max_items: attacks per example at the most.
    largest: the largest budget to try, relative to `start`.

  Example:
    >>> from jaxrobust.attacks.registry import make_attack
    >>> MinimumBudget(make_attack("bim", num_steps=20)).minimal
    True
  """

  attack: Attack
  start: float = 0.0
  tolerance: float = 0.01
  max_items: int = 15
  largest: float = 64.0
  name: str = "minimum-budget"

  def __post_init__(self) -> None:
    if getattr(self.attack, "minimal", False):
      raise InputError("this attack finds minimal distances by itself; search only with budget attacks")
    if self.start < 0 or not 0 < self.tolerance < 1 or self.max_items < 1:
      raise InputError("a search needs start >= 0, a tolerance in (0, 1) and at least one item")

  @property
  def norm(self) -> str:
    return getattr(self.attack, "norm", "linf")

  @property
  def stages(self) -> tuple[Stage, ...]:
    return (Stage(self.attack),)

  @property
  def minimal(self) -> bool:
    return True

  @property
  def _first(self) -> float:
    return self.start or START[self.norm]

  def first(self, case: Case) -> Item | None:
    return Item(0, case.target, self._first, Bracket(0.0, case.margin, 0.0, case.margin, math.inf, 0.0, 1.0))

  def follow(self, case: Case, item: Item, outcome: Outcome) -> Item | None:
    bracket = Bracket(*item.memo)
    if outcome.success:
      high = min(outcome.distance, item.eps)
      bracket = bracket._replace(high=high, run=max(bracket.run, 0.0) + 1)
    else:
      run = min(bracket.run, 0.0) - 1
      bracket = bracket._replace(
        before=bracket.low, before_margin=bracket.margin, low=item.eps, margin=outcome.margin, run=run
      )
    unbounded = math.isinf(bracket.high)
    narrow = not unbounded and bracket.high - bracket.low <= self.tolerance * bracket.high
    if narrow or bracket.used >= self.max_items or bracket.low >= self.largest * self._first:
      return None
    eps = self._grow(bracket) if unbounded else self._between(bracket)
    return Item(0, case.target, eps, bracket._replace(used=bracket.used + 1))

  def _grow(self, bracket: Bracket) -> float:
    """Above a failure: a little beyond where the margin should reach zero, at most four times farther."""
    root = bracket.root()
    return bracket.low * min(max(1.1 * root / bracket.low, 1.3), 4.0) if math.isfinite(root) else 2.0 * bracket.low

  def _between(self, bracket: Bracket) -> float:
    """Between a failure and a success: where the margin should reach zero, or the middle if that misleads."""
    low, high = bracket.low, bracket.high
    root = bracket.root()
    if not math.isfinite(root) or abs(bracket.run) > 2:
      return 0.5 * (low + high)
    # After a success aim below the root, after a failure above it: the next outcome then closes the other side.
    aim = root * (1 - 0.4 * self.tolerance) if bracket.run > 0 else root * (1 + 0.4 * self.tolerance)
    edge = min(0.5 * (high - low), 0.9 * self.tolerance * high)
    return min(max(aim, low + edge), high - edge)


class Bracket(NamedTuple):
  """What the attacks so far say of an example's minimum budget.

  Attributes:
    before, before_margin: the failure before the last one; at first the clean image itself.
    low, margin: the largest budget that failed, and the margin left there (NaN where unknown).
    high: the smallest distance that succeeded.
    run: how often the last outcome has repeated, negative for failures.
    used: attacks so far.
  """

  before: float
  before_margin: float
  low: float
  margin: float
  high: float
  run: float
  used: float

  def root(self) -> float:
    """Where the line through the last two failures reaches a margin of zero; NaN where it does not."""
    gained = self.margin - self.before_margin
    if not gained > 0 or not self.low > self.before:
      return math.nan
    return self.low - self.margin * (self.low - self.before) / gained
