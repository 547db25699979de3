"""How many slots and steps a dispatch has, and what an attack may keep in its slots."""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import numpy as np

from jaxrobust.attacks import norms
from jaxrobust.attacks.registry import make_attack
from jaxrobust.core.mesh import make_mesh
from jaxrobust.core.threat import Norm
from jaxrobust.core.types import Array, Cost, Probe
from jaxrobust.engine.api import attack_images
from jaxrobust.engine.device import Device
from jaxrobust.engine.options import EngineOptions
from jaxrobust.engine.pool import Pool, SlotGroup
from jaxrobust.engine.program import Program
from jaxrobust.engine.slots import ACTIVE, FOUND


def test_long_minimal_attacks_take_four_steps_per_dispatch_unless_told_otherwise(work):
  ddn, one = make_attack("ddn"), EngineOptions.for_platform(64, steps_per_dispatch=1)
  assert (EngineOptions.for_platform(64).steps_of(ddn), one.steps_of(ddn)) == (4, 1)
  assert EngineOptions.for_platform(64).steps_of(make_attack("deepfool")) == 1
  several, single = attack_images(ddn, *work, batch_size=64), attack_images(ddn, *work, options=one)
  assert several.stats.slot_steps == single.stats.slot_steps
  np.testing.assert_allclose(several.distance, single.distance, rtol=1e-5)


def test_a_long_tail_runs_on_slots_that_fit_it(work):
  classifier, images, labels = work
  labels = np.asarray(classifier(images)).argmax(1)
  tail = {
    steps: attack_images(make_attack("pgd", num_steps=steps), classifier, images, labels, eps=1e-6, batch_size=32).stats
    for steps in (20, 200)
  }
  assert tail[20].slot_steps == 2 * 32 * 20, "a short one is not worth another compilation"
  assert tail[200].slot_steps == 32 * 200 + 20 * 200, "no step is made with the slots of the first 32 still there"
  assert tail[200].useful_steps == 50 * 200


def test_slots_are_never_more_than_the_examples(work):
  classifier, images, labels = work
  attack = make_attack("pgd", num_steps=3)
  stats = attack_images(attack, classifier, images[:10], labels[:10], eps=1e-6, batch_size=64).stats
  assert stats.slot_steps == 10 * 3


def test_slots_that_fall_idle_together_wait_for_the_examples_that_are_still_to_be_read(work):
  classifier, images, labels = work
  labels = np.asarray(classifier(images)).argmax(1)
  attack = make_attack("pgd", num_steps=5)
  stats = attack_images(attack, classifier, images[:48], labels[:48], eps=1e-6, batch_size=16).stats
  assert stats.useful_steps == stats.slot_steps == 48 * 5


def test_the_rate_of_successes_is_that_of_points_that_were_moved_to():
  def group(fresh, flags):
    return SlotGroup(rows=np.arange(4), fresh=np.array(fresh), flags=np.array(flags, np.int8), active=4)

  options = {"samples": 1, "verdict_samples": 1, "mesh": make_mesh(jax.devices()[:1])}
  pools = [
    Pool(Program.of(make_attack("pgd"), steps=steps, **options)[0], (), (), (4,), 1, (2, 2, 1), True)
    for steps in (1, 4)
  ]
  for pool in pools:
    first = group([True, True, True, False], [FOUND, ACTIVE, ACTIVE, FOUND])
    pool.idle_slots(first, Device(pool.program.mesh))
    assert not first.fresh.any()
  assert [(pool.rate.trials, pool.rate.successes) for pool in pools] == [(1, 1), (4, 2)]


class Walk(NamedTuple):
  image: Array
  key: Array


@dataclass(frozen=True)
class RandomWalk:
  """An attack that keeps its own key: a new point of the ball at every step."""

  num_steps: int = 8
  threat = Norm("linf")
  minimal = False
  access = "score"
  cost = Cost(1, 0)

  def init(self, problem):
    return Walk(problem.image, problem.key)

  def step(self, model, problem, state):
    key, draw = jax.random.split(state.key)
    image = norms.random_start("linf", draw, problem.image, problem.eps)
    return Walk(image, key), Probe(state.image, model(state.image), queries=1)


def test_an_attack_may_keep_a_key_in_its_state(work):
  results = [attack_images(RandomWalk(), *work, eps=0.1, batch_size=size) for size in (4, 16)]
  assert 0 < results[0].success.sum() < len(results[0].success)
  np.testing.assert_array_equal(results[0].success, results[1].success)
  np.testing.assert_array_equal(results[0].queries, results[1].queries)
