"""The outbox: candidates that have left their slots and wait on the devices to be judged, a batch at a time."""

from __future__ import annotations

from typing import Any

from jax.sharding import Mesh

from jaxrobust.engine.example import WorkItem
from jaxrobust.engine.judge import Candidates, empty_outbox

# Half as many places as slots, but up to this many not fewer: small batches waste a device.
SMALLEST = 32


def places_per_device(slots: int, devices: int) -> int:
  """Returns the places of an outbox on each device.

  >>> places_per_device(128, 2), places_per_device(16, 4), places_per_device(64, 64)
  (32, 4, 1)
  """
  return max(max(slots // 2, min(slots, SMALLEST)) // devices, 1)


class Outbox:
  """Places on each device, filled one after the other.

  Attributes:
    rows: places over all devices. local: on each.
    candidates: what is in them.
    items: (place counted over all devices, item, steps after which the candidate was taken).
  """

  def __init__(self, slots: int, image_shape: tuple[int, ...], witness: Any, mesh: Mesh):
    self.devices = mesh.size
    self.local = places_per_device(slots, self.devices)
    self.rows = self.local * self.devices
    self.candidates: Candidates = empty_outbox(self.rows, image_shape, witness, mesh)
    self.items: list[tuple[int, WorkItem, int]] = []
    self.used = [0] * self.devices

  def room(self, needed: list[int]) -> bool:
    """Returns whether each device has so many places left."""
    return all(used + more <= self.local for used, more in zip(self.used, needed, strict=True))

  def add(self, device: int, work: WorkItem, stop: int) -> int:
    """Keeps a place on a device for an item's candidate and returns it, counted there."""
    place = self.used[device]
    self.used[device] += 1
    self.items.append((device * self.local + place, work, stop))
    return place

  @property
  def judged_rows(self) -> int:
    """The places per device that a judgment must cover: a quarter of them if that is enough, else all."""
    quarter = self.local // 4
    return quarter if quarter >= 4 and max(self.used) <= quarter else self.local

  def take(self, rows: int) -> list[tuple[int, WorkItem, int]]:
    """Empties the outbox; returns the items by their places in a judgment of so many rows per device."""
    items = [(place // self.local * rows + place % self.local, work, stop) for place, work, stop in self.items]
    self.items, self.used = [], [0] * self.devices
    return items
