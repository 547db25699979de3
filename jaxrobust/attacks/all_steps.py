"""The schedule of images for others: one attack with all its steps, whatever it finds, at each of some budgets."""

from __future__ import annotations

from dataclasses import dataclass

from jaxrobust.attacks.schedule import Example, Item, Outcome, Stage
from jaxrobust.core.contract import contract_of
from jaxrobust.core.errors import InputError


@dataclass(frozen=True)
class AllSteps:
  """One attack with all its steps at each of some budgets: images to be shown to other classifiers.

  Attributes:
    stage: the attack.
    budgets: what is tried, one after the other.
    stops: numbers of steps after which the candidate is shown; the attack's own number by default.
  """

  stage: Stage
  budgets: tuple[float, ...]
  stops: tuple[int, ...] = ()
  minimal = False
  max_items = 1
  name = None

  def __post_init__(self) -> None:
    contract = contract_of(self.stage.attack)
    if contract.minimal or not contract.candidate:
      raise InputError("images for other classifiers need a budget attack that says which point it evaluates next")
    stops = self.stops or (contract.num_steps,)
    if list(stops) != sorted(set(stops)) or not 1 <= stops[0] <= stops[-1] <= contract.num_steps:
      raise InputError(f"stops must rise from 1 to {contract.num_steps} at the most, got {stops}")
    object.__setattr__(self, "stops", tuple(stops))

  @property
  def stages(self) -> tuple[Stage, ...]:
    return (self.stage,)

  def first(self, example: Example) -> Item | None:
    return self._item(example, 0)

  def follow(self, example: Example, item: Item, outcome: Outcome) -> Item | None:
    return self._item(example, int(item.memo[0]) + 1)

  def _item(self, example: Example, number: int) -> Item | None:
    if number >= len(self.budgets):
      return None
    rank = self.stage.rank
    target = example.target if rank is None else int(example.ranking[rank - 1])
    return Item(0, target, self.budgets[number], (float(number),))
