"""FAB: projections against a float64 solution, closed-form minima, and the authors' distances on a real network."""

from __future__ import annotations

import json
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrobust.attacks.fab import FAB, FABT
from jaxrobust.attacks.hyperplane import boundaries, likely_wrong, toward
from jaxrobust.attacks.schedule import Cascade, Stage
from jaxrobust.core.classifier import Classifier
from jaxrobust.core.errors import InputError
from jaxrobust.core.types import Cost, Problem
from jaxrobust.engine.api import attack_images
from jaxrobust.engine.options import EngineOptions
from tests import realdata
from tests.realdata import needs_data

NORMS = ("linf", "l2", "l1")
ORDER = {"linf": np.inf, "l2": 2, "l1": 1}
# One slot count, so that little is compiled.
SLOTS = EngineOptions.for_platform(16, shrink=False)
# Minimal distances of the authors' code (100 iterations, no restarts) on `fmnist_network`, first 200 images.
GOLDEN = pathlib.Path(__file__).parents[1] / "golden" / "fab_distances.json"


def shortest(norm: str, x: np.ndarray, w: np.ndarray, gap: float) -> np.ndarray:
  """The move onto a hyperplane in float64, by the optimality conditions and two hundred halvings."""
  x, w, need = x.astype(np.float64), w.astype(np.float64), abs(gap)
  direction = -np.sign(gap) * np.sign(w)
  room = np.where(direction > 0, 1 - x, np.where(direction < 0, x, 0.0))
  if (np.abs(w) * room).sum() <= need:
    return direction * room
  if norm == "l1":
    length = np.zeros_like(x)
    for i in np.argsort(-np.abs(w)):
      length[i] = min(room[i], need / abs(w[i]))
      need -= abs(w[i]) * length[i]
      if need <= 0:
        break
    return direction * length
  rate = np.ones_like(w) if norm == "linf" else np.abs(w)
  low, high = 0.0, 1e6
  for _ in range(200):
    middle = 0.5 * (low + high)
    short = (np.abs(w) * np.minimum(middle * rate, room)).sum() < need
    low, high = (middle, high) if short else (low, middle)
  return direction * np.minimum(high * rate, room)


def linear(seed: int, classes: int = 4) -> tuple[Classifier, np.ndarray, np.ndarray]:
  """A linear classifier of 4×4 images."""
  rng = np.random.default_rng(seed)
  weights = rng.normal(size=(16, classes)).astype(np.float32)
  weights[:, 1:] += weights[:, :1] * 0.3
  offset = rng.normal(size=classes).astype(np.float32) * 0.2
  return Classifier.from_function(_linear, classes, variables=(weights, offset)), weights, offset


def _linear(variables, images):
  return images.reshape(len(images), -1) @ variables[0] + variables[1]


def closed_form(norm: str, x: np.ndarray, labels: np.ndarray, weights: np.ndarray, offset: np.ndarray) -> np.ndarray:
  """The distance of each image to the nearest other class inside the box."""
  result = np.full(len(x), np.inf)
  for row, (image, label) in enumerate(zip(x.reshape(len(x), -1), labels, strict=True)):
    logits = image @ weights + offset
    for other in range(weights.shape[1]):
      w, gap = weights[:, other] - weights[:, label], logits[other] - logits[label]
      move = shortest(norm, image, w, gap)
      if other != label and abs(w @ move + gap) < 1e-4:
        result[row] = min(result[row], np.linalg.norm(move, ORDER[norm]))
  return result


@pytest.mark.parametrize("norm", NORMS)
def test_the_move_onto_a_hyperplane_is_the_shortest(norm):
  rng = np.random.default_rng(0)
  x = rng.uniform(size=(60, 50)).astype(np.float32)
  x[:10] = x[:10].round()
  w = rng.normal(size=x.shape).astype(np.float32)
  w[10:20] *= rng.uniform(size=(10, 50)) < 0.1
  gap = (rng.normal(size=60) * np.exp(2 * rng.normal(size=60))).astype(np.float32)
  gap[20] = 0.0
  expected = np.stack([shortest(norm, *row) for row in zip(x, w, gap, strict=True)])
  move = jax.jit(jax.vmap(lambda x, w, gap: toward(norm, x, w, gap)))
  np.testing.assert_allclose(move(x, w, gap), expected, atol=2e-5)
  assert ((x + move(x, w, gap) >= 0) & (x + move(x, w, gap) <= 1)).all()
  for scale in (1e-30, 1e30):
    np.testing.assert_allclose(move(x, w * scale, gap * scale), expected, atol=2e-5)
  assert not np.any(move(x, np.zeros_like(w), gap))


# The nearest boundary is chosen without regard to the box, as the authors do, so that with an active box `fab` may
# miss the nearest class; `fab-t` tries all. The shortest l1 moves always use up single pixels.
LINEAR = [
  *[(FAB(norm), 4, 0.45, 0.55) for norm in ("linf", "l2")],
  *[(FAB(norm), 2, 0.0, 1.0) for norm in NORMS],
  *[(FABT(norm), 4, 0.0, 1.0) for norm in NORMS],
]


@pytest.mark.parametrize(("attack", "classes", "low", "high"), LINEAR)
def test_linear_minimum(attack, classes, low, high):
  classifier, weights, offset = linear(0, classes)
  x = np.random.default_rng(1).uniform(low, high, (24, 4, 4, 1)).astype(np.float32)
  if low == 0.0:
    x = np.where(np.random.default_rng(2).uniform(size=x.shape) < 0.5, x.round(), x)
  labels = np.asarray(classifier(x)).argmax(1)
  best = closed_form(attack.norm, x, labels, weights, offset)
  ranks = Cascade(tuple(Stage(attack, rank=rank) for rank in range(1, classes)))
  result = attack_images(attack if attack.name == "fab" else ranks, classifier, x, labels, options=SLOTS)
  assert result.success.all()
  np.testing.assert_array_less(best * (1 - 1e-4), result.distance)
  np.testing.assert_array_less(result.distance, best * 1.01 + 1e-5)


def test_a_target_must_win():
  classifier, *_ = linear(3)
  x = np.random.default_rng(1).uniform(0.2, 0.8, (16, 4, 4, 1)).astype(np.float32)
  order = np.asarray(classifier(x)).argsort(1)
  result = attack_images(FABT("l2"), classifier, x, order[:, -1], targets=order[:, 0], options=SLOTS)
  assert result.success.all()
  assert np.array_equal(np.asarray(classifier(result.images)).argmax(1), order[:, 0])


def test_where_a_target_only_steers_a_third_class_will_do():
  classifier, *_ = linear(3)
  x = jnp.asarray(np.random.default_rng(1).uniform(0.2, 0.8, (4, 4, 1)), jnp.float32)
  target, label, *_, winner = np.asarray(classifier(x[None]))[0].argsort()
  problem = Problem(x, jnp.array(label), jnp.array(target), jnp.array(1.0), jax.random.key(0))
  for steer in (False, True):
    attack = FABT("l2", steer=steer)
    state, _ = attack.step(lambda image: classifier(image[None])[0], problem, attack.init(problem))
    assert winner not in (label, target) and bool(state.back) == steer


def test_all_boundaries_come_from_one_look():
  classifier, weights, _ = linear(0)
  x = jnp.full((4, 4, 1), 0.5)
  calls = []

  def logits_fn(image):
    calls.append(1)
    return classifier(image[None])[0]

  seen = boundaries(logits_fn, x, lambda z: (likely_wrong(z, 0, 9), jnp.zeros(3, jnp.int32)))
  order = np.argsort(-np.asarray(classifier(x[None]))[0, 1:]) + 1
  np.testing.assert_allclose(seen.normal.reshape(3, -1), (weights[:, order] - weights[:, :1]).T, rtol=1e-5)
  assert len(calls) == 1


@pytest.mark.parametrize("norm", NORMS)
def test_random_start_is_half_a_budget_away(norm):
  attack = FAB(norm, random_start=True)
  start = jax.jit(lambda eps: attack.init(Problem(jnp.full((8, 8, 1), 0.5), 0, -1, eps, jax.random.key(0))).image)
  for eps, radius in ((0.2, 0.1), (np.inf, {"linf": 0.15, "l2": 0.5, "l1": 2.5}[norm])):
    np.testing.assert_allclose(np.linalg.norm(start(eps).ravel() - 0.5, ORDER[norm]), radius, rtol=1e-5)


def test_settings():
  assert FABT().cost == Cost(1, 1) and FAB(target_classes=4).cost == Cost(1, 4)
  with pytest.raises(InputError, match="target class"):
    FAB(target_classes=0)


@needs_data
@pytest.mark.slow
def test_recorded_flags_of_the_authors():
  """With `revisit` and twice the steps, every iteration of theirs is one of ours."""
  x, y = realdata.fmnist_test(200)
  flags = realdata.reference_flags("autoattack/fab_100_linf")
  exact = attack_images(FAB("linf", num_steps=200, revisit=True), realdata.fmnist_network(), x, y, eps=0.1)
  assert abs(exact.robust.mean() - flags.mean()) <= 0.004 and (exact.robust == flags).mean() >= 0.99
  fast = attack_images(FAB("linf"), realdata.fmnist_network(), x, y, eps=0.1)
  assert fast.robust.mean() <= flags.mean() + 0.004 and (fast.robust == flags).mean() >= 0.99


@needs_data
@pytest.mark.slow
@pytest.mark.parametrize("name", ["fab", "fab-t"])
@pytest.mark.parametrize("norm", NORMS)
def test_distances_of_the_authors(name, norm):
  """No larger on the whole; on single images either may find another class. The median jumps where the set has gaps."""
  x, y = realdata.fmnist_test(200)
  theirs = np.array(json.loads(GOLDEN.read_text())[f"{name}_{norm}"])
  attack = FAB(norm) if name == "fab" else Cascade(tuple(Stage(FABT(norm), rank=rank) for rank in range(1, 10)))
  result = attack_images(attack, realdata.fmnist_network(), x, y)
  # With all boundaries in l1, theirs misses one image too.
  assert result.success.mean() >= 0.99
  both = result.correct & result.success & (theirs < 1e9)
  ratio = result.distance[both] / theirs[both]
  assert np.median(ratio) <= 1.0 and np.exp(np.log(ratio).mean()) <= 1.0


@needs_data
@pytest.mark.slow
@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_with_the_authors_iterations_distances_are_theirs(norm):
  """Smaller ones come from iterations that take one step of the two: 200 steps then hold more than 100."""
  x, y = realdata.fmnist_test(200)
  theirs = np.array(json.loads(GOLDEN.read_text())[f"fab-t_{norm}"])
  attack = FABT(norm, num_steps=200, revisit=True, steer=True)
  ranks = Cascade(tuple(Stage(attack, rank=rank) for rank in range(1, 10)))
  result = attack_images(ranks, realdata.fmnist_network(), x, y)
  ratio = result.distance[result.correct] / theirs[result.correct]
  assert np.mean(ratio > 1.01) <= 0.01 and np.mean(np.abs(ratio - 1) <= 0.01) >= 0.9
