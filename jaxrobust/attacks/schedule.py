"""Which work follows which: cascades over survivors, restarts, targets.

A schedule is a rule from the outcome of one work item to the next item of the same example. The scheduler
mixes items of all examples and stages freely; the rule alone decides what an example goes through.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol, cast

import numpy as np

from jaxrobust.attacks.losses import LOSSES
from jaxrobust.attacks.registry import attack_id
from jaxrobust.core.errors import InputError
from jaxrobust.core.types import Attack


class Item(NamedTuple):
  """One attack on one example.

  Attributes:
    stage: index into the schedule's stages.
    target: the class to steer to, or -1.
    eps: the budget of this item.
    memo: numbers the rule carries along (a bisection's bounds); plain floats, so they can be saved.
  """

  stage: int
  target: int
  eps: float
  memo: tuple[float, ...] = ()


class Outcome(NamedTuple):
  """How an item ended, after verification.

  Attributes:
    success: a verified adversarial image within the item's budget.
    distance: its norm; infinity without success.
    margin: of the goal at the last point looked at, positive on success; NaN where nobody looked.
    steps: that the attack took.
  """

  success: bool
  distance: float
  margin: float = float("nan")
  steps: int = 0


@dataclass(frozen=True)
class Stage:
  """An attack as part of a schedule.

  Attributes:
    attack: the attack value.
    rank: steer to the wrong class of this rank by clean logits (1 = most likely), or None.
    restart: number of this random restart; it only changes the key.
  """

  attack: Attack
  rank: int | None = None
  restart: int = 0

  @property
  def number(self) -> int:
    """A number for keys that names the attack, not its place: the same attack draws the same noise
    whether it runs alone or inside a cascade."""
    return zlib.crc32(f"{attack_id(self.attack)}/{self.rank}".encode()) & 0x3FFFFFFF


@dataclass
class Case:
  """An example on its way through the schedule: what the clean pass said, and the best success so far.

  `logits` are the last that the classifier itself gave: of the best success, of the point an attack without one
  ended at where that was judged, otherwise of the clean image.
  """

  position: int
  id: int
  image: np.ndarray
  label: int
  target: int
  eps: float
  correct: bool
  ranking: np.ndarray
  margin: float = float("nan")
  softmax: bool = False
  success: bool = False
  distance: float = float("inf")
  best: np.ndarray | None = None
  stage: int = -1
  queries: int = 0
  steps: int = 0
  nan: int = 0
  flat: int = 0
  disagreements: int = 0
  clean_prediction: int = -1
  broken_at: int = -1
  logits: np.ndarray | None = None


class Schedule(Protocol):
  """Rules are values: hashable, without mutable state."""

  @property
  def stages(self) -> tuple[Stage, ...]: ...

  @property
  def minimal(self) -> bool:
    """Whether distances, not flags, are the answer."""
    ...

  def first(self, case: Case) -> Item | None: ...

  def follow(self, case: Case, item: Item, outcome: Outcome) -> Item | None: ...


@dataclass(frozen=True)
class Cascade:
  """Stages in order. Budget attacks stop at the first success; minimal ones go on and keep the closest.

  Attributes:
    stages: what an example goes through.
    name: for ids and tables; by default that of the first stage's attack.
    adaptive: whether losses that the classifier has too few classes for may be replaced (see `adapted`).

  Example:
    >>> from jaxrobust.attacks.registry import make_attack
    >>> cascade = Cascade.restarts(make_attack("pgd", num_steps=5), 3)
    >>> [stage.restart for stage in cascade.stages]
    [0, 1, 2]
  """

  stages: tuple[Stage, ...]
  name: str | None = None
  adaptive: bool = False

  def __post_init__(self) -> None:
    if not self.stages:
      raise InputError("a cascade needs at least one stage")
    if len({getattr(stage.attack, "norm", "linf") for stage in self.stages}) > 1:
      raise InputError("the stages of a cascade must share one norm")

  @classmethod
  def restarts(cls, attack: Attack, count: int) -> Cascade:
    """The same attack `count` times with different keys."""
    if count < 1:
      raise InputError(f"restarts must be at least 1, got {count}")
    return cls(tuple(Stage(attack, restart=restart) for restart in range(count)))

  @property
  def norm(self) -> str:
    return getattr(self.stages[0].attack, "norm", "linf")

  @property
  def minimal(self) -> bool:
    return all(getattr(stage.attack, "minimal", False) for stage in self.stages)

  def adapted(self, num_classes: int) -> Cascade:
    """This cascade with margins in place of DLR losses that need more classes, where it may be adapted."""
    if not self.adaptive:
      return self
    stages = tuple(replace(stage, attack=_defined(stage.attack, num_classes)) for stage in self.stages)
    return self if stages == self.stages else replace(self, stages=stages)

  def first(self, case: Case) -> Item | None:
    return self._item(case, 0)

  def follow(self, case: Case, item: Item, outcome: Outcome) -> Item | None:
    if outcome.success and not self.minimal:
      return None
    return self._item(case, item.stage + 1)

  def _item(self, case: Case, stage: int) -> Item | None:
    """The item of `stage`, or of the first later one whose rank the classifier has a class for."""
    for index in range(stage, len(self.stages)):
      rank = self.stages[index].rank
      if rank is None:
        return Item(index, case.target, case.eps)
      if rank <= len(case.ranking):
        return Item(index, int(case.ranking[rank - 1]), case.eps)
    return None


def _defined(attack: Attack, num_classes: int) -> Attack:
  """The attack, or the same on a margin loss that is defined for so few classes."""
  loss = getattr(attack, "loss", None)
  if not isinstance(loss, str) or num_classes >= LOSSES[loss].min_classes:
    return attack
  substitute = {"dlr": "margin", "dlr-t": "mm"}[loss]
  return replace(attack, loss=substitute)  # type: ignore[type-var]


@dataclass(frozen=True)
class CleanPass:
  """No attack at all: every example ends with the clean pass."""

  stages: tuple[Stage, ...] = ()
  minimal: bool = False

  def first(self, case: Case) -> Item | None:
    return None

  def follow(self, case: Case, item: Item, outcome: Outcome) -> Item | None:
    return None


def rank_wrong_classes(logits: np.ndarray, label: int) -> np.ndarray:
  """All classes but the label, most likely first (ties: lower index first).

  >>> rank_wrong_classes(np.array([0.1, 3.0, 2.0]), 1).tolist()
  [2, 0]
  """
  order = np.argsort(-logits, kind="stable").astype(np.int32)
  return order[order != label]


def as_schedule(attack: Attack | Schedule, restarts: int = 1) -> Schedule:
  """A single attack as a cascade of its restarts; schedules pass through."""
  if not hasattr(attack, "stages"):
    return Cascade.restarts(attack, restarts)
  if restarts != 1:
    raise InputError("a cascade sets its own restarts; pass restarts only with a single attack")
  return cast(Schedule, attack)
