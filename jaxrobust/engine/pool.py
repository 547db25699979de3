"""A pool: the slots of one program, who sits in them, and who waits.

The host side of `slots`: it fills seats from a queue, dispatches `advance`, reads which slots fell idle and
takes their items out. All pools of a run follow the same rules, so the order of work depends on outcomes
only, never on time.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import jax
import numpy as np

from jaxrobust.attacks.schedule import Stage
from jaxrobust.core.classifier import Classifier
from jaxrobust.core.keys import item_key_data
from jaxrobust.core.mesh import place_rows, row_sharding
from jaxrobust.engine.options import tail_size
from jaxrobust.engine.peeking import SuccessRate
from jaxrobust.engine.slots import Program, Slots, advance, compact, empty_slots, peek, swap
from jaxrobust.engine.tickets import Finished, Ticket, finished
from jaxrobust.engine.wire import ENTRY, pack_entries, unpack_books

# Below this many slots a smaller program saves less than it costs to compile.
SMALLEST_SHRUNK = 8

# Rows exchanged at once: a quarter of a device's slots, and not fewer than this.
SMALLEST_SWAP = 8


class Pool:
  """The slots of one attack program."""

  def __init__(
    self,
    program: Program,
    stages: tuple[Stage, ...],
    sizes: tuple[int, ...],
    lookahead: int,
    seed: int,
    image_shape: tuple[int, ...],
    randomised: bool,
  ):
    self.program = program
    self.stages = stages
    self.sizes = sizes
    self.lookahead = lookahead
    self.seed = seed
    self.image_shape = image_shape
    self.queue: deque[Ticket] = deque()
    self.slots: Slots | None = None
    self.seats: list[Ticket | None] = []
    self.useful_steps = 0
    self.slot_steps = 0
    # Flags of dispatches not read yet, and the dispatch that each seat's item was loaded before.
    self._flags: deque[tuple[int, Any]] = deque()
    self._loaded: list[int] = []
    self._dispatch = 0
    # A randomised classifier is judged with keys of its own, which a peek does not have.
    self.peeks = program.peeks and not lookahead and not randomised
    self._rate = SuccessRate()

  @property
  def seated(self) -> int:
    return sum(seat is not None for seat in self.seats)

  @property
  def devices(self) -> int:
    return self.program.mesh.size

  @property
  def load(self) -> int:
    """Items in slots and waiting."""
    return self.seated + len(self.queue)

  @property
  def size(self) -> int:
    return len(self.seats) or self.sizes[0]

  @property
  def peeking(self) -> bool:
    """Whether points are judged before they are stepped from, by what has succeeded lately."""
    return self.peeks and self._rate.worth_a_look

  @property
  def full(self) -> bool:
    """Whether a dispatch would leave no slot empty; a peek empties slots before the step that follows it."""
    return self.load >= self.size * (2 if self.peeking else 1)

  def advance(self, classifier: Classifier, targeted: bool, draining: bool) -> list[Finished]:
    """Fills free seats, makes one dispatch and returns what has finished; `draining` allows fewer slots."""
    self._fit(draining)
    left = self._exchange([row for row, seat in enumerate(self.seats) if seat is None])
    assert self.slots is not None
    peeking = self.peeking
    if peeking:
      looks = self.seated
      self.slots, idle = peek(self.program, classifier, self.slots, targeted)
      hits = self._exchange(self._idle_rows(self._dispatch, idle))
      self._rate.add(looks, len(hits))
      left += hits
    moved = sum(seat is not None and self._loaded[row] < self._dispatch for row, seat in enumerate(self.seats))
    self.slots, idle = advance(self.program, classifier, self.slots, targeted)
    self._flags.append((self._dispatch, idle))
    self._dispatch += 1
    self.slot_steps += self.size * self.program.steps
    while self._flags and (len(self._flags) > self.lookahead or not self.load):
      ended = self._exchange(self._idle_rows(*self._flags.popleft()))
      if not peeking:
        self._rate.add(moved, sum(item.found and item.steps > 1 for item in ended))
      left += ended
    return left

  def _idle_rows(self, dispatch: int, idle: Any) -> list[int]:
    """Seats whose item had finished by `dispatch`; a seat filled after it says nothing yet."""
    flags = np.asarray(idle)
    return [
      row for row, seat in enumerate(self.seats) if seat is not None and flags[row] and self._loaded[row] <= dispatch
    ]

  def _fit(self, draining: bool) -> None:
    """Makes the slots, or fewer of them for the tail of a run."""
    if self.slots is None:
      size = self._fitting(self.load) if draining else self.sizes[0]
      self._seat(empty_slots(self.program, size, self.image_shape), [None] * size)
      return
    if not draining:
      return
    # Slots stay on their device, so that the fullest one counts.
    local = self.size // self.devices
    fullest = max(
      sum(seat is not None for seat in self.seats[first : first + local]) for first in range(0, self.size, local)
    )
    wanted = self._fitting(max(self.load, fullest * self.devices, SMALLEST_SHRUNK))
    if wanted < self.size:
      self._shrink(wanted)

  def _fitting(self, rows: int) -> int:
    return tail_size(self.sizes, rows, self.size, self.devices, self.program.attack.num_steps)

  def _seat(self, slots: Slots, seats: list[Ticket | None]) -> None:
    self.slots, self.seats = slots, seats
    self._loaded = [self._dispatch] * len(seats)
    self._flags.clear()

  def _shrink(self, size: int) -> None:
    """Moves the live slots into `size` slots, each within its device."""
    devices = self.devices
    old, new = self.size // devices, size // devices
    rows = np.full((devices, new), old, np.int32)
    seats: list[Ticket | None] = [None] * size
    for device in range(devices):
      live = [row for row in range(old) if self.seats[device * old + row] is not None]
      rows[device, : len(live)] = live
      seats[device * new : device * new + len(live)] = [self.seats[device * old + row] for row in live]
    assert self.slots is not None
    placed = jax.device_put(rows.reshape(-1), row_sharding(self.program.mesh))
    self._seat(compact(self.program, self.slots, placed), seats)

  def _exchange(self, rows: list[int]) -> list[Finished]:
    """Takes the items in `rows` out and seats waiting ones there, a fixed number of rows per dispatch."""
    left: list[Finished] = []
    devices = self.devices
    local = self.size // devices
    width = max(local // 4, min(local, SMALLEST_SWAP))
    by_device: list[list[int]] = [[row for row in rows if row // local == device] for device in range(devices)]
    while any(by_device) and (self.queue or any(self.seats[row] is not None for row in rows)):
      now = [pending[:width] for pending in by_device]
      by_device = [pending[width:] for pending in by_device]
      left += self._swap(now, local, width)
    return left

  def _swap(self, rows: list[list[int]], local: int, width: int) -> list[Finished]:
    devices = self.devices
    entries = np.zeros(devices * width, ENTRY)
    entries["row"] = local  # Beyond the slots: padding.
    images = np.zeros((devices * width, *self.image_shape), np.float32)
    outgoing: list[tuple[int, Ticket]] = []
    # A row of each device in turn: the last waiting items spread over all of them.
    for place in range(width):
      for device, row in ((device, chosen[place]) for device, chosen in enumerate(rows) if place < len(chosen)):
        index = device * width + place
        entries["row"][index] = row - device * local
        leaving = self.seats[row]
        if leaving is not None:
          outgoing.append((index, leaving))
        self.seats[row] = self.queue.popleft() if self.queue else None
        self._loaded[row] = self._dispatch
        self._write(self.seats[row], entries, images, index)
    placed = place_rows((images, pack_entries(entries)), self.program.mesh)
    assert self.slots is not None
    self.slots, taken = swap(self.program, self.slots, *placed)
    return self._finished(outgoing, *taken) if outgoing else []

  def _write(self, ticket: Ticket | None, entries: np.ndarray, images: np.ndarray, index: int) -> None:
    """An item's row of an exchange; without an item it stays unfilled."""
    if ticket is not None:
      item, case = ticket.item, ticket.case
      stage = self.stages[item.stage]
      images[index] = case.image
      for name, value in (("label", case.label), ("target", item.target), ("eps", item.eps), ("filled", True)):
        entries[name][index] = value
      entries["key_data"][index] = item_key_data(self.seed, case.id, stage.number, stage.restart)

  def _finished(self, outgoing: list[tuple[int, Ticket]], packed: Any, best: Any) -> list[Finished]:
    books, images = unpack_books(np.asarray(packed)), np.asarray(best)
    self.useful_steps += sum(int(books.step[row]) - int(books.verified[row]) for row, _ in outgoing)
    return [finished(ticket, images[row], books, row) for row, ticket in outgoing]

  def export_clock(self) -> dict[str, Any]:
    """The dispatch counters, for a snapshot: flags not read yet included."""
    return {
      "dispatch": self._dispatch,
      "loaded": list(self._loaded),
      "flags": [[dispatch, np.asarray(idle).astype(int).tolist()] for dispatch, idle in self._flags],
      "useful_steps": self.useful_steps,
      "slot_steps": self.slot_steps,
      "rate": [self._rate.looks, self._rate.hits],
    }

  def import_clock(self, saved: dict[str, Any]) -> None:
    """Puts the counters back, after the slots."""
    self._dispatch, self._loaded = saved["dispatch"], list(saved["loaded"])
    self._flags = deque((dispatch, np.asarray(idle, bool)) for dispatch, idle in saved["flags"])
    self.useful_steps, self.slot_steps = saved["useful_steps"], saved["slot_steps"]
    self._rate = SuccessRate(*saved["rate"])

  def export_slots(self) -> list[np.ndarray]:
    """The slots as plain arrays, for a snapshot."""
    return [np.asarray(leaf) for leaf in jax.tree.leaves(self.slots)]

  def import_slots(self, leaves: list[np.ndarray], seats: list[Ticket | None]) -> None:
    """Puts a snapshot back, bit for bit."""
    old, tree = jax.tree.flatten(empty_slots(self.program, len(seats), self.image_shape))
    if len(old) != len(leaves):
      raise ValueError("the snapshot has another state")
    self._seat(jax.device_put(jax.tree.unflatten(tree, leaves), row_sharding(self.program.mesh)), seats)
