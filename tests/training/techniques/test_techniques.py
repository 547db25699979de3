"""Each technique does what it says, by its effect."""

from __future__ import annotations

import dataclasses
import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jaxrobust.core.errors import InputError, UnknownNameError
from jaxrobust.models.registry import make_model
from jaxrobust.testing import CLASSES, examples, fixture
from jaxrobust.training.augmentations.operations import OPERATIONS
from jaxrobust.training.augmentations.randaugment import SPACE
from jaxrobust.training.composition import make_plan, make_technique, prepare
from jaxrobust.training.optimizers import make_optimizer
from jaxrobust.training.state import init_state
from jaxrobust.training.step import Recipe, first_nonfinite, train_step
from jaxrobust.training.technique import Batch, Clock
from jaxrobust.training.techniques.adversarial import craft
from jaxrobust.training.techniques.objectives import kl_divergence, soft_cross_entropy
from jaxrobust.training.techniques.trades import trades_loss

KEY = jax.random.key(0)
AUGMENTS = ("flip", "pad-crop-flip", "random-resized-crop", "color-jitter", "randaugment")


def batch(count: int = 8, classes: int = 4) -> Batch:
  rng = np.random.default_rng(0)
  images = rng.uniform(size=(count, 16, 12, 3)).astype(np.float32)
  labels = rng.integers(classes, size=count)
  keys = jax.vmap(lambda i: jax.random.fold_in(KEY, i))(jnp.arange(count))
  return Batch(jnp.asarray(images), jax.nn.one_hot(labels, classes), jnp.asarray(labels), keys)


@pytest.mark.parametrize("name", AUGMENTS)
def test_augmentations_keep_shape_and_box_and_depend_on_the_example_alone(name):
  plan, rows = make_plan((name,), {}), batch()
  run = jax.jit(functools.partial(prepare, plan))
  together = np.asarray(run(rows, KEY).images)
  assert together.shape == rows.images.shape and together.min() >= 0 and together.max() <= 1
  assert (np.abs(together - rows.images).max((1, 2, 3)) > 0).any(), "nothing changed"
  order = np.array([5, 2, 7, 0, 1, 3, 4, 6])
  shuffled = run(jax.tree.map(lambda leaf: leaf[order], rows), jax.random.key(9)).images
  np.testing.assert_allclose(np.asarray(shuffled), together[order], atol=1e-6)


def test_pad_crop_shows_a_window_of_the_padded_image():
  image = jnp.arange(1, 1 + 6 * 5.0).reshape(6, 5, 1) / 100
  padded = np.pad(np.asarray(image), ((2, 2), (2, 2), (0, 0)))
  windows = [padded[i : i + 6, j : j + 5] for i in range(5) for j in range(5)]
  crop = make_technique("pad-crop-flip", padding=2, flip=False)
  seen = {int(np.argmin([np.abs(np.asarray(crop.augment(image, jax.random.key(k))) - w).max() for w in windows]))
          for k in range(60)}  # fmt: skip
  found = [
    np.abs(np.asarray(crop.augment(image, jax.random.key(k)))[None] - windows).max((1, 2, 3)).min() for k in range(9)
  ]
  assert max(found) == 0 and len(seen) > 15


def test_random_resized_crop_of_the_whole_image_changes_nothing():
  image = batch().images[0]
  whole = make_technique("random-resized-crop", smallest=1.0, aspect=1.0)
  np.testing.assert_allclose(whole.augment(image, KEY), image, atol=1e-5)


def test_color_jitter_without_strength_changes_nothing_and_scales_brightness():
  image = 0.5 * batch().images[0]
  still = make_technique("color-jitter", brightness=0.0, contrast=0.0, saturation=0.0)
  np.testing.assert_allclose(still.augment(image, KEY), image, atol=1e-6)
  bright = make_technique("color-jitter", brightness=0.5, contrast=0.0, saturation=0.0)
  ratio = np.asarray(bright.augment(image, KEY)) / np.asarray(image)
  assert ratio.std() < 1e-4 and 0.5 <= ratio.mean() <= 1.5


@pytest.mark.parametrize("name", SPACE)
def test_randaugment_operations_stay_in_the_box(name):
  image = batch().images[0]
  for level, sign in ((0.0, 1.0), (0.9, -1.0), (1.0, 1.0)):
    out = np.asarray(jax.jit(OPERATIONS[name])(image, jnp.float32(SPACE[name](level, sign))))
    assert out.shape == image.shape and out.min() >= -1e-6 and out.max() <= 1 + 1e-6


def test_randaugment_geometry_and_points_against_pillow():
  from PIL import Image, ImageOps

  pixels = np.random.default_rng(3).integers(0, 256, (16, 12, 3)).astype(np.uint8)
  image, pil = jnp.asarray(pixels / 255, jnp.float32), Image.fromarray(pixels)
  theirs = {"equalize": ImageOps.equalize(pil), "invert": ImageOps.invert(pil), "solarize": ImageOps.solarize(pil, 128)}
  for name, expected in theirs.items():
    ours = np.asarray(OPERATIONS[name](image, jnp.float32(SPACE[name](0.5, 1.0)))) * 255
    np.testing.assert_allclose(ours, np.asarray(expected), atol=1.01)
  moved = np.asarray(OPERATIONS["translate-y"](image, jnp.float32(4 / 16)))
  np.testing.assert_allclose(moved[:12], np.asarray(image)[4:], atol=1e-5)
  assert (moved[12:] == 0).all()


def test_mixup_mixes_labels_with_the_weight_of_the_images():
  rows = batch()
  mixed = make_technique("mixup", alpha=1.0).mix(rows, KEY)
  np.testing.assert_allclose(mixed.targets.sum(-1), 1, atol=1e-6)
  flipped = np.asarray(rows.images)[::-1]
  weight = np.linalg.lstsq(
    np.asarray(rows.images - flipped).reshape(-1, 1), np.asarray(mixed.images - flipped).ravel(), rcond=None
  )[0].item()
  np.testing.assert_allclose(mixed.targets, weight * rows.targets + (1 - weight) * rows.targets[::-1], atol=1e-4)
  assert 0 < weight < 1


def test_label_smoothing():
  out = make_technique("label-smoothing", amount=0.2).mix(batch(), KEY).targets
  np.testing.assert_allclose(np.sort(out, -1)[:, :-1], 0.05, atol=1e-6)
  np.testing.assert_allclose(np.max(out, -1), 0.85, atol=1e-6)


def test_ema_equals_its_closed_form():
  ema = make_technique("ema", decay=0.9)
  average, weight = {"w": jnp.array(1.0)}, {"w": jnp.array(5.0)}
  for step in range(7):
    average = ema.average(average, weight, Clock(jnp.int32(step), 7, 1.0))
  assert float(average["w"]) == pytest.approx(0.9**7 * 1 + (1 - 0.9**7) * 5)


def test_trades_equals_its_formula():
  clean, other, target = np.array([[1.0, 2.0, 0.5]]), np.array([[2.0, 0.0, 0.1]]), np.array([[0.0, 1.0, 0.0]])
  softmax = lambda z: np.exp(z) / np.exp(z).sum(-1, keepdims=True)
  p, q = softmax(clean), softmax(other)
  by_hand = -np.log(p[0, 1]) + 6 * np.sum(p * np.log(p / q))
  assert float(trades_loss(*map(jnp.asarray, (clean, other, target)), 6.0)[0]) == pytest.approx(by_hand, rel=1e-5)


def recipe(*techniques, module=None, **options) -> Recipe:
  module = module or make_model("cnn-tiny")
  return Recipe(module, 10, (0.5,) * 3, (0.5,) * 3, make_plan(techniques, options), optax.sgd(0.1))


def digits(count=16):
  from jaxrobust.data.registry import load_data

  return load_data("digits32-train").take(np.arange(count))


def run_steps(one: Recipe, steps: int = 1):
  images, labels = digits()
  state = init_state(one.module, one.optimizer, KEY, (32, 32, 3), one.plan.average is not None)
  step = jax.jit(functools.partial(train_step, one))
  for _ in range(steps):
    state, report = step(state, images, labels, np.arange(16))
  return state, report


@pytest.mark.parametrize("norm, eps", [("linf", "0.1"), pytest.param("l2", "1.0", marks=pytest.mark.ci)])
@pytest.mark.parametrize("name", ["pgd-at", "half-at", "fast-at", "trades"])
def test_adversarial_objectives_cost_more_than_plain_ones_and_have_gradients(name, norm, eps):
  plain = float(run_steps(recipe())[1]["loss"])
  state, report = run_steps(recipe(name, **{name: {"eps": eps, "norm": norm}}))
  assert float(report["loss"]) > plain
  assert first_nonfinite(report, state.params) is None
  nothing = run_steps(recipe(name, **{name: {"eps": "0", "norm": norm}}))[1]
  assert float(nothing["loss"]) == pytest.approx(plain, rel=1e-4)


def test_half_at_is_the_mean_of_both():
  options = {"eps": "0.1", "random_start": False}
  full, half, plain = (
    float(run_steps(one)[1]["loss"])
    for one in (recipe("pgd-at", **{"pgd-at": options}), recipe("half-at", **{"half-at": options}), recipe())
  )
  assert half == pytest.approx((full + plain) / 2, rel=1e-4)


def test_the_attack_of_trades_raises_the_divergence():
  classifier = fixture()
  images, _ = examples(classifier, 8)
  reference = classifier(images)
  attack = make_technique("trades").attack
  keys = jax.random.split(KEY, 8)
  found = craft(attack, classifier, jnp.asarray(images), reference, 0.05, keys, loss=kl_divergence)
  start = jax.vmap(lambda x, k: x + 0.05 * jax.random.uniform(k, x.shape, minval=-1.0), in_axes=(0, 0))(images, keys)
  assert (kl_divergence(reference, classifier(found)) > kl_divergence(reference, classifier(start))).mean() > 0.8
  assert soft_cross_entropy(reference, jax.nn.one_hot(jnp.zeros(8, int), CLASSES)).shape == (8,)


def test_bfloat16_keeps_float32_weights_and_comes_close():
  exact, _ = run_steps(recipe())
  coarse, report = run_steps(dataclasses.replace(recipe(), dtype=jnp.bfloat16))
  for one, other in zip(jax.tree.leaves(exact.params), jax.tree.leaves(coarse.params), strict=True):
    assert other.dtype == jnp.float32
    np.testing.assert_allclose(one, other, atol=0.02)
  assert np.isfinite(float(report["loss"]))


@pytest.mark.parametrize("crafting", ["eval", "train"])
def test_bfloat16_crafts_in_bfloat16_too(crafting):
  one = recipe("pgd-at", module=make_model("resnet20"), **{"pgd-at": {"num_steps": 2, "crafting": crafting}})
  one = dataclasses.replace(one, dtype=jnp.bfloat16)
  build = lambda: init_state(one.module, one.optimizer, KEY, (32, 32, 3), averaged=False)
  images, labels = digits(4)
  step = lambda state: train_step(one, state, images, labels, np.arange(4))
  text = str(jax.make_jaxpr(step)(jax.eval_shape(build)))
  kinds = re.findall(r":(\w+)\[[^]]*\] = conv2d", text)
  assert len(kinds) > 60 and set(kinds) == {"bf16"}


def test_accumulated_batches_make_one_update_of_their_mean():
  images, labels = digits(64)
  options = {"learning_rate": 0.1, "weight_decay": 0.0, "updates": 10, "warmup": 0}
  states = []
  for accumulate, size in ((1, 32), (2, 16)):
    optimizer = make_optimizer("sgd", "constant", accumulate=accumulate, **options)
    plan = make_plan(["ema"], {"ema": {"decay": 0.5}})
    one = Recipe(make_model("cnn-tiny"), 10, (0.5,) * 3, (0.5,) * 3, plan, optimizer)
    state = init_state(one.module, optimizer, KEY, (32, 32, 3), averaged=True)
    step = jax.jit(functools.partial(train_step, one))
    for start in range(0, 64, size):
      rows = slice(start, start + size)
      state, _ = step(state, images[rows], labels[rows], np.arange(64)[rows])
    states.append((state.params, state.average))
  for one, other in zip(*map(jax.tree.leaves, states), strict=True):
    np.testing.assert_allclose(one, other, atol=1e-6)


def test_culprits_are_named():
  state, report = run_steps(recipe())
  assert first_nonfinite(report, state.params) is None
  broken = {"finite": {**report["finite"], "gradients": np.array([True, False, *[True] * 30])}}
  assert first_nonfinite(broken, state.params).startswith("the gradient of ['")
  assert first_nonfinite({"finite": {**report["finite"], "logits": np.array([False])}}, state.params) == "the logits"


@pytest.mark.parametrize(
  "name, options, kind",
  [
    ("label-smoothing", {"amount": 1.0}, InputError),
    ("mixup", {"alpha": 0.0}, InputError),
    ("ema", {"decay": 1.0}, InputError),
    ("trades", {"beta": -1.0}, InputError),
    ("randaugment", {"magnitude": 11}, InputError),
    ("pad-crop-flip", {"padding": -1}, InputError),
    ("pad-crop-flip", {"padding": 1.5}, InputError),
    ("pgd-at", {"random_start": "no"}, InputError),
    ("pgd-at", {"step_size": -1.0}, InputError),
    ("half-at", {"num_steps": "3"}, InputError),
    ("randaugment", {"probability": 2.0}, InputError),
    ("randaugment", {"operations": -1}, InputError),
    ("color-jitter", {"brightness": -1.0}, InputError),
    ("random-resized-crop", {"smallest": 0.0}, InputError),
    ("mixup", {"beta": 1.0}, UnknownNameError),
    ("fast-at", {"steps": 1}, InputError),
  ],
)
def test_bad_settings_are_refused(name, options, kind):
  with pytest.raises(kind):
    make_technique(name, **options)
