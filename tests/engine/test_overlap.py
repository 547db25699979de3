"""The host never waits for what it has just sent off, and the devices never wait for the host."""

from __future__ import annotations

import numpy as np
import pytest

from jaxrobust import testing
from jaxrobust.attacks.registry import make_attack
from jaxrobust.attacks.schedule import Cascade
from jaxrobust.engine.api import ExampleArrays
from jaxrobust.engine.options import EngineOptions
from jaxrobust.engine.scheduler import Engine
from tests.engine.recording import RecordingDevice

COUNT = 400


def run(options: EngineOptions, eps: float = 0.012) -> tuple[RecordingDevice, Engine]:
  classifier = testing.fixture()
  images, labels = testing.examples(classifier, COUNT)
  source = ExampleArrays(np.arange(COUNT), images, labels, np.full(COUNT, -1))
  device = RecordingDevice(options.devices)
  device.engine = engine = Engine(
    classifier,
    Cascade.restarts(make_attack("pgd", num_steps=12), 2),
    source,
    eps=eps,
    options=options,
    device=device,
  )
  assert sum(1 for _ in engine.run()) == COUNT
  return device, engine


@pytest.mark.parametrize("steps, ahead", [(1, 0), (1, 1), (4, 1)])
def test_nothing_is_read_in_the_turn_that_sent_it_off(steps, ahead):
  device, _ = run(EngineOptions.for_platform(32, steps_per_dispatch=steps, lookahead=ahead, shrink=False))
  assert device.reads and all(sent < now for now, sent in device.reads)
  assert device.gathered, "images of successes were asked for"


def test_with_two_groups_the_device_is_busy():
  one, _ = run(EngineOptions.for_platform(32, steps_per_dispatch=4, lookahead=0, shrink=False))
  two, engine = run(EngineOptions.for_platform(32, steps_per_dispatch=4, lookahead=1, shrink=False))
  busy = [device.busy / max(device.now, device.free_at) for device in (one, two)]
  assert busy[1] >= 0.95 > busy[0] + 0.03, "alone, a device waits for its host"
  assert engine.stats.useful_steps / engine.stats.slot_steps >= 0.8
