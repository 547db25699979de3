"""A stand-in for the devices that keeps a clock of its own: which work was sent off when, and what was waited for."""

from __future__ import annotations

from typing import Any

import jax

from jaxrobust.engine.device import Device


class RecordingDevice(Device):
  """Does the real work, and notes it on an imagined device that takes `step` seconds for a dispatch.

  The host takes `host` seconds for each dispatch. `read` fails where it is asked for work of the same turn.
  """

  def __init__(self, mesh, step: float = 0.020, host: float = 0.005):
    super().__init__(mesh)
    self.step, self.host = step, host
    self.gathers, self.gathered = True, 0  # As accelerators do.
    self.now = self.busy = self.free_at = 0.0
    self.engine: Any = None
    self.sent: dict[int, tuple[Any, int, float]] = {}
    self.reads: list[tuple[int, int]] = []

  def _send(self, seconds: float, result: Any) -> Any:
    self.now += self.host if seconds == self.step else 0.0
    self.free_at = max(self.free_at, self.now) + seconds
    self.busy += seconds
    for leaf in jax.tree.leaves(result):
      self.sent[id(leaf)] = leaf, self.engine.turns, self.free_at
    return result

  def advance(self, *arguments):
    return self._send(self.step, super().advance(*arguments))

  def peek(self, *arguments):
    return self._send(self.step, super().peek(*arguments))

  def exchange(self, *arguments):
    return self._send(self.step / 20, super().exchange(*arguments))

  def judge(self, *arguments, **options):
    return self._send(self.step, super().judge(*arguments, **options))

  def read(self, array):
    leaf, turn, ready = self.sent[id(array)]
    assert leaf is array
    self.reads.append((self.engine.turns, turn))
    self.now = max(self.now, ready)
    return super().read(array)

  def fetch(self, array, rows):
    parts = super().fetch(array, rows)
    for _, data, _ in parts:  # A part of the array itself is there when that is.
      self.sent.setdefault(id(data), (data, *self.sent[id(array)][1:]))
    return parts

  def gather(self, array, rows):
    self.gathered += 1
    return self._send(self.step / 20, super().gather(array, rows))
