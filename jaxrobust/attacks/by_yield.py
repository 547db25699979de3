"""A cascade whose stages an evaluation puts in the order in which they break the most for the least.

The flags of a cascade within a budget are a union: an example falls if any stage breaks it, and a stage's noise depends
on the attack and the example, never on its place. So the order decides what is spent and nothing else. An evaluation
measures every stage alone on a pilot, the first `pilot` examples, before it attacks the others: see
`jaxrobust.evaluation.yield_job`. Elsewhere the stages run as they are written.

Attacks without gradients stay behind those with them, whatever they yield: what only they break is a sign of masked
gradients, and would be none if they came first.
"""

from __future__ import annotations

from dataclasses import dataclass

from jaxrobust.attacks.cascade_rule import CascadeRule
from jaxrobust.attacks.schedule import Cascade
from jaxrobust.core.errors import InputError
from jaxrobust.core.validation import check_count

MOST_PILOTS = 10_000
# Counts the rules by which stages were put in order: no run is continued in another order than it was begun in.
RULE = 1


@dataclass(frozen=True)
class ByYield(CascadeRule):
  """A cascade, and how many examples decide the order of its stages.

  Example:
    >>> from jaxrobust.attacks.autoattack import autoattack
    >>> ordered = ByYield(autoattack(), pilot=50)
    >>> ordered.norm, len(ordered.stages), ordered.behind[-2:]
    ('linf', 20, (False, True))
  """

  cascade: Cascade
  pilot: int = 50
  name = "by-yield"

  def __post_init__(self) -> None:
    if not isinstance(self.cascade, Cascade):
      raise InputError(f"an order by yield is of a cascade of attacks, not of a {type(self.cascade).__name__}")
    if self.cascade.minimal:
      raise InputError("an order by yield is of attacks within a budget; all minimal ones see all examples")
    check_count(self.pilot, "pilot", MOST_PILOTS)

  @property
  def behind(self) -> tuple[bool, ...]:
    """Tells which stages stay behind the others."""
    return tuple(stage.attack.access != "gradient" for stage in self.stages)
