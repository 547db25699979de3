"""Gradients from queries: the formula with given directions, no bias, batches and orders that decide nothing."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrobust.attacks import estimates
from jaxrobust.attacks.coordinates import shuffled
from jaxrobust.attacks.estimates import estimate_gradient, signs
from jaxrobust.attacks.nes import NES
from jaxrobust.attacks.spsa import SPSA
from jaxrobust.core.errors import InputError
from jaxrobust.core.threefry import normal
from jaxrobust.core.types import Problem

SHAPE = (2, 3, 2)
RNG = np.random.default_rng(0)
# Whole numbers and powers of two: float32 makes no rounding errors with them.
WEIGHTS = RNG.integers(-8, 9, (2, *SHAPE)).astype(np.float32)
IMAGE = RNG.integers(0, 17, SHAPE).astype(np.float32) / 16


def quadratic(image, number=0):
  """A score whose gradient is 2 Σ_j (w_j · x) w_j + w_0."""
  del number
  return sum(jnp.sum(w * image) ** 2 for w in WEIGHTS) + jnp.sum(WEIGHTS[0] * image)


def gradient(image):
  return sum(2 * np.sum(w * image) * w for w in WEIGHTS) + WEIGHTS[0]


def by_the_formula(image, directions, sigma):
  pairs = [(quadratic(image + sigma * u) - quadratic(image - sigma * u)) / (2 * sigma) * u for u in directions]
  return np.mean(np.asarray(pairs, np.float64), 0)


@pytest.mark.smoke
@pytest.mark.parametrize("pairs", [1, 4, 32])
def test_given_directions_give_the_formula_exactly(pairs):
  directions = RNG.integers(-2, 3, (pairs, *SHAPE)).astype(np.float32)
  given = jnp.asarray(directions)
  found = jax.jit(lambda x: estimate_gradient(quadratic, x, lambda i: given[i], pairs, 0.25))(IMAGE)
  assert np.array_equal(found.grad, by_the_formula(IMAGE, directions, 0.25))
  both = [quadratic(IMAGE + side * u) for u in directions for side in (0.25, -0.25)]
  assert float(found.loss) == pytest.approx(np.mean(both)) and not found.nan and not found.flat


@pytest.mark.parametrize("draw", [normal, signs])
def test_the_estimate_approaches_the_gradient_as_pairs_grow(draw):
  true = gradient(IMAGE).ravel()
  cosines = []
  for pairs in (10, 300, 10_000):
    direction = lambda i: draw(jax.random.fold_in(jax.random.key(1), i), SHAPE)
    found = np.asarray(jax.jit(lambda x: estimate_gradient(quadratic, x, direction, pairs, 0.5).grad)(IMAGE)).ravel()  # noqa: B023
    cosines.append(found @ true / np.linalg.norm(found) / np.linalg.norm(true))
  assert cosines == sorted(cosines) and cosines[-1] > 0.999
  # A quadratic's central differences are exact, so that its mean has no bias however wide they are.
  np.testing.assert_allclose(found, true, atol=0.05 * np.abs(true).max())


def test_how_many_pairs_share_a_batch_decides_nothing(monkeypatch):
  direction = lambda i: normal(jax.random.fold_in(jax.random.key(1), i), SHAPE)
  found = []
  for parallel in (2, 6, 100):
    monkeypatch.setattr(estimates, "PARALLEL", parallel)
    found.append(jax.jit(lambda x: estimate_gradient(quadratic, x, direction, 7, 0.1))(IMAGE))
  for other in found[1:]:
    np.testing.assert_allclose(other.grad, found[0].grad, rtol=1e-5)
    np.testing.assert_allclose(other.loss, found[0].loss, rtol=1e-5)


def test_answers_that_are_no_numbers_and_flat_ones_are_told():
  given = jnp.ones((3, *SHAPE)) * jnp.array([1.0, 2.0, 3.0]).reshape(3, 1, 1, 1)
  score = lambda image, number: jnp.where(number == 2, jnp.nan, jnp.sum(image))
  found = estimate_gradient(score, jnp.asarray(IMAGE), lambda i: given[i], 3, 0.5)
  assert found.nan and not found.flat and np.allclose(found.grad, 12 * (1 + 9) / 3)
  assert estimate_gradient(lambda image, _: jnp.zeros(()), jnp.asarray(IMAGE), lambda i: given[i], 3, 0.5).flat


def scores(image, number=0):
  return jnp.stack([jnp.sum(w * image) + 0.1 * jnp.sum(w * image) ** 2 for w in WEIGHTS])


@pytest.mark.parametrize("attack", [NES(pairs=5), NES("l2", pairs=5), SPSA(pairs=5), SPSA("l2", pairs=5)])
def test_a_step_follows_the_formula(attack):
  key = jax.random.key(3)
  problem = Problem(jnp.asarray(IMAGE), jnp.int32(0), jnp.int32(-1), jnp.float32(0.5), key)
  state, probe = jax.jit(lambda p: attack.step(scores, p, attack.init(p)))(problem)
  draw = normal if attack.name == "nes" else signs
  directions = [
    np.asarray(draw(jax.random.fold_in(jax.random.fold_in(key, 0), i), SHAPE), np.float64) for i in range(5)
  ]

  def margin(image):
    found = [np.sum(w * image) + 0.1 * np.sum(w * image) ** 2 for w in WEIGHTS.astype(np.float64)]
    return found[1] - found[0]

  s = attack.sigma
  pairs = [(margin(IMAGE + s * u) - margin(IMAGE - s * u)) / (2 * s) * u for u in directions]
  grad = np.mean(pairs, 0)
  # Adam's first step is a sign, too.
  direction = grad / np.linalg.norm(grad) if (attack.name, attack.norm) == ("nes", "l2") else np.sign(grad)
  delta = attack.step_size * 0.5 * direction
  if attack.norm == "l2":
    delta *= min(1.0, 0.5 / np.linalg.norm(delta))
  np.testing.assert_allclose(state.image, np.clip(IMAGE + delta, 0, 1), atol=2e-4)
  assert probe.queries == 11 and probe.point_query == 1 and np.array_equal(probe.image, IMAGE)


def test_steps_get_shorter_where_scores_fall():
  attack = NES(window=3, step_size=0.4, final_step_size=0.1)
  problem = Problem(jnp.asarray(IMAGE), jnp.int32(0), jnp.int32(-1), jnp.float32(0.5), jax.random.key(0))
  state, lengths = attack.init(problem), []
  for score in (1.0, 2.0, 3.0, 1.5, 1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4):
    length, window = attack._anneal(state, jnp.float32(score))
    state = state._replace(length=length, scores=window)
    lengths.append(round(float(length), 3))
  assert lengths == [0.4, 0.4, 0.4, 0.2, 0.2, 0.2, 0.1, 0.1, 0.1, 0.1, 0.1]


@pytest.mark.parametrize("size", [1, 2, 7, 108, 3072])
def test_an_order_has_every_number_once(size):
  order = jax.jit(lambda key: shuffled(key, jnp.arange(size), size))
  orders = [np.asarray(order(jax.random.key(seed))) for seed in range(3)]
  assert all(np.array_equal(np.sort(order), np.arange(size)) for order in orders)
  assert size < 100 or not np.array_equal(orders[0], orders[1])


def test_orders_are_random():
  keys = jax.random.split(jax.random.key(5), 4000)
  places = np.asarray(jax.jit(jax.vmap(lambda key: shuffled(key, jnp.arange(10), 10)))(keys))
  counts = np.stack([np.bincount(column, minlength=10) for column in places.T])
  assert np.abs(counts - 400).max() < 5 * np.sqrt(400)  # Every number in every place.
  follows = np.mean((places[:, 1] - places[:, 0]) % 10 == 1)
  assert abs(follows - 1 / 9) < 0.02  # 9 of 10 numbers have a next one that is not themselves.


def test_budgets_that_allow_no_step_are_refused():
  with pytest.raises(InputError, match="attack nes makes 201 queries a step and one more at the end: queries is 201"):
    NES(queries=201)
  assert NES(queries=202).num_steps == 1
