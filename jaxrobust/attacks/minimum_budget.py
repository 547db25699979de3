"""Minimum-budget search: the smallest eps at which a budget attack succeeds, for each example.

The robustness curves of ARES (Dong et al. 2020, arXiv:1912.11852) need it: one search per example serves every eps.
There, all examples go through 5 doublings and 10 bisections of full attacks. Here each example searches on its own,
  * starting with a scout: two steps of the attack, whose margin tells how fast the example gives way;
  * then where a line through the two smallest margins left by failures reaches zero, a little beyond it after a
    failure and a little short of it after a success, so that the next outcome closes the bracket (the margin of a
    success says nothing: the attack stops at the first one; but the fewer steps it took, the farther down it is);
  * until upper and lower bound agree to `tolerance`, or after `max_items` attacks;
and items of all examples and budgets share the slots, so a success ends an item at once.

Norms and losses: the attack's own. The answer is the distance of the closest verified success (infinity without one),
so the search is a minimal attack. Budget attacks are not quite monotone in eps: as in ARES, a failure is believed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import NamedTuple

from jaxrobust.attacks.schedule import Example, Item, Outcome, Stage
from jaxrobust.core.contract import contract_of
from jaxrobust.core.errors import InputError
from jaxrobust.core.types import Attack

# A first guess that needs no tuning: between these the search grows or shrinks it as needed.
START = {"linf": 4 / 255, "l2": 0.5, "l1": 5.0}
# Where to aim, relative to the expected root: after a scout, above failures alone, and between bounds (in tolerances).
SCOUTED, UP, BEYOND = 0.97, 0.01, 0.2
# Successes in a row after which the next attack goes farther down each time, whatever is expected.
PATIENCE = 5
# How far beyond the first budget a scout is believed.
FARTHEST = 16


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
  stops = ()

  def __post_init__(self) -> None:
    if contract_of(self.attack).minimal:
      raise InputError("this attack finds minimal distances by itself; search only with budget attacks")
    if self.start < 0 or not 0 < self.tolerance < 1 or self.max_items < 1:
      raise InputError("a search needs start >= 0, a tolerance in (0, 1) and at least one item")

  @property
  def norm(self) -> str:
    return self.attack.threat.name

  @property
  def stages(self) -> tuple[Stage, ...]:
    scout = _scout(self.attack)
    return (Stage(self.attack),) if scout is None else (Stage(self.attack), Stage(scout))

  @property
  def minimal(self) -> bool:
    return True

  @property
  def _first(self) -> float:
    if not self.start and self.norm not in START:
      raise InputError(f"a search against {self.norm} needs a first budget: set start")
    return self.start or START[self.norm]

  def first(self, example: Example) -> Item | None:
    bracket = Bracket(0.0, math.inf, 0.0, example.margin, math.nan, math.nan, 0.0, 0.0)
    return Item(len(self.stages) - 1, example.target, max(self._first, self._beyond(example)), bracket)

  def _beyond(self, example: Example) -> float:
    """Returns the smallest budget worth trying: what is proved is not attacked."""
    return (1 + self.tolerance / 2) * example.certified

  def follow(self, example: Example, item: Item, outcome: Outcome) -> Item | None:
    bracket = Bracket(*item.memo)
    scouted = item.stage > 0
    if outcome.success:
      slack = _slack(outcome.steps / self.attack.num_steps)
      if scouted:  # Hardly more than one step from the clean image: its margin is on the line.
        slack = 1 - bracket.crossing(outcome.distance, outcome.margin) / outcome.distance
      high = min(outcome.distance, item.eps)
      bracket = bracket._replace(high=high, streak=max(bracket.streak, 0.0) + 1, slack=slack)
    else:
      bracket = bracket.seen(item.eps, outcome.margin)
      if not scouted:  # A scout's failure says nothing of the attack itself.
        bracket = bracket._replace(low=item.eps, streak=min(bracket.streak, 0.0) - 1)
    low = max(bracket.low, example.certified)
    narrow = bracket.bounded and bracket.high - low <= self.tolerance * bracket.high
    if narrow or bracket.used >= self.max_items or bracket.low >= self.largest * self._first:
      return None
    eps = self._between(bracket) if bracket.bounded else self._grow(bracket)
    return Item(0, example.target, max(eps, self._beyond(example)), bracket._replace(used=bracket.used + 1))

  def _grow(self, bracket: Bracket) -> float:
    """Goes beyond where the margin should reach zero, farther each time; at most four times, without a success yet."""
    root = bracket.root()
    if not bracket.low:
      return min(SCOUTED * root, FARTHEST * self._first) if math.isfinite(root) else 2 * self._first
    aim = root * (1 + UP * 3 ** (-bracket.streak - 1)) if math.isfinite(root) else 2 * bracket.low
    return min(max(aim, (1 + self.tolerance) * bracket.low), 4 * bracket.low)

  def _between(self, bracket: Bracket) -> float:
    """Goes between the bounds, so that the next outcome closes them: a little below the expected minimum after a
    success, a little above it after a failure."""
    low, high, root = bracket.low, bracket.high, bracket.root()
    half = 0.5 * (high - low)
    edge = min(0.9 * self.tolerance * high, half)
    if bracket.streak > 0:
      aim = (1 - max(bracket.slack, min(self.tolerance * 2 ** (bracket.streak - PATIENCE), 0.5))) * high
      if low:  # The line is believed once; where it misleads, the middle is as low as it goes.
        aim = max(aim, root if bracket.streak < 2 and math.isfinite(root) else low + half)
      aim *= 1 - BEYOND * self.tolerance
    else:
      aim = root * (1 + BEYOND * self.tolerance) if math.isfinite(root) else low + half
    return min(max(aim, low + edge), high - edge)


def _slack(taken: float) -> float:
  """Returns the part of its budget that a success after this part of the attack's steps is expected above the minimum.

  An attack that needs all its steps is at its limit; one that needs a few has budget to slack. Measured with BIM on
  two networks (CIFAR-10, one of them robust); for other attacks it is a guess, which costs items and not accuracy.
  """
  return min(0.75 * 2 ** (-taken / 0.145), 0.5)


def _scout(attack: Attack) -> Attack | None:
  """Returns two steps that reach the whole budget, where the attack has a number of steps to change."""
  names: list[str] = [item.name for item in fields(attack)] if is_dataclass(attack) else []
  if "num_steps" not in names or attack.num_steps <= 4:
    return None
  steps = {"num_steps": 2} | ({"step_size": 0.5} if "step_size" in names else {})
  return replace(attack, **steps)  # type: ignore[type-var]


class Bracket(NamedTuple):
  """The bounds of an example's minimum budget by the attacks so far.

  Attributes:
    low: the largest budget at which the attack failed.
    high: the smallest distance that succeeded.
    near, near_margin, far, far_margin: the two failures with the smallest margins; at first the clean image alone.
    streak: how often the last outcome has repeated, negative for failures.
    used: attacks so far.
    slack: the part of `high` that it is expected above the minimum.
  """

  low: float
  high: float
  near: float
  near_margin: float
  far: float
  far_margin: float
  streak: float
  used: float
  slack: float = 0.5

  @property
  def bounded(self) -> bool:
    return math.isfinite(self.high)

  def seen(self, eps: float, margin: float) -> Bracket:
    """Takes in the margin at a point."""
    if not math.isfinite(margin):
      return self
    points = [(abs(m), e, m) for e, m in ((self.near, self.near_margin), (self.far, self.far_margin), (eps, margin))]
    near, far = sorted(point for point in points if math.isfinite(point[0]))[:2]
    return self._replace(near=near[1], near_margin=near[2], far=far[1], far_margin=far[2])

  def crossing(self, eps: float, margin: float) -> float:
    """Finds where the line from the clean image to a success has a margin of zero; half way if it says nothing."""
    gained = margin - self.near_margin
    return -eps * self.near_margin / gained if 0 < gained < math.inf else 0.5 * eps

  def root(self) -> float:
    """Returns where the line through the two points reaches a margin of zero; NaN where it does not."""
    gained, apart = self.near_margin - self.far_margin, self.near - self.far
    if not gained * apart > 0:
      return math.nan
    return self.near - self.near_margin * apart / gained
