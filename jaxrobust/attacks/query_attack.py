"""Attacks whose budget is a number of queries: what follows from it for their steps."""

from __future__ import annotations

from typing import ClassVar

from jaxrobust.core.budget import check_norm
from jaxrobust.core.errors import InputError
from jaxrobust.core.threat import by_norm
from jaxrobust.core.types import Cost
from jaxrobust.core.validation import is_number


class QueryAttack:
  """The declarations that these attacks share; a subclass is a dataclass with `norm`, `queries` and `name`.

  Its steps are as many as the budget allows at `cost.forward` queries each. An attack with a candidate keeps one query
  for the evaluation of the last one.

  >>> from jaxrobust.attacks.registry import make_attack
  >>> [make_attack(name, queries=2000).num_steps for name in ("nes", "simba")]
  [9, 2000]
  """

  norm: str
  queries: int
  name: str
  threat = by_norm
  minimal = False
  access = "score"
  _norms: ClassVar[tuple[str, ...]] = ("linf", "l2")
  _at_the_end: ClassVar[int] = 0
  """Queries after the last step: 1 with a candidate."""

  def __post_init__(self) -> None:
    check_norm(self.norm, self._norms)
    if not is_number(self.queries, int) or self.queries < 1:
      raise InputError(f"queries must be an integer of at least 1, got {self.queries!r}")
    if self.num_steps < 1:
      more = " and one more at the end" if self._at_the_end else ""
      raise InputError(
        f"attack {self.name} makes {self.cost.forward} queries a step{more}: queries is {self.queries!r}"
      )

  @property
  def cost(self) -> Cost:
    """Returns the cost of a step: one query, unless a subclass says otherwise."""
    return Cost(forward=1, backward=0)

  @property
  def max_queries(self) -> int:
    return self.queries

  @property
  def num_steps(self) -> int:
    """Returns the steps that the budget allows."""
    return (self.queries - self._at_the_end) // self.cost.forward
