"""Augmentations by their effects: what they change, by how much, and that an example's own key alone decides it."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jaxrobust.core.errors import InputError, UnknownNameError
from jaxrobust.data.registry import load_data
from jaxrobust.models.registry import make_model
from jaxrobust.training.augmentations import autoaugment, idbh, trivialaugment
from jaxrobust.training.augmentations.augmix import AugMixJSD, jensen_shannon
from jaxrobust.training.augmentations.operations import OPERATIONS
from jaxrobust.training.composition import make_plan, make_technique, prepare
from jaxrobust.training.state import init_state
from jaxrobust.training.step import Recipe, train_step
from jaxrobust.training.technique import Batch, Context

KEY = jax.random.key(0)
AUGMENTS = ("cutout", "random-erasing", "autoaugment", "trivialaugment", "augmix", "idbh")


def batch(count: int = 8, classes: int = 4) -> Batch:
  rng = np.random.default_rng(0)
  images = rng.uniform(size=(count, 32, 32, 3)).astype(np.float32)
  labels = rng.integers(classes, size=count)
  keys = jax.vmap(lambda i: jax.random.fold_in(KEY, i))(jnp.arange(count))
  return Batch(jnp.asarray(images), jax.nn.one_hot(labels, classes), jnp.asarray(labels), keys)


def many(technique, image, count=200):
  """The image after each of `count` keys."""
  return np.asarray(jax.jit(jax.vmap(technique.augment, (None, 0)))(image, jax.random.split(KEY, count)))


@pytest.mark.parametrize("name", AUGMENTS)
def test_augmentations_keep_shape_and_box_and_depend_on_the_example_alone(name):
  plan, rows = make_plan((name,), {}), batch()
  run = jax.jit(functools.partial(prepare, plan))
  together = np.asarray(run(rows, KEY).images)
  assert together.shape == rows.images.shape and together.min() >= -1e-6 and together.max() <= 1 + 1e-6
  assert (np.abs(together - rows.images).max((1, 2, 3)) > 0).any(), "nothing changed"
  order = np.array([5, 2, 7, 0, 1, 3, 4, 6])
  shuffled = run(jax.tree.map(lambda leaf: leaf[order], rows), jax.random.key(9)).images
  np.testing.assert_allclose(np.asarray(shuffled), together[order], atol=1e-6)


def test_operations_equal_pillow_where_it_has_them():
  from PIL import Image, ImageEnhance, ImageOps

  pixels = np.random.default_rng(3).integers(0, 256, (16, 12, 3)).astype(np.uint8)
  image, pil = jnp.asarray(pixels / 255, jnp.float32), Image.fromarray(pixels)
  theirs = {
    ("posterize", 5.0): ImageOps.posterize(pil, 5),
    ("solarize", 100.0): ImageOps.solarize(pil, 100),
    ("autocontrast", 0.0): ImageOps.autocontrast(pil),
    ("color", 0.5): ImageEnhance.Color(pil).enhance(1.5),
    ("contrast", -0.4): ImageEnhance.Contrast(pil).enhance(0.6),
    ("sharpness", 0.5): ImageEnhance.Sharpness(pil).enhance(1.5),
  }
  for (name, amount), expected in theirs.items():
    ours = np.asarray(OPERATIONS[name](image, jnp.float32(amount))) * 255
    np.testing.assert_allclose(ours, np.asarray(expected), atol=2.01, err_msg=name)
  quarter = np.asarray(OPERATIONS["rotate"](image[:12], jnp.float32(90.0)))
  assert min(np.abs(quarter - np.rot90(image[:12], turns)).max() for turns in (1, 3)) < 1e-4


def test_cutout_hides_a_square_that_the_border_may_cut():
  seen = many(make_technique("cutout", size=6, fill=0.25), jnp.ones((16, 12, 3)))
  hidden = (seen == 0.25).all(-1).sum((1, 2))
  assert hidden.max() == 36 and 9 <= hidden.min() < 36
  assert ((seen == 1.0) | (seen == 0.25)).all()


def test_random_erasing_hides_a_box_of_the_area_asked_for():
  erase = make_technique("random-erasing", probability=0.75, smallest=0.1, largest=0.2)
  seen = many(erase, jnp.ones((32, 32, 3)), 400)
  part = (seen == 0).all(-1).mean((1, 2))
  assert (part > 0).mean() == pytest.approx(0.75, abs=0.08)
  assert part[part > 0].min() > 0.08 and part.max() < 0.22
  noisy = many(make_technique("random-erasing", probability=1.0, noise=True), jnp.ones((32, 32, 3)), 4)
  assert np.unique(noisy).size > 100


def test_autoaugment_has_25_pairs_of_known_operations_and_draws_all():
  for name in autoaugment.POLICIES:
    choices, probabilities, levels = autoaugment.policy_table(name)
    assert choices.shape == (25, 2) and probabilities.max() <= 1 and levels.max() <= 1
  # Of ImageNet's pairs the 14th inverts with 0.6; on a white image nothing else makes black.
  names = list(autoaugment.SPACE)
  choices, probabilities, _ = autoaugment.policy_table("imagenet")
  assert names[choices[13, 0]] == "invert" and probabilities[13, 0] == 0.6
  image = batch().images[0]
  assert len({one.tobytes() for one in many(make_technique("autoaugment", policy="cifar10"), image)}) > 60


def test_trivialaugment_applies_one_operation_of_its_wide_space():
  space = trivialaugment.wide_space((32, 32, 3))
  assert len(space) == 14 and space["rotate"](1.0, -1.0) == -135 and space["posterize"](1.0, 1.0) == 2
  assert space["translate-x"](1.0, 1.0) == 1.0, "32 pixels are all of it"
  image = batch().images[0]
  same = np.abs(many(make_technique("trivialaugment"), image, 400) - np.asarray(image)).max((1, 2, 3)) < 1e-6
  # The identity (1/14), strength 0 (1/31) of eight signed operations, and no more bits taken away at the start.
  assert 0.05 < same.mean() < 0.2


def test_crop_shift_shows_a_window_of_the_image_somewhere_on_black():
  image = np.arange(1, 101, dtype=np.float32).reshape(10, 10, 1) / 100
  for number in range(20):
    out = np.asarray(idbh.crop_shift(jnp.asarray(image), jax.random.key(number), 4))[..., 0]
    rows, columns = np.flatnonzero(out.any(1)), np.flatnonzero(out.any(0))
    window = out[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    assert (10 - len(rows)) + (10 - len(columns)) <= 4
    top, left = divmod(round(float(window[0, 0]) * 100) - 1, 10)
    np.testing.assert_allclose(window, image[top : top + len(rows), left : left + len(columns), 0])


def test_idbh_draws_its_operations_as_often_as_the_authors():
  for space, shares in (idbh.COLOR, idbh.SHAPE):
    assert len(space) == len(shares) and sum(shares) == pytest.approx(1.0)


def test_cutmix_mixes_labels_with_the_area_of_the_box():
  rows = batch()._replace(images=jnp.broadcast_to(jnp.arange(8.0)[:, None, None, None] / 8, (8, 32, 32, 3)))
  mixed = jax.jit(make_technique("cutmix").mix)(rows, KEY)
  taken = np.asarray((mixed.images != rows.images)[..., 0]).mean((1, 2))
  assert (taken > 0).any() and np.unique(taken).size > 4, "a box for each example"
  assert set(np.unique(mixed.images)) <= set(np.unique(rows.images))
  expected = (1 - taken)[:, None] * rows.targets + taken[:, None] * rows.targets[::-1]
  np.testing.assert_allclose(mixed.targets, expected, atol=1e-6)
  still = make_technique("cutmix", probability=0.0).mix(rows, KEY)
  np.testing.assert_array_equal(still.images, rows.images)


def test_the_jensen_shannon_divergence_is_zero_on_identical_views_and_equals_its_formula():
  logits = np.array([[1.0, 2.0, 0.5], [0.0, 0.1, 3.0]], np.float32)
  assert np.abs(jensen_shannon(logits, logits, logits)).max() < 1e-6
  others = [logits, logits[::-1].copy(), 0.5 * logits]
  parts = [np.exp(z) / np.exp(z).sum(-1, keepdims=True) for z in others]
  mixture = sum(parts) / 3
  by_hand = sum((p * np.log(p / mixture)).sum(-1) for p in parts) / 3
  np.testing.assert_allclose(jensen_shannon(*others), by_hand, rtol=1e-5)


def test_the_augmix_objective_is_cross_entropy_where_the_network_does_not_see_the_views():
  rows, context = batch(), Context(None, {}, jnp.float32(1), KEY)
  blind = lambda images, stats: (jnp.broadcast_to(jnp.array([1.0, 0.0, 0.0, 0.0]), (len(images), 4)), stats)
  seeing = lambda images, stats: (10 * images.mean((1, 2))[:, :1] * jnp.arange(4.0), stats)

  @jax.jit
  def values(rows):
    return [AugMixJSD().loss(network, rows, context).values for network in (blind, seeing)]

  flat, varied = values(rows)
  np.testing.assert_allclose(flat, -jax.nn.log_softmax(jnp.array([1.0, 0.0, 0.0, 0.0]))[rows.labels], atol=1e-5)
  logits, _ = seeing(rows.images, {})
  assert (varied > -jnp.take_along_axis(jax.nn.log_softmax(logits), rows.labels[:, None], 1)[:, 0]).all()


@pytest.mark.ci
def test_augmentations_train_together_on_the_digits():
  names = ("autoaugment", "cutout", "random-erasing", "cutmix", "augmix-jsd")
  images, labels = load_data("digits32-train").take(np.arange(16))
  one = Recipe(make_model("cnn-tiny"), 10, (0.5,) * 3, (0.5,) * 3, make_plan(names, {}), optax.sgd(0.1))
  state = init_state(one.module, one.optimizer, KEY, (32, 32, 3), averaged=False)
  state, report = jax.jit(functools.partial(train_step, one))(state, images, labels, np.arange(16))
  assert np.isfinite(float(report["loss"]))


@pytest.mark.parametrize(
  "name, options, kind",
  [
    ("cutout", {"size": 0}, InputError),
    ("random-erasing", {"smallest": 0.0}, InputError),
    ("random-erasing", {"probability": 2.0}, InputError),
    ("autoaugment", {"policy": "svhn2"}, UnknownNameError),
    ("idbh", {"version": "cifar"}, UnknownNameError),
    ("augmix", {"severity": 11}, InputError),
    ("augmix-jsd", {"weight": -1}, InputError),
    ("cutmix", {"alpha": 0.0}, InputError),
  ],
)
def test_bad_settings_are_refused(name, options, kind):
  with pytest.raises(kind):
    make_technique(name, **options)
