"""Which work follows which: cascades over survivors, restarts, targets.

A schedule is a rule from the outcome of one work item to the next item of the same example. The scheduler
mixes items of all examples and stages freely; the rule alone decides what an example goes through.
"""

from __future__ import annotations

import functools
import itertools
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol, cast

import numpy as np

from jaxrobust.attacks.losses import LOSSES
from jaxrobust.attacks.registry import attack_id, attack_name
from jaxrobust.core.contract import contract_of, same_threat
from jaxrobust.core.errors import InputError
from jaxrobust.core.types import Attack
from jaxrobust.core.validation import check_count

# Each restart is a stage of its own.
MOST_RESTARTS = 10_000


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
  """The end of an item, after verification.

  Attributes:
    success: a verified adversarial image within the item's budget.
    distance: its norm; infinity without success.
    margin: of the goal at the last point evaluated, positive on success; NaN where none was.
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

  def __post_init__(self) -> None:
    contract_of(self.attack)

  @property
  def needs_pool(self) -> bool:
    """Tells whether the attack wants other images than the one it attacks."""
    contract = contract_of(self.attack)
    return contract.needs_start or contract.needs_others > 0

  @property
  def number(self) -> int:
    """Returns a number for keys that names the attack, not its place: the same attack draws the same noise
    whether it runs alone or inside a cascade."""
    return zlib.crc32(f"{attack_id(self.attack)}/{self.rank}".encode()) & 0x3FFFFFFF


def needs_pool(schedule: Schedule) -> bool:
  """Tells whether any attack of a schedule wants other images than the one it attacks."""
  return any(stage.needs_pool for stage in schedule.stages)


class Example(NamedTuple):
  """An example as a rule may know it: the clean pass, and what is wanted.

  Attributes:
    position: its place in the source.
    target: the wanted class, or -1.
    eps: the budget of the run.
    ranking: the wrong classes, most likely first.
    margin: of the goal at the clean image.
    certified: a distance within which it is proved that there is no adversarial image; 0 where nothing is.
  """

  position: int
  target: int
  eps: float
  ranking: np.ndarray
  margin: float
  certified: float = 0.0


class Schedule(Protocol):
  """Rules are values: hashable, without mutable state.

  Attributes:
    stages: the attacks that it may run.
    minimal: whether the closest success counts, instead of the first.
    max_items: how often a stage may run on an example.
    name: for ids and tables; None where the attack's own will do.
    stops: numbers of steps after which candidates are judged, in rising order: items then take all their steps,
      whatever they find, for other classifiers than the attacked. Without any, budget attacks end at a success.
  """

  @property
  def stages(self) -> tuple[Stage, ...]: ...

  @property
  def minimal(self) -> bool: ...

  @property
  def max_items(self) -> int: ...

  @property
  def name(self) -> str | None: ...

  @property
  def stops(self) -> tuple[int, ...]: ...

  def first(self, example: Example) -> Item | None: ...

  def follow(self, example: Example, item: Item, outcome: Outcome) -> Item | None: ...


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
    >>> cascade
    Cascade(linf: pgd × 3)
  """

  stages: tuple[Stage, ...]
  name: str | None = None
  adaptive: bool = False
  max_items = 1
  stops = ()

  def __post_init__(self) -> None:
    if not self.stages:
      raise InputError("a cascade needs at least one stage")
    first, *others = [stage.attack.threat for stage in self.stages]
    other = next((threat for threat in others if not same_threat(first, threat)), None)
    if other is not None:
      names = sorted({first.name, other.name})
      got = ", ".join(names) if len(names) > 1 else f"two {first.name} that measure differently"
      raise InputError(f"the stages of a cascade must share one threat, got {got}")

  def __repr__(self) -> str:
    """Returns one line: the attacks in their order, and how often each."""
    runs = itertools.groupby(attack_name(stage.attack) for stage in self.stages)
    counts = ((name, len(list(run))) for name, run in runs)
    stages = ", ".join(name if count == 1 else f"{name} × {count}" for name, count in counts)
    return f"{type(self).__name__}({self.name + ', ' if self.name else ''}{self.norm}: {stages})"

  @classmethod
  def restarts(cls, attack: Attack, count: int) -> Cascade:
    """Returns the same attack `count` times with different keys."""
    check_count(count, "restarts", MOST_RESTARTS)
    return cls(tuple(Stage(attack, restart=restart) for restart in range(count)))

  @property
  def norm(self) -> str:
    return self.stages[0].attack.threat.name

  def ordered(self, order: Sequence[int]) -> Cascade:
    """Returns the same stages in another order; within a budget that changes what is spent, and no flag."""
    if sorted(order) != list(range(len(self.stages))):
      raise InputError(f"an order of {len(self.stages)} stages names each of 0 to {len(self.stages) - 1} once")
    return replace(self, stages=tuple(self.stages[index] for index in order))

  @property
  def minimal(self) -> bool:
    return self._minimal

  @functools.cached_property
  def _minimal(self) -> bool:
    return all(stage.attack.minimal for stage in self.stages)

  def adapted(self, num_classes: int) -> Cascade:
    """Returns this cascade with margins in place of DLR losses that need more classes, where it may be adapted."""
    if not self.adaptive:
      return self
    stages = tuple(replace(stage, attack=_defined(stage.attack, num_classes)) for stage in self.stages)
    return self if stages == self.stages else replace(self, stages=stages)

  def first(self, example: Example) -> Item | None:
    return self.item(example, 0)

  def follow(self, example: Example, item: Item, outcome: Outcome) -> Item | None:
    if outcome.success and not self.minimal:
      return None
    return self.item(example, item.stage + 1)

  def item(self, example: Example, stage: int) -> Item | None:
    """Returns the item of `stage`, or of the first later one whose rank the classifier has a class for."""
    for index in range(stage, len(self.stages)):
      rank = self.stages[index].rank
      if rank is None:
        return Item(index, example.target, example.eps)
      if rank <= len(example.ranking):
        return Item(index, int(example.ranking[rank - 1]), example.eps)
    return None


def _defined(attack: Attack, num_classes: int) -> Attack:
  """Returns the attack, or the same on a margin loss that is defined for so few classes."""
  loss = loss_name(attack)
  if loss is None or num_classes >= LOSSES[loss].min_classes:
    return attack
  substitute = {"dlr": "margin", "dlr-t": "mm"}[loss]
  return replace(attack, loss=substitute)  # type: ignore[type-var]


@dataclass(frozen=True)
class CleanPass:
  """No attack at all: every example ends with the clean pass."""

  stages: tuple[Stage, ...] = ()
  minimal: bool = False
  max_items = 1
  name = None
  stops = ()

  def first(self, example: Example) -> Item | None:
    return None

  def follow(self, example: Example, item: Item, outcome: Outcome) -> Item | None:
    return None


def rank_wrong_classes(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
  """Returns for each row all classes but its label, most likely first (ties: lower index first).

  >>> rank_wrong_classes(np.array([[0.1, 3.0, 2.0]]), np.array([1])).tolist()
  [[2, 0]]
  """
  order = np.argsort(-logits, axis=1, kind="stable").astype(np.int32)
  return order[order != np.asarray(labels)[:, None]].reshape(len(logits), -1)


def loss_name(attack: Attack) -> str | None:
  """Returns the name of the loss that an attack climbs, where it has one by name."""
  loss = getattr(attack, "loss", None)
  return loss if isinstance(loss, str) else None


def is_schedule(attack: object) -> bool:
  """Tells a schedule from a single attack."""
  return hasattr(attack, "stages") and hasattr(attack, "follow")


def as_schedule(attack: Attack | Schedule, restarts: int = 1) -> Schedule:
  """Returns a single attack as a cascade of its restarts; schedules pass through."""
  if not is_schedule(attack):
    return Cascade.restarts(cast(Attack, attack), restarts)
  if restarts != 1:
    raise InputError("a cascade sets its own restarts; pass restarts only with a single attack")
  return cast(Schedule, attack)
