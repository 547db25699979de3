"""Techniques that act on weights, batch statistics and the saved form of a network."""

from __future__ import annotations

import functools
import json

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jaxrobust.core.classifier import Classifier
from jaxrobust.core.errors import InputError
from jaxrobust.data.registry import load_data
from jaxrobust.models.layers.head import Hypersphere, with_features
from jaxrobust.models.registry import MODELS, abstract_variables, make_model
from jaxrobust.models.zoo import fingerprint, load_classifier, read_metadata
from jaxrobust.training import loop
from jaxrobust.training.composition import make_plan, make_technique
from jaxrobust.training.config import TrainConfig
from jaxrobust.training.coupled import coupled_classifier
from jaxrobust.training.loop import train
from jaxrobust.training.run import measured
from jaxrobust.training.state import init_state
from jaxrobust.training.step import Recipe, train_step
from jaxrobust.training.technique import Clock, Context
from jaxrobust.training.techniques.objectives import soft_cross_entropy
from tests.training.techniques.linear import RATE, SHAPE, Linear, Normalized, entropy, rows, softmax, start, weights

KEY = jax.random.key(0)


def test_swa_is_the_mean_of_the_weights_that_it_collects():
  swa = make_technique("swa", start=0.5, every=1.0)
  trajectory = np.arange(1.0, 13.0) ** 2
  average, seen = {"w": jnp.array(0.0)}, []
  for step, weight in enumerate(trajectory):  # 4 epochs of 3 steps: collected after steps 9 and 12.
    average = swa.average(average, {"w": jnp.asarray(weight)}, Clock(jnp.int32(step), 12, 3.0))
    seen.append(float(average["w"]))
  np.testing.assert_allclose(seen[:8], trajectory[:8], rtol=1e-6)
  np.testing.assert_allclose(seen[8:], [81, 81, 81, (81 + 144) / 2], rtol=1e-6)


def test_statistics_of_an_average_are_the_means_over_batches():
  recipe = Recipe(Normalized(), 3, (0.5,), (0.5,), make_plan(("swa",), {}), optax.sgd(0.1))
  state = init_state(recipe.module, recipe.optimizer, KEY, SHAPE, averaged=True)
  batches = [rows(seed=seed) for seed in (1, 2)]
  found = measured(recipe, state, {}, [(part.images, part.labels, part.ids) for part in batches])["batch_stats"]["norm"]
  layer = state.params["hidden"]
  outputs = [((part.images - 0.5) / 0.5).reshape(6, -1) @ layer["kernel"] + layer["bias"] for part in batches]
  np.testing.assert_allclose(found["mean"], np.mean([out.mean(0) for out in outputs], 0), atol=1e-5)
  np.testing.assert_allclose(found["var"], np.mean([out.var(0) for out in outputs], 0), atol=1e-5)


def test_awp_equals_plain_numpy():
  recipe, state = start("awp", options={"awp": {"gamma": 0.3}})
  matrix = weights().astype(np.float64)
  step = jax.jit(functools.partial(train_step, recipe))
  for seed in (1, 2):
    batch = rows(seed=seed)
    state, report = step(state, batch.images, batch.labels, batch.ids)
    x, y = np.asarray(batch.images, np.float64).reshape(6, -1), np.asarray(batch.targets)
    gradient = lambda w, x=x, y=y: x.T @ (softmax(x @ w) - y) / 6
    steepest = gradient(matrix)
    worse = matrix + 0.3 * np.linalg.norm(matrix) * steepest / np.linalg.norm(steepest)
    assert float(report["loss"]) == pytest.approx(entropy(x @ worse, y).mean(), rel=1e-4)
    assert entropy(x @ worse, y).mean() > entropy(x @ matrix, y).mean()
    matrix = matrix - RATE * gradient(worse)
    np.testing.assert_allclose(state.params["head"]["kernel"], matrix, atol=1e-5)


def test_awp_leaves_vectors_alone_and_waits_for_its_start():
  awp = make_technique("awp", gamma=0.5, start=0.5)
  params, grads = {"w": jnp.ones((2, 2)), "b": jnp.ones(2)}, {"w": jnp.eye(2), "b": jnp.ones(2)}
  early, late = (awp.perturb(params, grads, jnp.float32(done)) for done in (0.4, 0.6))
  np.testing.assert_allclose(early["w"], 1.0)
  np.testing.assert_allclose(late["w"], 1 + 0.5 * 2 / np.sqrt(2) * np.eye(2), rtol=1e-6)
  np.testing.assert_allclose(late["b"], 1.0)


def test_crafting_in_training_mode_sees_the_statistics_of_its_batch():
  module, images = Normalized(), rows().images
  variables = jax.jit(module.init)(KEY, images)
  coupled = coupled_classifier(Classifier.from_module(module, variables, mean=0.5, std=0.5), module, KEY)

  def together(x):
    return module.apply(variables, (x - 0.5) / 0.5, train=True, mutable=["batch_stats"])[0]

  one = lambda x: jnp.sum(coupled(x[None])[0] ** 3)
  direct = jax.value_and_grad(lambda x: jnp.sum(together(x) ** 3))
  mapped = jax.vmap(jax.value_and_grad(one))
  products = [str(jax.make_jaxpr(each)(images)).count("dot_general") for each in (mapped, direct)]
  assert products[0] == products[1] > 1  # The pull-back keeps what the forward pass made.
  want, (values, grads) = jax.jit(direct)(images), jax.jit(mapped)(images)
  np.testing.assert_allclose(values.sum(), want[0], rtol=1e-4)
  np.testing.assert_allclose(grads, want[1], rtol=1e-3, atol=1e-4)
  np.testing.assert_allclose(coupled(images), together(images), rtol=1e-4, atol=1e-5)
  made = {mode: make_technique("pgd-at", eps="0.1", random_start=False, crafting=mode) for mode in ("eval", "train")}
  batch = rows()
  frozen = Context(Classifier.from_module(module, variables, mean=0.5, std=0.5), {}, jnp.float32(1), KEY, coupled)
  found = {
    mode: np.asarray(jax.jit(lambda rows, one=one: one.craft(rows, frozen))(batch)) for mode, one in made.items()
  }
  height = {mode: float(soft_cross_entropy(together(images), batch.targets).mean()) for mode, images in found.items()}
  assert height["train"] > height["eval"]


def test_a_hypersphere_has_cosines_as_logits_and_keeps_all_names():
  images = rows().images
  sphere = Hypersphere(Linear(), 7.0)
  variables = jax.jit(sphere.init)(KEY, images)
  kernel, features = np.asarray(variables["params"]["head"]["kernel"]), np.asarray(images).reshape(6, -1)
  cosines = features @ kernel / np.linalg.norm(features, axis=1, keepdims=True) / np.linalg.norm(kernel, axis=0)
  np.testing.assert_allclose(sphere.apply(variables, images), 7 * cosines, atol=1e-4)
  np.testing.assert_allclose(with_features(sphere, variables, images)[1], features)
  shapes = [
    abstract_variables(make_model("resnet20", **options), (32, 32, 3)) for options in ({}, {"hypersphere": 7.0})
  ]
  assert jax.tree.structure(shapes[0]) == jax.tree.structure(shapes[1])
  with pytest.raises(InputError, match="needs one dense layer of 10 classes as its head, found none"):
    abstract_variables(make_model("convnet5", hypersphere=7.0), (32, 32, 3))


@pytest.fixture(scope="module")
def teacher(tmp_path_factory):
  config = TrainConfig(epochs=1, batch_size=128, techniques=("he",))
  return train(config, tmp_path_factory.mktemp("weights") / "teacher", quiet=True)


def test_a_hypersphere_is_saved_as_one(teacher):
  assert read_metadata(teacher)["options"] == {"hypersphere": 15.0}
  images, labels = load_data("digits32").take(np.arange(256))
  logits = np.asarray(load_classifier(teacher)(images))
  assert np.abs(logits).max() <= 15.01 and (logits.argmax(-1) == labels).mean() > 0.5


def test_a_student_learns_from_a_folder_and_not_from_one_that_does_not_fit(teacher, tmp_path):
  options = {"distill": {"teacher": str(teacher), "weight": 1.0}}
  config = TrainConfig(epochs=2, batch_size=128, techniques=("distill",), options=options)
  student = load_classifier(train(config, tmp_path / "student", quiet=True))
  images, _ = load_data("digits32").take(np.arange(256))
  agree = np.asarray(student(images)).argmax(-1) == np.asarray(load_classifier(teacher)(images)).argmax(-1)
  assert agree.mean() > 0.5
  np.savez(tmp_path / "two.npz", images=images[:64], labels=np.arange(64) % 2)
  other = TrainConfig(data=f"npz:{tmp_path / 'two.npz'}", batch_size=32, techniques=("distill",), options=options)
  with pytest.raises(InputError, match="knows 10 classes, the data have 2"):
    train(other, tmp_path / "two", quiet=True)
  assert not (tmp_path / "two").exists()


@pytest.mark.ci
def test_repvgg_is_trained_with_branches_and_saved_without(tmp_path, monkeypatch):
  seen, original = [], loop.host_variables
  monkeypatch.setattr(loop, "host_variables", lambda *arguments: seen.append(original(*arguments)) or seen[-1])
  options = {"swa": {"statistics": 2}}
  names = ("swa", "repvgg")
  config = TrainConfig(arch="repvgg_tiny", epochs=0.2, batch_size=128, techniques=names, options=options, holdout=37)
  out = train(config, tmp_path / "net", quiet=True)
  assert read_metadata(out)["options"] == read_metadata(out / "best")["options"] == {"fused": True}
  fused, spec = load_classifier(out), MODELS["repvgg_tiny"]
  assert set(fused.variables["module"]) == {"params"} and "batch_stats" in seen[0]
  branches = Classifier.from_module(make_model("repvgg_tiny"), seen[0], mean=spec.mean, std=spec.std)
  images, _ = load_data("digits32").take(np.arange(20))
  logits = jax.jit(lambda classifier: classifier(images))
  np.testing.assert_allclose(logits(fused), logits(branches), atol=1e-4)
  with pytest.raises(InputError, match="'repvgg' fuses a RepVGG in its train form, not cnn-tiny"):
    train(TrainConfig(techniques=("repvgg",)), tmp_path / "other", quiet=True)


@pytest.mark.ci
def test_free_training_goes_on_with_its_perturbation(tmp_path):
  """A run that loses its last steps ends with the very weights of one that did not."""
  options = {"free-at": {"replays": 2, "eps": "0.1"}}
  config = TrainConfig(epochs=1, batch_size=128, techniques=("free-at",), options=options, save_every=4)
  whole = train(config, tmp_path / "whole", quiet=True)
  reference = fingerprint(load_classifier(whole))
  (whole / "classifier.json").unlink()
  steps = sorted(int(path.name) for path in (whole / "checkpoints").iterdir() if path.name.isdigit())
  assert len(steps) > 1
  (whole / "checkpoints" / str(steps[-1])).rename(tmp_path / "lost")
  assert fingerprint(load_classifier(train(config, whole, quiet=True))) == reference
  assert json.loads((whole / "run.json").read_text())["techniques"] == ["free-at"]
