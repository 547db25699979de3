"""A pool: the slots of one attack, the items in them, and what waits.

The host side of `slots`. A pool has one group of slots or more; a turn of a group reads which of its slots fell idle,
exchanges their items for waiting ones and makes one dispatch. It reads only what it dispatched in an earlier turn, so
with two groups the devices work on one while the host sees to the other, and no slot idles for it. The order of work
depends on outcomes only, never on time.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from jaxrobust.attacks.schedule import Stage
from jaxrobust.engine.device import Device
from jaxrobust.engine.options import tail_size
from jaxrobust.engine.program import Program, Slots, empty_slots
from jaxrobust.engine.slots import ACTIVE, FOUND

# Below this many slots a smaller program saves less than it costs to compile.
SMALLEST_SHRUNK = 8

# Rows exchanged at once: an eighth of a device's slots, and not fewer than this, or as many as the outbox holds.
SMALLEST_EXCHANGE = 8

# Judging a candidate costs a forward pass (f), and saves the gradient step (g, about 3 f) and the verification of those
# that succeed: worth it where more than f / (f + g) of them do.
PEEK_ABOVE = 0.3
# Trials after which the observed rate is forgotten by half.
_MEMORY = 256


@dataclass
class SuccessRate:
  """The share of candidates that were successes; the recent past counts most.

  >>> rate = SuccessRate()
  >>> rate.add(trials=10, successes=5)
  >>> rate.peek
  True
  """

  trials: float = 0.0
  successes: float = 0.0

  @property
  def peek(self) -> bool:
    return self.successes > PEEK_ABOVE * self.trials

  def add(self, trials: int, successes: int) -> None:
    self.trials += trials
    self.successes += successes
    if self.trials > _MEMORY:
      self.trials /= 2
      self.successes /= 2


@dataclass
class SlotGroup:
  """Some slots of a pool.

  Attributes:
    slots: on the devices; None before the first item.
    rows: the example in each slot, as a row of the table; -1 for none. fresh: where it had not moved before the last
      dispatch, or came after it.
    flags: of the last dispatch, not read yet.
    judgment: of the last dispatch, if that was a peek.
    active: slots with something in them.
  """

  slots: Slots | None = None
  rows: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
  fresh: np.ndarray = field(default_factory=lambda: np.zeros(0, bool))
  flags: Any = None
  judgment: Any = None
  active: int = 0

  def fill(self, slots: Slots, rows: np.ndarray, fresh: np.ndarray | None = None) -> None:
    """Takes over slots that hold the items of these examples."""
    self.slots, self.rows = slots, rows
    self.fresh = np.zeros(len(rows), bool) if fresh is None else fresh
    self.active = int((rows >= 0).sum())
    self.flags = self.judgment = None


class Pool:
  """The slots of one attack program."""

  def __init__(
    self,
    program: Program,
    arrays: tuple[Any, ...],
    stages: tuple[Stage, ...],
    sizes: tuple[int, ...],
    groups: int,
    image_shape: tuple[int, ...],
    may_peek: bool,
  ):
    self.program, self.arrays, self.stages, self.sizes = program, arrays, stages, sizes
    self.image_shape = image_shape
    self.stage_keys = [(stage.number, stage.restart) for stage in stages]
    self.queue: deque[int] = deque()
    self.groups = [SlotGroup() for _ in range(groups)]
    self.turns = 0
    self.rate = SuccessRate()
    self._can_peek = program.can_peek and may_peek

  @property
  def devices(self) -> int:
    return self.program.mesh.size

  @property
  def active(self) -> int:
    """Items in slots."""
    return sum(group.active for group in self.groups)

  @property
  def load(self) -> int:
    """Items in slots and waiting."""
    return self.active + len(self.queue)

  @property
  def peeking(self) -> bool:
    """Tells whether candidates are judged before they are stepped from, by what has succeeded lately."""
    return self._can_peek and self.rate.peek

  @property
  def full(self) -> bool:
    """Tells whether a dispatch would leave no slot empty; a peek empties slots before the step that follows it."""
    size = sum(len(group.rows) or self.sizes[0] for group in self.groups)
    return self.load >= size * (2 if self.peeking else 1)

  def next_group(self) -> SlotGroup:
    """Returns the group whose turn it is; one with nothing to do is passed over."""
    for _ in self.groups:
      group = self.groups[self.turns % len(self.groups)]
      self.turns += 1
      if group.active or self.queue:
        return group
    return self.groups[0]

  def idle_slots(self, group: SlotGroup, device: Device) -> tuple[np.ndarray, np.ndarray]:
    """Reads the flags of a group's last dispatch; returns the slots that fell idle and which of them succeeded."""
    if group.flags is None:
      return np.zeros(0, int), np.zeros(0, bool)
    flags = device.read(group.flags)
    peeked, group.flags = group.judgment is not None, None
    idle = np.flatnonzero((flags != ACTIVE) & (group.rows >= 0))
    found = flags[idle] == FOUND
    if peeked:
      self.rate.add(group.active, int(found.sum()))
    else:
      if not self.peeking:  # A success at the first point that an item evaluates comes from no move.
        moved = (group.rows >= 0) & (~group.fresh | (self.program.steps > 1))
        self.rate.add(int(moved.sum()), int((found & moved[idle]).sum()))
      group.fresh[:] = False
    return idle, found

  def fit(self, group: SlotGroup, device: Device, draining: bool) -> None:
    """Makes the slots of a group, or fewer of them for the tail of a run."""
    if group.slots is None:
      size = self._fitting(self.load, self.sizes[0]) if draining else self.sizes[0]
      group.fill(empty_slots(self.program, self.arrays, size, self.image_shape), np.full(size, -1))
    elif draining:
      # Slots stay on their device, so that the fullest one counts.
      fullest = int((group.rows >= 0).reshape(self.devices, -1).sum(1).max())
      rows = max(group.active + len(self.queue), fullest * self.devices, SMALLEST_SHRUNK)
      wanted = self._fitting(rows, len(group.rows))
      if wanted < len(group.rows):
        self._shrink(group, device, wanted)

  def _fitting(self, rows: int, now: int) -> int:
    return tail_size(self.sizes, rows, now, self.devices, self.program.attack.num_steps)

  def _shrink(self, group: SlotGroup, device: Device, size: int) -> None:
    """Moves the live slots into `size` slots, each within its device."""
    old = len(group.rows) // self.devices
    # Those in use first, each device's own.
    order = np.argsort((group.rows < 0).reshape(self.devices, old), axis=1, kind="stable")[:, : size // self.devices]
    kept = (order + np.arange(self.devices)[:, None] * old).reshape(-1)
    places = np.where(group.rows[kept] >= 0, order.reshape(-1), old).astype(np.int32)
    slots = device.compact(self.program, self.arrays, group.slots, device.put(places))
    group.fill(slots, group.rows[kept], group.fresh[kept] & (group.rows[kept] >= 0))

  def slots_to_exchange(self, group: SlotGroup, leaving: np.ndarray) -> list[np.ndarray]:
    """Returns, for each device, the slots that are emptied or filled: idle ones, and free ones if there is work."""
    local = len(group.rows) // self.devices
    wanted = len(self.queue) - len(leaving)
    free = np.flatnonzero(group.rows < 0) if wanted > 0 else np.zeros(0, int)
    # One of each device in turn: the last waiting items spread over all of them.
    free = free[np.argsort(free % local, kind="stable")][:wanted] if len(free) else free
    slots = np.concatenate([leaving, free]).astype(np.int64)
    return [slots[slots // local == device] for device in range(self.devices)]


def exchange_widths(local: int, outbox: int) -> tuple[int, ...]:
  """Returns the numbers of rows per device that an exchange may have, smallest first.

  >>> exchange_widths(128, 64), exchange_widths(16, 16), exchange_widths(2, 2)
  ((16, 64), (8, 16), (2,))
  """
  narrow = min(max(local // 8, min(local, SMALLEST_EXCHANGE)), outbox)
  return tuple(sorted({narrow, min(local, outbox)}))
