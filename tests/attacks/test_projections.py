"""Balls inside the box, against slow exact solvers in float64 NumPy."""

import functools

import numpy as np
import pytest

from jaxrobust.core.budget import inside, rounding_tolerance
from tests.attacks.norm_cases import NORMS, ORDER, SHAPE, cases, project


def exact_l1(image, center, eps):
  """Projection onto ball ∩ box by sorting the breakpoints of the piecewise linear length."""
  delta = (image.astype(np.float64) - center).ravel()
  size, room = np.abs(delta), np.where(delta > 0, 1.0 - center.ravel().astype(np.float64), center.ravel())
  lengths = lambda lam: np.clip(size - lam, 0, room).sum()
  lam = 0.0
  if lengths(0.0) > eps:
    knots = np.unique(np.concatenate([[0.0], size, np.maximum(size - room, 0)]))[::-1]
    lam = np.interp(eps, [lengths(knot) for knot in knots], knots)
  return center + (np.sign(delta) * np.clip(size - lam, 0, room)).reshape(image.shape)


def exact_l2(image, center, eps):
  delta = image.astype(np.float64) - center
  length = np.linalg.norm(delta)
  return np.clip(center + delta * min(1.0, eps / length if length else 1.0), 0, 1)


def exact_linf(image, center, eps):
  return np.clip(center + np.clip(image.astype(np.float64) - center, -float(eps), float(eps)), 0, 1)


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
  _, center, eps = cases()
  found = projected(norm)
  assert np.isfinite(found).all() and found.min() >= 0 and found.max() <= 1
  lengths = [
    np.linalg.norm((a.astype(np.float64) - c).ravel(), ORDER[norm]) for a, c in zip(found, center, strict=True)
  ]
  within = inside(np.array(lengths), eps)
  # Soft-thresholding points far outside (up to 10 units) rounds at their scale, not at that of a tiny l1 ball.
  assert within[(eps >= 0.1) | (eps == 0)].all() if norm == "l1" else within.all()
  assert (np.array(lengths) <= eps * (1 + 1e-5) + 3e-6).all()


REACHED = [(norm, eps) for norm in NORMS for eps in (0.01, 0.1, 1.0, 5.0)]


@pytest.mark.parametrize(("norm", "eps"), REACHED)
def test_points_an_attack_reaches_are_projected_inside_by_the_shared_tolerance(norm, eps):
  _, center, _ = cases()
  rng = np.random.default_rng(6)
  budget = np.full(len(center), eps, np.float32)
  delta = rng.normal(size=center.shape) * (
    rng.uniform(size=center.shape) < rng.uniform(0.02, 0.5, (len(center), 1, 1, 1))
  )
  lengths = np.maximum(np.linalg.norm(delta.reshape(len(delta), -1), ORDER[norm], axis=1), 1e-9)
  image = (center + delta * (2 * eps / lengths)[:, None, None, None]).astype(np.float32)
  found = np.asarray(project[norm](image, center, budget), np.float64)
  sizes = np.linalg.norm((found - center).reshape(len(center), -1), ORDER[norm], axis=1)
  assert (
    inside(sizes, budget, rounding_tolerance(norm, center[0].size)).all() and (sizes > 0.3 * min(eps, 1)).mean() > 0.5
  )


def test_a_dense_l1_perturbation_of_a_large_image_is_projected_inside():
  center = np.random.default_rng(0).uniform(0, 1, (2, 224, 224, 3)).astype(np.float32)
  image = np.where(center > 0.5, center - 0.1, center + 0.1).astype(np.float32)
  eps = np.full(2, 12.0, np.float32)
  found = np.asarray(project["l1"](image, center, eps), np.float64)
  assert inside(np.abs(found - center).sum((1, 2, 3)), eps, rounding_tolerance("l1", center[0].size)).all()


@pytest.mark.parametrize("norm", NORMS)
def test_projection_is_idempotent(norm):
  _, center, eps = cases()
  again = np.asarray(project[norm](projected(norm), center, eps))
  np.testing.assert_allclose(again[eps > 0], projected(norm)[eps > 0], atol=1e-6, rtol=0)


@pytest.mark.parametrize("norm", NORMS)
def test_a_point_of_ball_and_box_is_not_moved(norm):
  _, center, _ = cases()
  rng = np.random.default_rng(1)
  image = np.clip(center + rng.uniform(-0.05, 0.05, center.shape), 0, 1).astype(np.float32)
  np.testing.assert_allclose(project[norm](image, center, np.full(len(center), 5.0, "f4")), image, atol=1e-7, rtol=0)


@pytest.mark.parametrize("norm", NORMS)
def test_a_budget_of_zero_gives_the_center_bit_for_bit(norm):
  _, center, eps = cases()
  assert (eps == 0).sum() > 10
  np.testing.assert_array_equal(projected(norm)[eps == 0], center[eps == 0])


BALLS = ["l1", "l2", "linf"]


@pytest.mark.parametrize("norm", BALLS)
def test_the_center_itself_is_projected_onto_itself_without_a_budget(norm):
  _, center, eps = cases()
  np.testing.assert_array_equal(project[norm](center, center, np.zeros_like(eps)), center)


@pytest.mark.parametrize("norm", BALLS)
def test_an_infinite_budget_only_clips_into_the_box(norm):
  image, center, eps = cases()
  found = project[norm](image, center, np.full_like(eps, np.inf))
  np.testing.assert_allclose(found, np.clip(image, 0, 1), atol=3e-7)


@pytest.mark.parametrize("norm", ["l1", "linf"])
def test_projection_is_the_nearest_point(norm):
  # For a convex set: (image - p)·(z - p) <= 0 for every z in it; here many z of ball and box.
  rng = np.random.default_rng(2)
  for p, image, center, eps in list(zip(projected(norm), *cases(), strict=True))[::4]:
    delta = rng.normal(size=(50, *SHAPE)) * (rng.uniform(size=(50, *SHAPE)) < 0.2)
    lengths = np.array([max(np.linalg.norm(d.ravel(), ORDER[norm]), 1e-9) for d in delta])
    z = np.clip(center + delta * (min(float(eps), 50.0) / lengths)[:, None, None, None], 0, 1)
    slack = ((image.astype(np.float64) - p) * (z - p)).sum((1, 2, 3))
    assert slack.max() <= 1e-5 * (1 + np.abs(image).max())
