"""Pre-training: networks that learn without labels, in the same loop, and classifiers that are fine-tuned from them."""

from __future__ import annotations

import functools
import itertools
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jaxrobust.core.config_file import load_config
from jaxrobust.core.errors import InputError
from jaxrobust.data.registry import load_data
from jaxrobust.models.families.swin import Swin
from jaxrobust.models.layers.patches import patchify, unpatchify
from jaxrobust.models.registry import make_model
from jaxrobust.models.zoo import load_classifier
from jaxrobust.training.augmentations.views import ContrastiveViews, two_views
from jaxrobust.training.composition import make_plan, make_technique
from jaxrobust.training.config import TrainConfig, make_train_config
from jaxrobust.training.loop import train
from jaxrobust.training.pretraining.acl import nt_xent
from jaxrobust.training.pretraining.contrast import follow
from jaxrobust.training.pretraining.mae import patch_order, visible_patches
from jaxrobust.training.pretraining.simmim import random_squares
from jaxrobust.training.state import init_state
from jaxrobust.training.step import Recipe, train_step

pytestmark = pytest.mark.ci

CONFIGS = Path(__file__).parents[3] / "configs"
KEY = jax.random.key(0)
SMALL = {
  "moco-v2": {"queue": 40, "features": 8, "hidden": 16, "momentum": 0.5},
  "moco-v3": {"features": 8, "hidden": 16, "momentum": 0.5},
  "acl": {"features": 8, "hidden": 16, "num_steps": 2, "step_size": 0.5},
  "mae": {"features": 16, "depth": 1, "num_heads": 2},
  "simmim": {"size": 8},
}


def digits(count: int = 16):
  return load_data("digits32-train").take(np.arange(count))


@functools.cache
def stepped(name: str, steps: int = 2, rate: float = 0.05):
  """States before and after some steps of a pre-training, and the last report."""
  plan = make_plan((name,), {name: SMALL[name]})
  backbone = make_model("vit-micro", patch_size=8) if name in ("mae", "simmim") else make_model("cnn-tiny")
  module = plan.objective.wrap(backbone)
  one = Recipe(module, 10, (0.5,) * 3, (0.5,) * 3, plan, optax.sgd(rate))
  images, labels = digits()
  states = [init_state(one.module, one.optimizer, KEY, (32, 32, 3), averaged=False)]
  step = jax.jit(functools.partial(train_step, one))
  for _ in range(steps):
    state, report = step(states[-1], images, labels, np.arange(16))
    states.append(state)
  return one, states, report


@pytest.mark.parametrize("name", ["moco-v2", "acl", "mae", "simmim", pytest.param("moco-v3", marks=pytest.mark.slow)])
def test_every_pretraining_moves_the_backbone_and_reports_finite_losses(name):
  _, states, report = stepped(name)
  before, after = (states[i].params["backbone"] for i in (0, -1))
  moved = [float(np.abs(a - b).max()) for a, b in zip(jax.tree.leaves(before), jax.tree.leaves(after), strict=True)]
  assert np.isfinite(float(report["loss"])) and max(moved) > 0
  metrics = report["metrics"].compute()
  assert 0 <= float(metrics["accuracy"]) <= 1


def test_the_momentum_encoder_follows_the_weights_and_the_queue_holds_the_newest_keys():
  _, states, _ = stepped("moco-v2")
  slow = states[0].batch_stats["momentum"]
  for state, after in itertools.pairwise(states):
    slow = follow(slow, state.params, 0.5)
    jax.tree.map(functools.partial(np.testing.assert_allclose, atol=1e-6), slow, after.batch_stats["momentum"])
  queues = [np.asarray(state.batch_stats["queue"]) for state in states]
  assert queues[0].shape == (40, 8)
  np.testing.assert_array_equal(queues[2][16:], queues[1][:24])
  np.testing.assert_array_equal(queues[1][16:], queues[0][:24])
  np.testing.assert_allclose(np.linalg.norm(queues[2], axis=-1), 1, atol=1e-5)


def test_nt_xent_equals_its_definition():
  rng = np.random.default_rng(0)
  one, two = (part / np.linalg.norm(part, axis=-1, keepdims=True) for part in rng.normal(size=(2, 3, 4)))
  both = np.concatenate([one, two])
  similar = np.exp(both @ both.T / 0.5)
  by_hand = []
  for row in range(6):
    others = similar[row].sum() - similar[row, row]
    by_hand.append(-np.log(similar[row, (row + 3) % 6] / others))
  expected = np.mean(np.reshape(by_hand, (2, 3)), axis=0)
  np.testing.assert_allclose(nt_xent(jnp.asarray(one), jnp.asarray(two), 0.5)[0], expected, rtol=1e-5)


def test_adversarial_views_raise_the_contrastive_loss_and_stay_in_the_ball():
  one, states, _ = stepped("acl")
  objective = make_technique("acl", **SMALL["acl"] | {"num_steps": 4})
  from jaxrobust.core.classifier import Classifier
  from jaxrobust.training.technique import Context

  classifier = Classifier.from_module(one.module, {"params": states[-1].params}, mean=one.mean, std=one.std)
  context = Context(classifier, {}, jnp.float32(1), KEY)
  images, keys = jnp.asarray(digits()[0]), jax.random.split(KEY, 16)
  views = jax.jit(functools.partial(two_views, ContrastiveViews()))(images, keys)
  found = jax.jit(lambda v: objective._attack(v, keys, context))(views)
  for view, other in zip(views, found, strict=True):
    assert float(jnp.abs(view - other).max()) <= 8 / 255 + 1e-6 and float(other.min()) >= 0
  score = lambda pair: float(nt_xent(classifier(pair[0]), classifier(pair[1]), 0.5)[0].mean())
  assert score(found) > score(views)


def test_a_quarter_of_the_patches_is_seen_and_the_rest_cannot_matter():
  one, states, _ = stepped("mae")
  images = jnp.asarray(digits(4)[0])
  order = patch_order(jax.random.split(KEY, 4), 16)
  assert (np.sort(order, axis=1) == np.arange(16)).all() and visible_patches(0.25, 16) == 4
  hidden = np.asarray(order)[:, 4:]
  patches = np.array(patchify(images, 8)).reshape(4, 16, 192)
  for row in range(4):
    patches[row, hidden[row]] = 0.7
  changed = unpatchify(jnp.asarray(patches.reshape(4, 4, 4, 192)), 8)
  draw = jax.jit(lambda x: one.module.apply({"params": states[-1].params}, x, order=order))
  np.testing.assert_allclose(draw(images), draw(changed), atol=1e-5)


def test_hidden_squares_cover_the_part_asked_for_and_cannot_matter():
  one, states, _ = stepped("simmim")
  mask = np.asarray(random_squares(jax.random.split(KEY, 4), (32, 32, 3), 8, 0.5))
  assert (mask.mean((1, 2)) == 0.5).all() and len({row.tobytes() for row in mask}) == 4
  images = np.asarray(digits(4)[0])
  draw = jax.jit(lambda x: one.module.apply({"params": states[-1].params}, x, mask=mask))
  np.testing.assert_allclose(draw(images), draw(np.where(mask[..., None], 0.3, images)), atol=1e-5)


def test_swin_draws_hidden_squares_too():
  module = make_technique("simmim", size=8).wrap(Swin(8, (1, 1), (1, 2), 10, window=4))
  images, mask = jnp.zeros((2, 32, 32, 3)), jnp.zeros((2, 32, 32), bool)
  variables = jax.eval_shape(module.init, KEY, images)
  shape = jax.eval_shape(lambda v: module.apply(v, images, mask=mask, train=True), variables).shape
  assert shape == images.shape and "head.fc" in variables["params"]["backbone"]


def test_mae_draws_held_out_digits_better_than_the_mean_image_and_is_fine_tuned(tmp_path):
  """The small run: 1,200 updates on digits of 16 patches; nearly all of the gain comes after the first 700."""
  options = {"mae": {"hidden": 0.5, "features": 32, "depth": 1, "num_heads": 4}}
  shared = {"arch": "vit-micro", "arch_options": {"patch_size": 8}, "batch_size": 16, "save_every": 10**6}
  config = TrainConfig(
    techniques=("mae",), options=options, epochs=15, learning_rate=3e-3, schedule="constant", log_every=100, **shared
  )
  folder = train(config, tmp_path / "mae", quiet=True)
  # Behind the classifier, the run's last checkpoint still holds the decoder.
  module = config.plan().objective.wrap(make_model("vit-micro", patch_size=8))
  params = restored_params(tmp_path / "mae")
  test_images = jnp.asarray(load_data("digits32").take(np.arange(100))[0])
  order = patch_order(jax.random.split(KEY, 100), 16)
  drawn = jax.jit(lambda x, order: module.apply({"params": params}, 2 * x - 1, order=order))(test_images, order)
  wanted = patchify(test_images, 8).reshape(100, 16, -1)
  mean = patchify(jnp.asarray(load_data("digits32-train").images).mean(0)[None], 8).reshape(1, 16, -1)
  hidden = np.argsort(order, axis=1) >= 8
  error = lambda guess: float((np.asarray((guess - wanted) ** 2).mean(-1) * hidden).sum() / hidden.sum())
  assert error(drawn) < 0.85 * error(mean), (error(drawn), error(mean))
  tuned = TrainConfig(init=str(folder), epochs=0.02, optimizer="sgd", learning_rate=0.0, **shared)
  kept, start = (load_classifier(path) for path in (train(tuned, tmp_path / "tuned", quiet=True), folder))
  jax.tree.map(np.testing.assert_array_equal, kept.variables, start.variables)


def restored_params(folder: Path):
  """The trained weights in the last checkpoint of a run."""
  import orbax.checkpoint as ocp

  step = max(int(path.name) for path in (folder / "checkpoints").iterdir() if path.name.isdigit())
  with ocp.StandardCheckpointer() as checkpointer:
    return checkpointer.restore((folder / "checkpoints" / str(step) / "default").absolute())["params"]


@pytest.mark.parametrize("name", ["moco-v2", pytest.param("acl", marks=pytest.mark.slow)])
def test_a_pretrained_network_is_fine_tuned_with_a_new_head(name, tmp_path, capfd):
  small = make_train_config(load_config(f"{CONFIGS / 'pretrain.py'}:{name},runlocal"))
  folder = train(small, tmp_path / "pre", quiet=True)
  assert load_classifier(folder).num_classes == 64
  tuned = train(TrainConfig(init=str(folder), epochs=0.1, batch_size=64), tmp_path / "tuned", quiet=True)
  assert load_classifier(tuned).num_classes == 10 and "is new" in capfd.readouterr().err


@pytest.mark.parametrize(
  "options, reason",
  [
    ({"techniques": ("mae",)}, "mae needs a plain vision transformer"),
    ({"techniques": ("simmim",)}, "simmim needs a vision transformer"),
    ({"techniques": ("moco-v2",), "holdout": 10}, "set holdout to 0"),
    ({"techniques": ("acl",), "init": "elsewhere"}, "init is for fine-tuning"),
    ({"techniques": ("mae",), "options": {"mae": {"hidden": 1.0}}}, "hidden part"),
    ({"techniques": ("moco-v3",), "options": {"moco-v3": {"momentum": 1.0}}}, "momentum in"),
  ],
)
def test_what_cannot_be_pretrained_is_refused(options, reason, tmp_path):
  with pytest.raises(InputError, match=reason):
    train(make_train_config(options), tmp_path / "net", quiet=True)
