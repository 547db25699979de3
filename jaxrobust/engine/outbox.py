"""The outbox: candidates that have left their slots and wait on the devices to be judged, a batch at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
from jax.sharding import Mesh

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
    size: places over all devices. local: on each.
    candidates: what is in them.
    rows, stops: the example of each place, -1 for none, and the steps after which its candidate was taken.
    used: places in use on each device.
  """

  def __init__(self, slots: int, image_shape: tuple[int, ...], witness: Any, mesh: Mesh):
    self.local = places_per_device(slots, mesh.size)
    self.size = self.local * mesh.size
    self.candidates: Candidates = empty_outbox(self.size, image_shape, witness, mesh)
    self.rows, self.stops = (np.full(self.size, -1, np.int64) for _ in range(2))
    self.used = np.zeros(mesh.size, np.int64)

  def __len__(self) -> int:
    return int(self.used.sum())

  @property
  def waiting(self) -> np.ndarray:
    """Returns the examples whose candidates are in it."""
    return self.rows[self.rows >= 0]

  def fits(self, devices: np.ndarray) -> bool:
    """Returns whether there is room for a candidate on each of these devices."""
    return bool((self.used + np.bincount(devices, minlength=len(self.used)) <= self.local).all())

  def add(self, devices: np.ndarray, rows: np.ndarray, stops: np.ndarray | int) -> np.ndarray:
    """Keeps places for candidates on these devices, and returns them, counted on each; there must be room."""
    places = self.used[devices]
    for device in range(len(self.used)):
      here = devices == device
      places[here] += np.arange(here.sum())
    self.used += np.bincount(devices, minlength=len(self.used))
    self.rows[devices * self.local + places], self.stops[devices * self.local + places] = rows, stops
    return places

  @property
  def judged_rows(self) -> int:
    """Returns the places per device that a judgment must cover: a quarter of them if that is enough, else all."""
    quarter = self.local // 4
    return quarter if quarter >= 4 and self.used.max() <= quarter else self.local

  def take(self, local: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Empties the outbox; returns examples, their places in a judgment of so many rows per device, and their stops."""
    used = np.flatnonzero(self.rows >= 0)
    taken = self.rows[used], used // self.local * local + used % self.local, self.stops[used]
    self.rows[:], self.used[:] = -1, 0
    return taken
