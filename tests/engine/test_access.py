"""What an attack is handed, what it is charged, where it starts, and how strong it was when."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrobust as jr
from jaxrobust import testing
from jaxrobust.attacks.schedule import as_schedule
from jaxrobust.core.errors import InputError, VerificationError
from jaxrobust.engine.access import model_for
from jaxrobust.engine.api import ExampleArrays
from jaxrobust.engine.scheduler import Engine
from jaxrobust.engine.starts import StartPool
from jaxrobust.testing.fixtures import starting_points
from tests.guide_attacks import guide_attacks

GUIDE = guide_attacks()
SLOTS = jr.EngineOptions.for_platform(16, shrink=False)


@dataclasses.dataclass(frozen=True)
class OwnOracle(GUIDE.Bisect):
  """Bisects to the last bit by an argmax of its own, and reports what that says as logits."""

  num_steps: int = 40
  access = "score"

  def step(self, model, problem, state):
    state, probe = super().step(lambda image: jnp.argmax(model(image)) != problem.label, problem, state)
    return state, probe._replace(
      logits=jnp.where(probe.logits, 1.0, -1.0) * (jnp.arange(testing.CLASSES) != problem.label)
    )


@dataclasses.dataclass(frozen=True)
class Oracle(GUIDE.Bisect):
  """Bisects to the last bit by the engine's oracle."""

  num_steps: int = 40


def test_the_engines_oracle_finds_what_the_verification_confirms():
  classifier = testing.fixture()
  images, labels = testing.examples(classifier, 32)
  starts = starting_points()
  fine = jr.attack_images(Oracle(), classifier, images, labels, starts=starts, options=SLOTS)
  assert fine.success.all() and np.isfinite(fine.distance).all() and (fine.distance > 0).all()
  own = jr.attack_images(OwnOracle(), classifier, images, labels, starts=starts, options=SLOTS)
  assert own.success.sum() == 0, "an argmax of one's own ends at ties"


def nes(**changes):
  return dataclasses.replace(GUIDE.NES(), **changes)


def brightness(images):
  return jnp.stack([jnp.full(len(images), 0.75), images.mean((1, 2, 3))], 1)


@dataclasses.dataclass(frozen=True)
class Ramp:
  """Asks 41 queries a step; the third point it evaluates is bright."""

  max_queries: int = 410
  threat = jr.Norm("linf")
  minimal = False
  access = "score"
  cost = jr.Cost(forward=41, backward=0, parallel=40)
  num_steps = property(lambda self: self.max_queries // 41)

  def init(self, problem):
    return jnp.zeros((), jnp.int32)

  def step(self, model, problem, number):
    image = problem.image + jnp.where(number >= 2, problem.eps, 0.0)
    logits = model(image)
    others = jax.vmap(lambda i: model(jnp.clip(image + 1e-4 * i, 0.0, 1.0), draw=i).sum())(jnp.arange(40))
    return number + (jnp.sum(others) != 0), jr.Probe(image, logits, queries=41, point_query=1)


def test_a_success_at_the_third_look_is_charged_two_steps_and_a_look():
  images, classifier = np.full((5, 4, 4, 3), 0.5, np.float32), jr.Classifier.from_function(brightness, 2)
  result = jr.attack_images(Ramp(), classifier, images, np.zeros(5, int), eps=0.4, options=SLOTS)
  assert result.success.all() and (result.queries == 83).all()
  assert result.stats.forwards == 5 * 83
  failed = jr.attack_images(Ramp(), classifier, images, np.zeros(5, int), eps=0.1, options=SLOTS)
  assert not failed.success.any() and (failed.queries == 410).all()


def test_a_budget_of_queries_is_never_exceeded():
  classifier = testing.fixture()
  images, labels = testing.examples(classifier, 8)
  result = jr.attack_images(nes(max_queries=100), classifier, images, labels, eps=1e-4, options=SLOTS)
  assert (result.queries == 84).all()  # Four steps of 21; a fifth could go beyond.


@dataclasses.dataclass(frozen=True)
class Accountant(GUIDE.NES):
  """Reports what somebody else says of its queries."""

  reported: int = 21

  def step(self, model, problem, state):
    state, probe = super().step(model, problem, state)
    return state, probe._replace(queries=self.reported)


@pytest.mark.parametrize("reported", [-1, 22 * 21, 2**30])
def test_queries_that_no_step_of_that_cost_makes_are_an_error(reported):
  classifier = testing.fixture()
  images, labels = testing.examples(classifier, 4)
  with pytest.raises(VerificationError, match=r"accountant reports -?\d+ queries in \d+ steps for example \d"):
    jr.attack_images(Accountant(reported=reported), classifier, images, labels, eps=1e-4, options=SLOTS)


def noisy(images, key):
  return brightness(images) + 0.0 * jax.random.normal(key, (len(images), 2))


def test_samples_per_query_and_per_verdict_are_two_numbers():
  images, classifier = np.full((2, 4, 4, 3), 0.5, np.float32), jr.Classifier.from_function(noisy, 2, randomized=True)
  run = lambda attack, **more: jr.attack_images(
    attack, classifier, images, np.zeros(2, int), 0.1, options=SLOTS, **more
  )
  attack = GUIDE.SignDescent(num_steps=3)
  assert (run(nes(pairs=1, max_queries=9)).queries == 9).all(), "one pass per query without gradients"
  assert (run(attack).queries == 3 * 20).all() and (run(attack, samples=2).queries == 3 * 2).all()
  assert (run(attack, samples=2, verdict_samples=7).queries == 3 * 2).all()
  seen = []

  def counted(images, key):
    jax.debug.callback(lambda words: seen.append(tuple(np.asarray(words).tolist())), jax.random.key_data(key))
    return noisy(images, key)

  one = jr.EngineOptions.for_platform(1, steps_per_dispatch=1, shrink=False)  # No step of an ended item is computed.
  model = jr.Classifier.from_function(counted, 2, randomized=True)
  jr.attack_images(
    nes(pairs=1, max_queries=6), model, images[:1], np.zeros(1, int), 0.1, options=one, samples=2, verdict_samples=5
  )
  jax.effects_barrier()
  # The clean pass takes five samples; a step asks three queries of two, each with keys of its own.
  assert len(set(seen)) == 5 + 6


@pytest.mark.parametrize("name", ["pgd", "mim", "ni-fgsm", "dim", "apgd-ce"])
def test_attacks_that_are_judged_at_their_last_point_say_where_draws_disagree(name):
  """A success of the mean of a few draws is often none of others: the engine lets such an attack go on."""
  image, key = jnp.full((8, 8, 3), 0.5), jax.random.key(0)
  problem = jr.Problem(image, jnp.array(0), jnp.array(-1), jnp.array(0.1), key)
  attack = jr.make_attack(name, num_steps=2)

  def unsure(scale):
    shaken = lambda images, key: brightness(images) + scale * jax.random.normal(key, (len(images), 2))
    model = model_for(
      attack, "gradient", jr.Classifier.from_function(shaken, 2, randomized=True), problem, False, 0, 16
    )
    return attack.step(model, problem, attack.init(problem))[1].unsure

  assert jax.jit(unsure)(10.0) and not jax.jit(unsure)(1e-6)


def test_starting_points_do_not_depend_on_share_order_or_batch():
  classifier = testing.fixture()
  images, labels = testing.examples(classifier, 24)
  pool = starting_points()
  attack = GUIDE.Bisect()
  whole = jr.attack_images(attack, classifier, images, labels, starts=pool, options=SLOTS)
  order = np.random.default_rng(1).permutation(24)
  for rows, slots in ((order, 16), (np.arange(7), 16), (np.arange(9, 24), 4)):
    options = jr.EngineOptions.for_platform(slots, shrink=False)
    part = jr.attack_images(attack, classifier, images[rows], labels[rows], ids=rows, starts=pool, options=options)
    np.testing.assert_allclose(part.images, whole.images[rows], atol=1e-6)
    np.testing.assert_array_equal(part.queries, whole.queries[rows])
  # Without a pool the attacked images are one, whatever their order and the batch.
  own = jr.attack_images(attack, classifier, images, labels, options=SLOTS)
  options = jr.EngineOptions.for_platform(4, shrink=False)
  again = jr.attack_images(attack, classifier, images[order], labels[order], ids=order, options=options)
  np.testing.assert_allclose(again.images, own.images[order], atol=1e-6)


def test_a_starting_point_meets_the_goal_and_follows_from_seed_and_class():
  images, labels = starting_points()
  pool = StartPool(images, labels, labels)
  for target in range(testing.CLASSES):
    chosen = pool.choose(3, 0, target)
    assert labels[[np.array_equal(chosen, image) for image in images]].item() == target
    assert np.array_equal(chosen, pool.choose(3, 4, target)), "a target decides alone"
  assert not all(np.array_equal(pool.choose(0, 1, -1), pool.choose(seed, 1, -1)) for seed in range(8))
  alone = StartPool(images[:1], labels[:1], labels[:1])
  with pytest.raises(InputError, match="no starting point: none of 1 images is classified as anything but class"):
    alone.choose(0, int(labels[0]), -1)


def test_other_images_are_of_other_classes_and_follow_from_seed_and_example():
  images, labels = starting_points()
  pool = StartPool(images, labels, labels)
  chosen = pool.others(3, 7, 0, 6)
  rows = [int(np.flatnonzero([np.array_equal(one, image) for image in images]).item()) for one in chosen]
  assert len(set(rows)) == 6 and (labels[rows] != 0).all()
  assert np.array_equal(chosen, pool.others(3, 7, 0, 6))
  assert not np.array_equal(chosen, pool.others(4, 7, 0, 6)) and not np.array_equal(chosen, pool.others(3, 8, 0, 6))
  few = StartPool(images[:2], np.array([0, 1]), np.array([0, 1]))
  assert all(np.array_equal(one, images[1]) for one in few.others(0, 0, 0, 3))
  with pytest.raises(InputError, match="no other images: all 1 in the pool are of class 0"):
    StartPool(images[:1], np.zeros(1, int), np.zeros(1, int)).others(0, 0, 0, 3)


@pytest.mark.parametrize("bytes_of", ["images", "starts", "both"])
def test_starting_points_may_be_bytes_where_images_are_floats(bytes_of):
  classifier = testing.fixture()
  levels = np.round(255 * np.concatenate([testing.examples(classifier, 12)[0], starting_points()[0]])).astype(np.uint8)
  labels = np.asarray(classifier(levels / np.float32(255))).argmax(1)

  def source(rows, as_bytes):
    images = levels[rows] if as_bytes else levels[rows] / np.float32(255)
    return ExampleArrays(np.arange(len(images)), images, labels[rows], np.full(len(images), -1))

  def distances(images_as_bytes, starts_as_bytes):
    pool = source(slice(12, None), starts_as_bytes)
    examples = source(slice(12), images_as_bytes)
    engine = Engine(classifier, as_schedule(GUIDE.Bisect()), examples, eps=np.inf, options=SLOTS, start_pool=pool)
    return [verdict.distance for verdict in sorted(engine.run(), key=lambda one: one.position)]

  found = distances(bytes_of != "starts", bytes_of != "images")
  np.testing.assert_allclose(found, distances(False, False), rtol=1e-6)
  assert np.isfinite(found).all()


@pytest.mark.parametrize(
  ("starts", "text"),
  [(3, "a pair of images and labels"), ((np.zeros((2, 4, 4, 3), np.float32), np.zeros(2, int)), "attacked are")],
)
def test_bad_starting_points_are_refused(starts, text):
  classifier = testing.fixture()
  images, labels = testing.examples(classifier, 2)
  with pytest.raises(InputError, match=text):
    jr.attack_images(GUIDE.Bisect(), classifier, images, labels, starts=starts, options=SLOTS)


@pytest.mark.parametrize("attack", [GUIDE.NearestLine(), GUIDE.Bisect(), jr.make_attack("deepfool")], ids=str)
def test_when_a_minimal_attack_reached_a_budget_equals_runs_of_its_own(attack):
  classifier = testing.fixture()
  images, labels = testing.examples(classifier, 12)
  labels[0] = (labels[0] + 1) % testing.CLASSES  # Broken before anything is asked.
  pool = starting_points()
  free = jr.attack_images(attack, classifier, images, labels, starts=pool, options=SLOTS)
  budgets = (*np.quantile(free.distance[1:], (0.1, 0.5, 0.9)).tolist(), 1e-5)
  result = jr.attack_images(attack, classifier, images, labels, starts=pool, options=SLOTS, budgets=budgets)
  assert (result.reached_step[0] == 0).all() and (result.reached_query[0] == 0).all()
  assert (result.reached_query[1:, 3] == -1).all() and (result.reached_query[:, 0] >= 0).any()
  np.testing.assert_array_equal(result.reached_query >= 0, result.distance[:, None] <= np.array(budgets) * (1 + 1e-5))
  source = ExampleArrays(np.arange(12), images, labels, np.full(12, -1))
  pool_rows = ExampleArrays(np.arange(len(pool[0])), *pool, np.full(len(pool[0]), -1))
  for column, eps in enumerate(budgets[:3]):
    # With a finite budget the engine ends a minimal attack once it is close enough.
    engine = Engine(classifier, as_schedule(attack), source, eps=eps, options=SLOTS, start_pool=pool_rows)
    for verdict in engine.run():
      asked, moves = result.reached_query[verdict.position, column], result.reached_step[verdict.position, column]
      assert verdict.broken(eps) == (asked >= 0)
      if asked >= 0:
        assert verdict.queries == asked and verdict.broken_at <= moves
