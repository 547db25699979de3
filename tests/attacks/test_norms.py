"""Balls inside the box, against slow exact solvers in float64 NumPy."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrobust.attacks import norms
from jaxrobust.core.threat import inside, slack

NORMS = ("l1", "l2", "linf")
SHAPE = (4, 4, 3)
ORDER = {"l1": 1, "l2": 2, "linf": np.inf}
EPS = np.array([0.0, 1e-3, 0.01, 0.1, 0.5, 2.0, 10.0, 1e3, 1e6], np.float32)

# One program per norm serves every case: a case is a row.
project = {norm: jax.jit(jax.vmap(functools.partial(norms.project, norm))) for norm in NORMS}
steepest = {norm: jax.jit(jax.vmap(functools.partial(norms.steepest, norm))) for norm in NORMS}
distance = {norm: jax.jit(jax.vmap(functools.partial(norms.distance, norm))) for norm in NORMS}


@functools.cache
def cases(count=180):
  """Images (also outside the box), centres (also on its edge, also all there) and budgets from tiny to huge."""
  rng = np.random.default_rng(0)
  centre = rng.uniform(0, 1, (count, *SHAPE))
  centre[::3] = np.clip(rng.uniform(-1, 2, (len(centre[::3]), *SHAPE)), 0, 1)
  centre[::7] = np.round(centre[::7])
  spread = 10.0 ** rng.uniform(-3, 0.5, (count, 1, 1, 1))
  image = centre + spread * rng.normal(size=centre.shape)
  image[::5] = np.clip(image[::5], 0, 1)
  image[1::11] = centre[1::11]
  ties = image[2::13]
  image[2::13] = centre[2::13] + 0.3 * np.sign(ties - centre[2::13])
  eps = EPS[np.arange(count) % len(EPS)].copy()
  eps[1::11] = 0.5  # The centre itself at eps 0 has a test of its own.
  return image.astype(np.float32), centre.astype(np.float32), eps


def exact_l1(image, centre, eps):
  """Projection onto ball ∩ box by sorting the breakpoints of the piecewise linear length."""
  delta = (image.astype(np.float64) - centre).ravel()
  size, room = np.abs(delta), np.where(delta > 0, 1.0 - centre.ravel().astype(np.float64), centre.ravel())
  lengths = lambda lam: np.clip(size - lam, 0, room).sum()
  lam = 0.0
  if lengths(0.0) > eps:
    knots = np.unique(np.concatenate([[0.0], size, np.maximum(size - room, 0)]))[::-1]
    lam = np.interp(eps, [lengths(knot) for knot in knots], knots)
  return centre + (np.sign(delta) * np.clip(size - lam, 0, room)).reshape(image.shape)


def exact_l2(image, centre, eps):
  delta = image.astype(np.float64) - centre
  length = np.linalg.norm(delta)
  return np.clip(centre + delta * min(1.0, eps / length if length else 1.0), 0, 1)


def exact_linf(image, centre, eps):
  return np.clip(centre + np.clip(image.astype(np.float64) - centre, -float(eps), float(eps)), 0, 1)


EXACT = {"l1": exact_l1, "l2": exact_l2, "linf": exact_linf}


@functools.cache
def projected(norm):
  return np.asarray(project[norm](*cases()))


@pytest.mark.parametrize("norm", NORMS)
def test_projection_equals_the_slow_exact_solver(norm):
  for found, *case in zip(projected(norm), *cases(), strict=True):
    np.testing.assert_allclose(found, EXACT[norm](*case), atol=1e-6, rtol=0)


@pytest.mark.parametrize("norm", NORMS)
def test_projection_is_inside_ball_and_box_together(norm):
  _, centre, eps = cases()
  found = projected(norm)
  assert np.isfinite(found).all() and found.min() >= 0 and found.max() <= 1
  lengths = [
    np.linalg.norm((a.astype(np.float64) - c).ravel(), ORDER[norm]) for a, c in zip(found, centre, strict=True)
  ]
  within = inside(np.array(lengths), eps)
  # Soft-thresholding points far outside (up to 10 units) rounds at their scale, not at that of a tiny l1 ball.
  assert within[(eps >= 0.1) | (eps == 0)].all() if norm == "l1" else within.all()
  assert (np.array(lengths) <= eps * (1 + 1e-5) + 3e-6).all()


REACHED = [(norm, eps) for norm in NORMS for eps in (0.01, 0.1, 1.0, 5.0)]


@pytest.mark.parametrize(("norm", "eps"), REACHED)
def test_points_an_attack_reaches_are_projected_inside_by_the_shared_tolerance(norm, eps):
  _, centre, _ = cases()
  rng = np.random.default_rng(6)
  budget = np.full(len(centre), eps, np.float32)
  delta = rng.normal(size=centre.shape) * (
    rng.uniform(size=centre.shape) < rng.uniform(0.02, 0.5, (len(centre), 1, 1, 1))
  )
  lengths = np.maximum(np.linalg.norm(delta.reshape(len(delta), -1), ORDER[norm], axis=1), 1e-9)
  image = (centre + delta * (2 * eps / lengths)[:, None, None, None]).astype(np.float32)
  found = np.asarray(project[norm](image, centre, budget), np.float64)
  sizes = np.linalg.norm((found - centre).reshape(len(centre), -1), ORDER[norm], axis=1)
  assert inside(sizes, budget, slack(norm, centre[0].size)).all() and (sizes > 0.3 * min(eps, 1)).mean() > 0.5


def test_a_dense_l1_perturbation_of_a_large_image_is_projected_inside():
  centre = np.random.default_rng(0).uniform(0, 1, (2, 224, 224, 3)).astype(np.float32)
  image = np.where(centre > 0.5, centre - 0.1, centre + 0.1).astype(np.float32)
  eps = np.full(2, 12.0, np.float32)
  found = np.asarray(project["l1"](image, centre, eps), np.float64)
  assert inside(np.abs(found - centre).sum((1, 2, 3)), eps, slack("l1", centre[0].size)).all()


@pytest.mark.parametrize("norm", NORMS)
def test_projection_is_idempotent(norm):
  _, centre, eps = cases()
  again = np.asarray(project[norm](projected(norm), centre, eps))
  np.testing.assert_allclose(again[eps > 0], projected(norm)[eps > 0], atol=1e-6, rtol=0)


@pytest.mark.parametrize("norm", NORMS)
def test_a_point_of_ball_and_box_is_not_moved(norm):
  _, centre, _ = cases()
  rng = np.random.default_rng(1)
  image = np.clip(centre + rng.uniform(-0.05, 0.05, centre.shape), 0, 1).astype(np.float32)
  np.testing.assert_allclose(project[norm](image, centre, np.full(len(centre), 5.0, "f4")), image, atol=1e-7, rtol=0)


@pytest.mark.parametrize("norm", NORMS)
def test_a_budget_of_zero_gives_the_centre_bit_for_bit(norm):
  _, centre, eps = cases()
  assert (eps == 0).sum() > 10
  np.testing.assert_array_equal(projected(norm)[eps == 0], centre[eps == 0])


BALLS = ["l1", "l2", "linf"]


@pytest.mark.parametrize("norm", BALLS)
def test_the_centre_itself_is_projected_onto_itself_without_a_budget(norm):
  _, centre, eps = cases()
  np.testing.assert_array_equal(project[norm](centre, centre, np.zeros_like(eps)), centre)


@pytest.mark.parametrize("norm", BALLS)
def test_an_infinite_budget_only_clips_into_the_box(norm):
  image, centre, eps = cases()
  found = project[norm](image, centre, np.full_like(eps, np.inf))
  np.testing.assert_allclose(found, np.clip(image, 0, 1), atol=3e-7)


@pytest.mark.parametrize("norm", ["l1", "linf"])
def test_projection_is_the_nearest_point(norm):
  # For a convex set: (image - p)·(z - p) <= 0 for every z in it; here many z of ball and box.
  rng = np.random.default_rng(2)
  for p, image, centre, eps in list(zip(projected(norm), *cases(), strict=True))[::4]:
    delta = rng.normal(size=(50, *SHAPE)) * (rng.uniform(size=(50, *SHAPE)) < 0.2)
    lengths = np.array([max(np.linalg.norm(d.ravel(), ORDER[norm]), 1e-9) for d in delta])
    z = np.clip(centre + delta * (min(float(eps), 50.0) / lengths)[:, None, None, None], 0, 1)
    slack = ((image.astype(np.float64) - p) * (z - p)).sum((1, 2, 3))
    assert slack.max() <= 1e-5 * (1 + np.abs(image).max())


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
  centre = jnp.full((1, d, 1), 0.5)
  points = jax.jit(jax.vmap(lambda key: norms.random_start(norm, key, centre, 0.4)))(keys)
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
def test_random_starts_are_inside_ball_and_box_for_every_centre(norm):
  _, centre, eps = cases()
  keys = jax.random.split(jax.random.key(1), len(centre))
  start = np.asarray(jax.jit(jax.vmap(functools.partial(norms.random_start, norm)))(keys, centre, eps))
  assert start.min() >= 0 and start.max() <= 1
  lengths = np.linalg.norm((start.astype(np.float64) - centre).reshape(len(centre), -1), ORDER[norm], axis=1)
  assert inside(lengths, eps).all()
  assert np.abs(start - centre).max() > 0.1


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
def test_normalise_gives_norm_one_at_every_scale(norm, scale):
  grad, _, _ = gradients()
  unit = jax.jit(jax.vmap(functools.partial(norms.normalise, norm)))(grad * np.float32(scale))
  np.testing.assert_allclose(distance[norm](unit), 1.0, rtol=1e-5)
  assert not np.asarray(norms.normalise(norm, jnp.zeros(3))).any()
