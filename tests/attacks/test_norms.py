"""Steepest moves, random starts and distances, at every scale."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrobust.attacks import norms
from jaxrobust.core.budget import inside
from tests.attacks.norm_cases import NORMS, ORDER, SHAPE, cases, distance, steepest

pytestmark = pytest.mark.smoke


def gradients(count=60):
  rng = np.random.default_rng(3)
  grad = rng.normal(size=(count, *SHAPE))
  grad[::4] *= rng.uniform(size=grad[::4].shape) < 0.3
  grad[1::4] = np.round(grad[1::4])
  image = rng.uniform(0, 1, grad.shape)
  image[::3] = np.round(image[::3])
  length = 10.0 ** rng.uniform(-3, 1.5, count)
  return grad.astype(np.float32), length.astype(np.float32), image.astype(np.float32)


SCALES = [1e-30, 1e-15, 1.0, 1e15, 1e30]


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("scale", SCALES)
def test_a_steepest_move_has_its_length_at_every_scale_of_the_gradient(norm, scale):
  grad, length, _ = gradients()
  image = np.full_like(grad, 0.5)
  length = np.minimum(length, 3.0)
  # The box must have room for an l1 move: half a unit per pixel that has a gradient.
  room = 0.5 * (grad != 0).sum((1, 2, 3))
  keep = room > length if norm == "l1" else np.ones(len(grad), bool)
  assert keep.sum() > 40
  move = np.asarray(steepest[norm](grad * np.float32(scale), length, image), np.float64)
  sizes = np.linalg.norm(move.reshape(len(move), -1), ORDER[norm], axis=1) if norm != "l1" else abs(move).sum((1, 2, 3))
  np.testing.assert_allclose(sizes[keep], length[keep], rtol=2e-5)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("scale", SCALES)
def test_the_scale_of_the_gradient_does_not_change_the_move(norm, scale):
  grad, length, image = gradients()
  base = np.asarray(steepest[norm](grad, length, image))
  np.testing.assert_allclose(steepest[norm](grad * np.float32(scale), length, image), base, atol=2e-6 * length.max())


@pytest.mark.parametrize("norm", NORMS)
def test_a_zero_gradient_gives_exactly_no_move(norm):
  _, length, image = gradients()
  assert not np.asarray(steepest[norm](np.zeros_like(image), length, image)).any()


def test_linf_and_l2_moves_follow_the_gradient():
  grad, length, image = gradients()
  rows = length[:, None, None, None]
  np.testing.assert_array_equal(steepest["linf"](grad, length, image), rows * np.sign(grad))
  sizes = np.linalg.norm(grad.reshape(len(grad), -1), axis=1)[:, None, None, None]
  np.testing.assert_allclose(steepest["l2"](grad, length, image), rows * grad / sizes, rtol=1e-5, atol=1e-7)


def greedy(grad, length, image):
  """The best l1 move by filling coordinates in the order of |grad|."""
  grad, image = grad.ravel().astype(np.float64), image.ravel().astype(np.float64)
  move, left = np.zeros_like(grad), float(length)
  for i in np.argsort(-np.abs(grad), kind="stable"):
    if grad[i] != 0:
      step = min(left, 1 - image[i] if grad[i] > 0 else image[i])
      move[i], left = np.sign(grad[i]) * step, left - step
  return move


def test_the_l1_move_is_optimal_and_never_leaves_the_box():
  grad, length, image = gradients()
  moves = np.asarray(steepest["l1"](grad, length, image))
  reached = image + moves
  assert reached.dtype == np.float32 and reached.min() >= 0 and reached.max() <= 1
  for g, n, x, move in zip(grad, length, image, moves, strict=True):
    gain, best = (g.astype(np.float64).ravel() @ move.ravel()), g.astype(np.float64).ravel() @ greedy(g, n, x)
    assert np.abs(move).sum(dtype=np.float64) <= n * (1 + 1e-5)
    assert best > 0 and gain == pytest.approx(best, rel=1e-5)


def test_without_ties_the_l1_move_is_the_greedy_one():
  grad, length, image = (rows[2::4] for rows in gradients())
  moves = np.asarray(steepest["l1"](grad, length, image))
  for g, n, x, move in zip(grad, length, image, moves, strict=True):
    np.testing.assert_allclose(move.ravel(), greedy(g, n, x), atol=1e-5)


DRAWS = 4000


@functools.cache
def draws(norm, d):
  keys = jax.random.split(jax.random.key(5), DRAWS)
  center = jnp.full((1, d, 1), 0.5)
  points = jax.jit(jax.vmap(lambda key: norms.random_start(norm, key, center, 0.4)))(keys)
  return (np.asarray(points, np.float64).reshape(DRAWS, d) - 0.5) / 0.4


def share(probability):
  return pytest.approx(probability, abs=4.5 * np.sqrt(probability * (1 - probability) / DRAWS))


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("norm", NORMS)
def test_random_starts_are_uniform_in_the_ball(norm, d):
  radius = np.linalg.norm(draws(norm, d), ORDER[norm], axis=1)
  assert radius.max() <= 1 + 1e-5
  for fraction in (0.5, 0.9):
    assert (radius < fraction).mean() == share(fraction**d)
  assert np.abs(draws(norm, d).mean(0)).max() < 4.5 / np.sqrt(DRAWS)


# The area of the part of a ball in the plane with |x| < 1/2: a diamond, a disc, a square.
@pytest.mark.parametrize(
  ("norm", "part"), [("l1", 0.75), ("l2", 2 / np.pi * (np.pi / 6 + 0.5 * np.sqrt(0.75))), ("linf", 0.5)]
)
def test_random_starts_have_the_marginals_of_their_ball(norm, part):
  x, y = draws(norm, 2).T
  assert (np.abs(x) < 0.5).mean() == share(part) and (np.abs(y) < 0.5).mean() == share(part)
  for sign_x, sign_y in ((1, 1), (1, -1), (-1, 1), (-1, -1)):
    assert ((x * sign_x > 0) & (y * sign_y > 0)).mean() == share(0.25)


@pytest.mark.parametrize("norm", NORMS)
def test_random_starts_are_inside_ball_and_box_for_every_center(norm):
  _, center, eps = cases()
  keys = jax.random.split(jax.random.key(1), len(center))
  start = np.asarray(jax.jit(jax.vmap(functools.partial(norms.random_start, norm)))(keys, center, eps))
  assert start.min() >= 0 and start.max() <= 1
  lengths = np.linalg.norm((start.astype(np.float64) - center).reshape(len(center), -1), ORDER[norm], axis=1)
  assert inside(lengths, eps).all()
  assert np.abs(start - center).max() > 0.1


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("scale", SCALES)
def test_distance_is_the_norm_at_every_scale(norm, scale):
  grad, _, _ = gradients()
  delta = (grad * np.float32(scale)).astype(np.float32)
  wanted = np.linalg.norm(delta.astype(np.float64).reshape(len(delta), -1), ORDER[norm], axis=1)
  np.testing.assert_allclose(distance[norm](delta), wanted, rtol=1e-5)


@pytest.mark.parametrize("norm", NORMS)
def test_the_distance_of_no_perturbation_is_zero_and_of_nan_is_nan(norm):
  assert float(norms.distance(norm, jnp.zeros(SHAPE))) == 0.0
  assert np.isnan(float(norms.distance(norm, jnp.full(SHAPE, jnp.nan))))


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("scale", SCALES)
def test_normalize_gives_norm_one_at_every_scale(norm, scale):
  grad, _, _ = gradients()
  unit = jax.jit(jax.vmap(functools.partial(norms.normalize, norm)))(grad * np.float32(scale))
  np.testing.assert_allclose(distance[norm](unit), 1.0, rtol=1e-5)
  assert not np.asarray(norms.normalize(norm, jnp.zeros(3))).any()
