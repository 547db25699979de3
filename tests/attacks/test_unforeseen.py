"""Rotation and translation, patches and ImageNet-UA: the authors' renderings and steps, closed forms, refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrobust as jr
from jaxrobust.attacks.registry import attack_id, make_attack
from jaxrobust.attacks.rigid import RigidMotion, motions
from jaxrobust.attacks.unforeseen.snow import oblong
from jaxrobust.attacks.witness_descent import DescentState, Scene
from jaxrobust.core.errors import InputError

GOLDEN = np.load(Path(__file__).parents[1] / "golden" / "unforeseen.npz")
KEY, key_data = jax.random.key(0), jax.random.key_data


def channels_last(array: np.ndarray) -> np.ndarray:
  return np.moveaxis(array[0], 0, -1)


def blocks(array: np.ndarray) -> np.ndarray:
  """The authors' (1, channels, blocks, 8, 8) as (rows, columns, 8, 8, channels)."""
  return np.moveaxis(array[0].reshape(3, 2, 2, 8, 8), 0, -1)


IMAGE, WEIGHTS = channels_last(GOLDEN["image"]), channels_last(GOLDEN["weights"])


def snow_kernels(threat: Any, image: Any, offset: Any) -> Any:
  return threat.laid(image, offset, jnp.asarray(GOLDEN["snow-kernels"][0]))


def gabor_waves(threat: Any, image: Any, offset: Any) -> Any:
  there = (GOLDEN["gabor-offset"][:, 0] != 0).astype(np.float32)
  kernel = threat.waves(float(GOLDEN["gabor-angle"][0]), float(GOLDEN["gabor-frequency"][0]))
  np.testing.assert_allclose(kernel, GOLDEN["gabor-kernel"], atol=1e-5)
  return threat.laid(image, offset * there, kernel)


def shapes(threat: Any, image: Any, offset: Any) -> Any:
  masks, first = jnp.asarray(GOLDEN["kaleidoscope-masks"][0]), GOLDEN["kaleidoscope-first"][0]
  return threat.laid(image, masks, first + offset, jnp.asarray(GOLDEN["kaleidoscope-edges"][0, 0]))


def plain(threat: Any, image: Any, offset: Any) -> Any:
  return threat.draw(image, offset, KEY, 1)


# Name, its budget in the golden file, the authors' layout of offsets as ours, and the rendering.
CASES = [
  ("jpeg", 0.02, blocks, plain),
  ("elastic", 0.5, channels_last, plain),
  ("wood", 0.05, lambda array: array[0, 0], plain),
  ("glitch", 0.1, lambda array: array[0], plain),
  ("pixel", 3.0, channels_last, plain),
  ("snow", 3.0, lambda array: array[0], snow_kernels),
  ("gabor", 0.03, lambda array: array[:, 0], gabor_waves),
  ("kaleidoscope", 0.1, lambda array: array[0], shapes),
]


@pytest.mark.parametrize(("name", "eps", "ours", "draw"), CASES, ids=[case[0] for case in CASES])
def test_renderings_and_steps_are_the_authors(name, eps, ours, draw):
  attack = make_attack(name)
  offset = jnp.asarray(ours(GOLDEN[f"{name}-offset"]))
  shown, pull = jax.vjp(lambda offset: jnp.clip(draw(attack.threat, jnp.asarray(IMAGE), offset), 0, 1), offset)
  np.testing.assert_allclose(shown, channels_last(GOLDEN[f"{name}-image"]), atol=1e-5)
  slope = pull(jnp.asarray(WEIGHTS))[0]
  state = DescentState(Scene(offset, key_data(KEY), jnp.asarray(1)), (), jnp.asarray(0))
  moved, _ = attack.move(None, state, slope)
  after = attack.threat.project(jnp.asarray(IMAGE), moved, eps)
  expected = ours(GOLDEN[f"{name}-after"])
  # Signs of gradients that are zero but for rounding are anyone's.
  clear = np.abs(slope) > 1e-5 * np.abs(slope).max()
  np.testing.assert_allclose(np.where(clear, after, 0), np.where(clear, expected, 0), atol=1e-5)
  assert clear.mean() > 0.9 or name in ("snow", "gabor"), "which are sparse"


def test_flakes_are_the_authors():
  for drawn, (middle, row, column, width) in zip(GOLDEN["snow-lines"], GOLDEN["snow-ends"], strict=True):
    inner = drawn[7 - middle : 8 + middle, 7 - middle : 8 + middle]
    np.testing.assert_allclose(oblong(2 * middle + 1, row, column, width), inner, atol=1e-6)


def test_chance_is_that_of_the_image():
  """Masks, kernels and shapes follow from the witness alone; the next example's are others."""
  image = jnp.asarray(IMAGE)
  for name in ("snow", "gabor", "kaleidoscope"):
    threat = make_attack(name).threat
    drawn = jax.jit(lambda key: threat.render(image, Scene(threat.start(image, 1.0, key), key_data(key), 1)))  # noqa: B023
    one, again, other = (drawn(key) for key in (KEY, KEY, jax.random.key(1)))
    assert np.array_equal(one, again) and not np.array_equal(one, other), name


def edge_of_light(images: Any) -> Any:
  """Logits of a classifier of a shift: is the brightest column at the left of column 8?"""
  where = jnp.argmax(images[..., 0].mean(1), axis=1)
  return jnp.stack([8.0 - where, where - 7.5], -1)


def test_a_shift_is_found_by_the_grid_exactly_where_there_is_one():
  """A bright column at c moves beyond column 8 if a shift of 10 % of 16 pixels, times the budget, carries it there."""
  columns = np.arange(4, 8)
  images = np.zeros((4, 16, 16, 1), np.float32)
  for image, column in zip(images, columns, strict=True):
    image[:, column] = 1.0
  model = jr.Classifier.from_function(edge_of_light, 2)
  attack = make_attack("rigid-grid", angles=1, shifts=5, shift=0.125)
  for eps, reach in ((0.5, 1), (1.0, 2), (2.0, 4)):
    result = jr.attack_images(attack, model, images, np.zeros(4, int), eps=eps)
    assert np.array_equal(result.success, columns + reach >= 8), eps
    assert (result.distance[result.success] <= eps).all()


def test_the_grid_is_all_of_the_grid():
  """Brute force over the same motions, one by one."""
  rng, threat = np.random.default_rng(0), RigidMotion()
  weights = rng.normal(size=(8, 8)).astype(np.float32)
  images = rng.uniform(0, 1, (12, 8, 8, 1)).astype(np.float32)

  def logits(images):
    score = (images[..., 0] * weights).sum((1, 2))
    return jnp.stack([score, 0 * score], -1)

  model = jr.Classifier.from_function(logits, 2)
  labels = np.asarray(model(images)).argmax(1)
  attack = make_attack("rigid-grid", angles=7, shifts=3)
  assert attack.num_steps == 63 and attack_id(attack) == "rigid-rigid-grid-63,angles=7,shifts=3"
  found = jr.attack_images(attack, model, images, labels, eps=0.4)
  moved = jax.vmap(lambda image: jax.vmap(lambda w: threat.draw(image, 0.4 * w, KEY, 1))(motions(7, 3)))(images)
  answers = np.asarray(model(moved.reshape(-1, 8, 8, 1))).argmax(1).reshape(12, -1)
  expected = (answers != labels[:, None]).any(1)
  assert 0 < expected.sum() < 12 and np.array_equal(found.success, expected)


def test_a_quarter_turn_is_a_quarter_turn():
  image = jnp.asarray(IMAGE)
  turned = RigidMotion(angle=90.0).draw(image, jnp.array([1.0, 0.0, 0.0]), KEY, 1)
  np.testing.assert_allclose(turned, np.rot90(image), atol=1e-5)


def test_a_patch_breaks_what_its_area_allows():
  """The mean of an image of 0.25 rises above 0.5 with a white square if this covers more than a third of it."""

  def logits(images):
    mean = images.mean((1, 2, 3))
    return jnp.stack([0.5 - mean, mean - 0.5], -1)

  model, images = jr.Classifier.from_function(logits, 2), np.full((2, 8, 8, 1), 0.25, np.float32)
  attack = make_attack("patch", locations=2)
  for eps, broken in ((0.5, False), (0.62, False), (0.63, True)):
    result = jr.attack_images(attack, model, images, np.zeros(2, int), eps=eps)
    assert result.success.all() == result.success.any() == broken, eps
    if broken:
      assert (result.distance == 5 / 8).all()


def test_sizes_that_do_not_fit_are_refused_by_name():
  model = jr.Classifier.from_function(lambda x: jnp.stack([x.mean((1, 2, 3)), 1 - x.mean((1, 2, 3))], -1), 2)
  gray, odd = np.full((1, 16, 16, 1), 0.4, np.float32), np.full((1, 9, 9, 3), 0.4, np.float32)
  for name, images, text in (
    ("jpeg", odd, "jpeg's blocks of 8 pixels must divide the image, which is 9 × 9"),
    ("elastic", odd, "elastic's factor 2 must divide"),
    ("glitch", odd, "glitch's 16 lines must divide"),
    *((name, gray, f"{name} needs images of three channels, got 1") for name in ("jpeg", "snow", "kaleidoscope")),
  ):
    with pytest.raises(InputError, match=text):
      jr.attack_images(make_attack(name), model, images, np.ones(1, int), eps=0.1)
