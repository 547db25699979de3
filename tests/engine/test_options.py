"""The numbers the engine takes for each platform, entered without one: a mesh is only asked for its devices."""

from types import SimpleNamespace

import numpy as np
import pytest

from jaxrobust.attacks.registry import make_attack
from jaxrobust.core.errors import InputError
from jaxrobust.engine.options import EngineOptions

pytestmark = pytest.mark.smoke


def mesh(platform, count=4):
  devices = np.array([SimpleNamespace(platform=platform)] * count)
  return SimpleNamespace(devices=devices, size=count)


@pytest.mark.parametrize(
  ("platform", "steps", "ahead", "groups"), [("cpu", 1, 0, 1), ("gpu", 4, 1, 2), ("tpu", 4, 1, 2), ("cuda", 4, 1, 2)]
)
def test_accelerators_take_several_steps_per_dispatch_and_two_groups(platform, steps, ahead, groups):
  options = EngineOptions.for_platform(64, mesh=mesh(platform))
  assert (options.steps_per_dispatch, options.lookahead, options.groups) == (steps, ahead, groups)
  assert (options.steps_when_minimal, options.steps_when_forward) == (4, 32)
  found = [options.steps_of(make_attack(name)) for name in ("pgd", "ddn", "deepfool", "square")]
  assert found == [steps, 4, steps, 32]


@pytest.mark.parametrize("platform", ["cpu", "tpu"])
def test_what_the_caller_sets_wins_everywhere(platform):
  options = EngineOptions.for_platform(64, steps_per_dispatch=2, lookahead=3, mesh=mesh(platform))
  assert [options.steps_of(make_attack(name)) for name in ("pgd", "ddn", "square")] == [2, 2, 2]
  assert (options.lookahead, options.groups) == (3, 4)
  one = EngineOptions.for_platform(64, steps_per_dispatch=32, mesh=mesh(platform))
  assert one.steps_of(make_attack("square", num_steps=8)) == 8, "no more than the attack has"
  several = [EngineOptions.for_platform(64).steps_of(make_attack(name)) for name in ("signhunter", "bandits", "nes")]
  assert several == [32, 10, 1], "a step of many evaluations counts as many"


def test_slots_are_halved_as_long_as_every_device_has_its_part():
  assert EngineOptions.for_platform(48, mesh=mesh("tpu", 4)).sizes(48) == (48, 24, 12)
  assert EngineOptions.for_platform(48, mesh=mesh("tpu", 4), shrink=False).sizes(48) == (48,)
  assert EngineOptions.for_platform(mesh=mesh("tpu", 8)).slots is None, "chosen when the images are known"


@pytest.mark.parametrize(
  ("slots", "more", "reason"),
  [
    (0, {}, "the batch size must be at least 1, got 0"),
    (6, {}, "6"),
    (8, {"steps_per_dispatch": 0}, "must be at least 1"),
    (8, {"lookahead": -1}, "at least 0"),
  ],
)
def test_numbers_that_do_not_fit_are_refused_before_anything_compiles(slots, more, reason):
  with pytest.raises(InputError, match=reason):
    EngineOptions.for_platform(slots, mesh=mesh("tpu", 4), **more)
