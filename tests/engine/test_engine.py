"""The engine's promises, on networks small enough to run everything twice."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrobust import testing
from jaxrobust.attacks import losses
from jaxrobust.attacks.registry import make_attack
from jaxrobust.attacks.schedule import Cascade, Stage
from jaxrobust.core.classifier import Classifier
from jaxrobust.core.compilation import count_compilations
from jaxrobust.core.errors import InputError, VerificationError
from jaxrobust.core.threat import by_norm
from jaxrobust.core.types import Cost, Probe
from jaxrobust.engine import pool
from jaxrobust.engine.api import ExampleArrays, attack_images
from jaxrobust.engine.options import EngineOptions
from jaxrobust.engine.scheduler import Engine
from jaxrobust.engine.snapshot import restore_snapshot, take_snapshot

PGD = make_attack("pgd", num_steps=6)
EPS = 0.015


def outcomes(verdicts):
  image = lambda v: b"" if v.image is None else v.image.tobytes()
  return sorted((v.position, v.correct, v.success, v.distance, v.stage, v.queries, image(v)) for v in verdicts)


@pytest.mark.parametrize("batch_size", [1, 7, 64])
def test_flags_do_not_depend_on_the_batch_size(work, batch_size):
  baseline = attack_images(PGD, *work, eps=EPS, batch_size=16)
  other = attack_images(PGD, *work, eps=EPS, batch_size=batch_size)
  assert 0 < baseline.success.sum() < len(baseline.success)
  np.testing.assert_array_equal(baseline.success, other.success)
  np.testing.assert_array_equal(baseline.queries, other.queries)
  np.testing.assert_allclose(baseline.images, other.images, atol=1e-5)


@pytest.mark.parametrize(
  "options",
  [
    pytest.param({"steps_per_dispatch": 4}, marks=pytest.mark.ci),
    {"steps_per_dispatch": 3, "lookahead": 1},
    pytest.param({"lookahead": 2}, marks=pytest.mark.ci),
  ],
)
def test_device_loops_and_lookahead_change_nothing(work, options):
  cascade = Cascade((Stage(make_attack("fgsm")), Stage(PGD), Stage(PGD, restart=1), Stage(make_attack("mim"), rank=1)))
  baseline = attack_images(cascade, *work, eps=EPS, options=EngineOptions.for_platform(16))
  other = attack_images(cascade, *work, eps=EPS, options=EngineOptions.for_platform(16, **options))
  np.testing.assert_array_equal(baseline.success, other.success)
  np.testing.assert_array_equal(baseline.queries, other.queries)


@pytest.mark.parametrize("attack", ["pgd", "mim", "apgd-ce", "apgd-dlr"])
@pytest.mark.parametrize("eps", [EPS, 10 * EPS])
def test_judging_points_before_their_gradient_changes_nothing_but_the_work(work, attack, eps, monkeypatch):
  stage = make_attack(attack, num_steps=6)
  attack = Cascade((Stage(stage), Stage(stage, restart=1)))
  results = {}
  for above in (-1.0, 2.0):  # Always and never.
    monkeypatch.setattr(pool, "PEEK_ABOVE", above)
    results[above] = attack_images(attack, *work, eps=eps, batch_size=16)
  always, never = results.values()
  np.testing.assert_array_equal(always.success, never.success)
  np.testing.assert_array_equal(always.queries, never.queries)
  np.testing.assert_allclose(always.images, never.images, atol=1e-5)
  np.testing.assert_allclose(always.distance, never.distance, atol=1e-6)
  assert always.success.any() and always.stats.slot_steps < never.stats.slot_steps
  for need in ("forwards", "backwards", "judged"):
    assert getattr(always.stats, need) == getattr(never.stats, need)


def test_decided_examples_cost_nothing_more(work):
  result = attack_images(PGD, *work, eps=0.5)
  broken = result.success & result.correct
  assert (result.queries[broken] < PGD.num_steps).any()
  assert (result.queries[~result.correct] == 0).all()
  assert result.stats.forwards == result.queries.sum() >= result.stats.useful_steps > 0


def test_one_compilation_for_all_budgets_and_sizes(work):
  classifier, images, labels = work
  options = EngineOptions.for_platform(16, shrink=False)
  attack_images(PGD, classifier, images, labels, eps=EPS, options=options)
  other = dataclasses.replace(classifier, variables=jax.tree.map(lambda x: x * 1.5, classifier.variables))
  with count_compilations() as count:
    for eps, size in (("1/255", 50), ("8/255", 37), ("0.3", 5)):
      attack_images(PGD, classifier, images[:size], labels[:size], eps=eps, options=options)
      attack_images(PGD, other, images[:size], labels[:size], eps=eps, options=options)
      attack_images(
        PGD, classifier, images[:size], labels[:size], eps=eps, targets=(labels[:size] + 1) % 5, options=options
      )
  assert count.programs == 0


def test_each_slot_count_compiles_its_programs_once(work):
  attack = make_attack("pgd", num_steps=6, step_size=0.31)  # A program no other test makes.
  attack_images(make_attack("fgsm"), *work, eps=EPS, batch_size=8)  # Small helpers of JAX itself.
  with count_compilations() as count:
    for _ in range(2):
      attack_images(attack, *work, eps=EPS, options=EngineOptions.for_platform(8, shrink=False))
  assert count.programs == 2  # advance and swap; the judge of eight rows was there already.


@pytest.mark.parametrize("stop", [1, 4, 9, 30])
@pytest.mark.parametrize("dispatch", [{}, {"steps_per_dispatch": 2, "lookahead": 1}])
def test_a_run_continued_from_a_snapshot_is_equal_to_the_last_bit(work, stop, dispatch):
  classifier, images, labels = work
  source = ExampleArrays(np.arange(50), images, labels, np.full(50, -1))
  cascade = Cascade((Stage(make_attack("fgsm")), Stage(PGD), Stage(PGD, restart=1)))

  def engine():
    return Engine(classifier, cascade, source, eps=EPS, options=EngineOptions.for_platform(8, **dispatch))

  whole = outcomes(engine().run())
  first = engine()
  verdicts = []
  for _ in range(stop):
    first.turn()
    verdicts += first.collect()
  second = engine()
  assert restore_snapshot(second, *take_snapshot(first))
  assert outcomes(verdicts + list(second.run())) == whole


def test_a_snapshot_of_another_layout_is_refused(work):
  classifier, images, labels = work
  source = ExampleArrays(np.arange(50), images, labels, np.full(50, -1))
  first = Engine(classifier, Cascade.restarts(PGD, 1), source, eps=EPS, options=EngineOptions.for_platform(8))
  first.turn()
  second = Engine(classifier, Cascade.restarts(PGD, 1), source, eps=EPS, options=EngineOptions.for_platform(16))
  assert not restore_snapshot(second, *take_snapshot(first))


def test_restarts_only_help_and_ranks_steer(work):
  once = attack_images(PGD, *work, eps=EPS)
  often = attack_images(PGD, *work, eps=EPS, restarts=4)
  assert (often.success >= once.success).all()
  steered = attack_images(Cascade(tuple(Stage(PGD, rank=rank) for rank in (1, 2, 3, 4, 5, 6))), *work, eps=0.3)
  assert steered.success.all()  # Ranks beyond the number of classes are passed over.


def test_a_stage_draws_the_same_noise_alone_and_in_a_cascade(work):
  alone = attack_images(PGD, *work, eps=EPS)
  cascade = attack_images(Cascade((Stage(make_attack("mim", num_steps=2)), Stage(PGD))), *work, eps=EPS)
  assert (cascade.success >= alone.success).all()


def test_robustness_falls_with_eps(work):
  robust = [attack_images(PGD, *work, eps=eps).robust.sum() for eps in (0.0, 0.005, 0.015, 0.1)]
  assert robust == sorted(robust, reverse=True) and robust[0] > robust[-1]


def test_memory_is_bounded_by_the_slots_not_the_source(work):
  classifier, images, labels = work
  held = []

  class Long:
    image_shape = testing.SHAPE

    def __len__(self):
      return 600

    def take(self, positions):
      rows = positions % 50
      return ExampleArrays(np.arange(50), images, labels, np.full(50, -1)).take(rows)._replace(ids=positions)

  cascade = Cascade((Stage(make_attack("fgsm")), Stage(PGD), Stage(make_attack("mim"))))
  engine = Engine(classifier, cascade, Long(), eps=EPS, options=EngineOptions.for_platform(16))
  count = 0
  for _ in engine.run():
    count += 1
    held.append(len(engine.examples.rows) + sum(map(len, engine.verdicts)))
  assert count == 600 and max(held) <= 8 * 16


@dataclass(frozen=True)
class Nearest:
  """A minimal attack for tests: walks along the margin's gradient by a growing amount."""

  norm: str = "l2"
  num_steps: int = 30
  threat = by_norm
  minimal = True
  access = "gradient"
  cost = Cost(2, 1)

  def init(self, problem):
    return jnp.zeros((), jnp.int32)

  def step(self, model, problem, state):
    direction = jax.grad(lambda x: losses.margin(model(x), problem.label, problem.target))(problem.image)
    length = 0.02 * (self.num_steps - state)
    image = jnp.clip(problem.image + length * direction / jnp.linalg.norm(direction), 0, 1)
    return state + 1, Probe(image, model(image), queries=1)


def test_minimal_attacks_keep_the_closest_success_and_serve_every_eps(work):
  free = attack_images(Nearest(), *work)
  assert np.isfinite(free.distance).any()
  within = attack_images(Nearest(), *work, eps=0.15)
  np.testing.assert_array_equal(within.success, free.distance <= 0.15)
  budget = attack_images(Cascade((Stage(make_attack("fgsm", norm="l2")), Stage(Nearest()))), *work, eps=0.15)
  assert (budget.success >= within.success).all()
  assert inside_ball(budget, work, 0.15)


def inside_ball(result, work, eps):
  delta = (result.images - work[1]).reshape(len(work[1]), -1)
  return (np.linalg.norm(delta, axis=1) <= eps * (1 + 1e-5)).all()


@dataclass(frozen=True)
class Cheat:
  """Leaves its ball or the box."""

  amount: float
  norm: str = "linf"
  num_steps: int = 2
  threat = by_norm
  minimal = False
  access = "score"
  cost = Cost(1, 0)

  def init(self, problem):
    return problem.image

  def step(self, model, problem, state):
    image = problem.image + self.amount * jnp.sign(
      jnp.arange(problem.image.size).reshape(problem.image.shape) % 2 - 0.5
    )
    image = jnp.clip(image, 0, 1) if self.amount < 1 else image
    return state, Probe(image, model(image), queries=1)


@pytest.mark.parametrize("amount, text", [(0.2, "outside its ball"), (3.0, r"outside \[0, 1\]")])
def test_an_attack_that_leaves_its_threat_model_is_an_error(work, amount, text):
  with pytest.raises(VerificationError, match=text):
    attack_images(Cheat(amount), *work, eps=EPS)


def noisy_logits(variables, images, key):
  base = testing.fixture().apply.function(variables, images)
  return base + 0.5 * jax.random.normal(key, base.shape)


def test_randomized_classifiers_are_sampled_and_reproducible(work):
  classifier, images, labels = work
  noisy = Classifier.from_function(noisy_logits, testing.CLASSES, variables=classifier.variables, randomized=True)
  runs = [attack_images(PGD, noisy, images, labels, eps=EPS, samples=4, batch_size=size) for size in (8, 8, 3)]
  np.testing.assert_array_equal(runs[0].success, runs[1].success)
  np.testing.assert_array_equal(runs[0].success, runs[2].success)
  assert (runs[0].queries[runs[0].queries > 0] % 4 == 0).all()


def test_nan_logits_are_flagged_and_never_robust(work):
  classifier, images, labels = work

  def broken(variables, x):
    logits = classifier.apply.function(variables, x)
    return jnp.where(x[:, :1, 0, 0] > 0.5, jnp.nan, logits)

  model = Classifier.from_function(broken, testing.CLASSES, variables=classifier.variables)
  result = attack_images(PGD, model, images, labels, eps=0.01)
  bright = images[:, 0, 0, 0] > 0.5
  assert bright.any() and not result.correct[bright].any() and not result.robust[bright].any()
  assert (result.nan[bright] > 0).all()


def test_bad_calls_are_refused_before_anything_compiles(work):
  classifier, images, labels = work
  cases = [
    ({"images": (images * 255).astype(np.uint8)}, "uint8"),
    ({"images": images * 3}, r"\[0, 1\]"),
    ({"images": np.where(np.arange(50)[:, None, None, None] == 7, np.nan, images)}, "NaN"),
    ({"images": images[0]}, r"\(N, H, W, C\)"),
    ({"images": np.zeros((50, 7, 6, 3), np.float32)}, "does not take images"),
    ({"labels": labels + 10}, "labels range"),
    ({"labels": labels[:3]}, "50 images but 3 labels"),
    ({"labels": labels.astype(float)}, "expected integers"),
    ({"eps": -0.1}, "negative"),
    ({"eps": "x"}, "not a number"),
    ({"eps": None}, "works within a budget"),
    ({"targets": labels + 10}, "targets range"),
    ({"batch_size": 0}, "at least 1"),
  ]
  for change, text in cases:
    call = {"images": images, "labels": labels, "eps": EPS, **change}
    with count_compilations() as count, pytest.raises(InputError, match=text):
      attack_images(PGD, classifier, call.pop("images"), call.pop("labels"), **call)
    assert count.programs == 0, change
