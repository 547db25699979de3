"""How many slots and steps a dispatch has, and what an attack may keep in its slots."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax
import numpy as np

from jaxrobust.attacks import norms
from jaxrobust.attacks.registry import make_attack
from jaxrobust.core.threat import Norm
from jaxrobust.core.types import Array, Cost, Probe
from jaxrobust.engine.api import attack_images
from jaxrobust.engine.options import EngineOptions


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
  # That the first 32 have ended is read a turn later.
  assert tail[200].slot_steps == 32 * 201 + 20 * 199
  assert tail[200].useful_steps == 50 * 200


def test_slots_are_never_more_than_the_examples(work):
  classifier, images, labels = work
  attack = make_attack("pgd", num_steps=3)
  stats = attack_images(attack, classifier, images[:10], labels[:10], eps=1e-6, batch_size=64).stats
  assert stats.slot_steps == 10 * 3


class Walk(NamedTuple):
  image: Array
  key: Array


@dataclass(frozen=True)
class RandomWalk:
  """An attack that keeps its own key: a new point of the ball at every step."""

  num_steps: int = 8
  threat: ClassVar[Norm] = Norm("linf")
  minimal: ClassVar[bool] = False
  access: ClassVar[str] = "score"
  cost: ClassVar[Cost] = Cost(1, 0)

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
