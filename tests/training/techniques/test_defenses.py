"""Trained defenses: ADP and DeepDefense equal their formulas, RSE trains with its noise."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrobust.core.errors import InputError
from jaxrobust.models.registry import make_model
from jaxrobust.training.composition import make_technique
from jaxrobust.training.step import train_step
from jaxrobust.training.techniques.adp import adp_loss, log_diversity
from jaxrobust.training.techniques.deepdefense import deepdefense_regularizer, find_boundary
from tests.training.techniques.linear import classifier, context, entropy, rows, softmax, start, weights

RNG = np.random.default_rng(0)


def test_adp_equals_plain_numpy():
  logits = RNG.normal(size=(4, 3, 5))
  labels = np.array([0, 4, 2, 1])
  targets = np.eye(5)[labels]
  want = []
  for z, y in zip(logits, labels, strict=True):
    p = softmax(z)
    mean = p.mean(0)
    rest = np.delete(p, y, axis=1)
    unit = rest / np.linalg.norm(rest, axis=1, keepdims=True)
    diversity = np.linalg.det(unit @ unit.T + 1e-6 * np.eye(3))
    own = -np.log(p[:, y]).sum()
    want.append(own + 2.0 * (mean * np.log(mean)).sum() - 0.5 * np.log(diversity))
  found = adp_loss(jnp.asarray(logits, jnp.float32), jnp.asarray(targets, jnp.float32), 2.0, 0.5)
  np.testing.assert_allclose(found, want, rtol=1e-4)


def test_members_that_agree_have_the_least_diversity_and_a_finite_gradient():
  same = jnp.tile(jnp.asarray(RNG.normal(size=(1, 1, 5)), jnp.float32), (1, 3, 1))
  labels = jnp.array([2])
  other = jnp.asarray(RNG.normal(size=(1, 3, 5)), jnp.float32)
  assert log_diversity(same, labels)[0] < -20 < log_diversity(other, labels)[0]
  assert np.isfinite(jax.grad(lambda z: log_diversity(z, labels).sum())(same)).all()


def test_a_committee_answers_with_the_mean_probability_and_adp_refuses_too_many_members():
  module = make_model("ensemble", 3, base="cnn-a", members=2)
  images = jnp.asarray(RNG.uniform(size=(2, 32, 32, 3)), jnp.float32)
  variables = jax.jit(module.init)(jax.random.key(0), images)
  each, together = jax.jit(lambda v, x: (module.apply(v, x, each=True), module.apply(v, x)))(variables, images)
  assert each.shape == (2, 2, 3) and not np.allclose(each[:, 0], each[:, 1])
  np.testing.assert_allclose(np.exp(together), softmax(np.asarray(each)).mean(1), rtol=1e-5)
  many = lambda images, stats, each: (jnp.zeros((6, 3, 3)), stats)
  with pytest.raises(InputError, match="3 members cannot differ in 2"):
    make_technique("adp").loss(many, rows(), context(weights()))


def test_deepfool_of_a_linear_network_finds_the_distance_and_its_derivative_is_that_of_the_weights():
  matrix, batch = weights(), rows()
  find = jax.jit(jax.vmap(lambda x, y, k: find_boundary(classifier(matrix), x, y, k, 5)))
  found = jax.tree.map(np.asarray, find(batch.images, batch.labels, batch.keys))
  flat = np.asarray(batch.images).reshape(6, -1)

  def distance(matrix, x, a):
    z = x @ matrix
    return min((z[a] - z[b]) / np.linalg.norm(matrix[:, b] - matrix[:, a]) for b in range(3) if b != a)

  inside = (np.asarray(found.images) > 0).all((1, 2, 3)) & (np.asarray(found.images) < 1).all((1, 2, 3))
  assert (inside & found.right).any()
  np.testing.assert_array_equal(np.where(found.right, found.left, found.reached), batch.labels)
  for row in np.flatnonzero(inside & found.right):
    a, x = int(found.left[row]), flat[row].astype(np.float64)
    size = np.linalg.norm(x)
    assert abs(found.length[row] - distance(matrix, x, a) / size) < 0.03 * found.length[row] + 2e-4
    # The derivative of the regularizer in the weights, against finite differences of the true distance.
    one = jax.tree.map(lambda leaf: jnp.asarray(leaf)[row : row + 1], found)  # noqa: B023

    def loss(m):
      return deepdefense_regularizer(one.images.reshape(1, -1) @ m, one, 3.0, 5.0)[0]  # noqa: B023

    slope = np.asarray(jax.grad(loss)(jnp.asarray(matrix)))
    direction = RNG.normal(size=matrix.shape)
    near = [np.exp(-3 * distance(matrix + h * direction, x, a) / size) for h in (1e-4, -1e-4)]
    np.testing.assert_allclose((slope * direction).sum(), (near[0] - near[1]) / 2e-4, rtol=0.1, atol=2e-3)


def test_deepdefense_adds_its_parts():
  matrix, batch = weights(), rows()
  objective = make_technique("deepdefense", weight=2.0)
  found = jax.jit(lambda rows: objective.craft(rows, context(matrix)))(batch)
  flat = lambda images: np.asarray(images).reshape(6, -1) @ matrix
  network = lambda images, stats: (images.reshape(6, -1) @ matrix, stats)
  losses = objective.loss(network, batch, context(matrix, crafted=found))
  right = np.asarray(found.right)
  more = np.where(right, np.exp(-25 * np.asarray(found.length)), np.exp(5 * np.asarray(found.length)))
  np.testing.assert_allclose(losses.values, entropy(flat(batch.images), batch.targets) + 2 * more, rtol=1e-4)
  assert right.any() and not right.all()


@pytest.mark.parametrize("name", ["deepdefense"])
def test_a_step_is_finite(name):
  recipe, state = start(name)
  batch = rows()
  _, metrics = jax.jit(lambda s: train_step(recipe, s, batch.images, batch.labels, batch.ids))(state)
  assert np.isfinite(float(metrics["loss"]))


def test_bad_weights_are_refused():
  with pytest.raises(InputError, match="negative"):
    make_technique("adp", alpha=-1.0)
  with pytest.raises(InputError, match="negative"):
    make_technique("deepdefense", weight=-1.0)
  assert dataclasses.is_dataclass(make_technique("adp"))
