"""What a schedule around a cascade has of the cascade: its stages, its threat, its order."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

from jaxrobust.attacks.schedule import Cascade, Example, Item, Outcome, Stage


class CascadeRule:
  """Base of schedules that run the attacks of a `cascade` under a rule of their own, in frozen dataclasses.

  As it stands an example goes through the cascade as it would without a rule.
  """

  cascade: Any  # A Cascade: a field, or a property made of other fields.
  max_items: Any = 1
  minimal = False
  stops = ()

  @property
  def stages(self) -> tuple[Stage, ...]:
    return self.cascade.stages

  @property
  def norm(self) -> str:
    return self.cascade.norm

  def adapted(self, num_classes: int) -> Self:
    """Returns the same rule of cascades that are defined for so few classes."""
    fitted = {name: value.adapted(num_classes) for name, value in vars(self).items() if isinstance(value, Cascade)}
    return replace(self, **fitted)  # type: ignore[type-var]

  def first(self, example: Example) -> Item | None:
    return self.cascade.first(example)

  def follow(self, example: Example, item: Item, outcome: Outcome) -> Item | None:
    return self.cascade.follow(example, item, outcome)
