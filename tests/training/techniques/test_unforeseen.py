"""Training against threats that are no norms crafts by the attacks that evaluate, and leaves wrong images alone."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrobust.attacks.registry import make_attack
from jaxrobust.core.contract import bind_threat
from jaxrobust.core.errors import InputError
from jaxrobust.core.gradients import ImageLogits
from jaxrobust.core.types import Problem
from jaxrobust.training.composition import make_technique
from jaxrobust.training.technique import Batch
from jaxrobust.training.techniques.variation import variation
from tests.attacks.test_perceptual import classifier
from tests.golden import perceptual_networks as networks
from tests.training.techniques.linear import Training, entropy, rows, weights
from tests.training.techniques.linear import context as linear_context


@pytest.mark.ci
def test_mixtures_of_norms_and_other_threats_craft_with_each():
  model, images = classifier(), networks.pictures(4)
  labels = np.asarray(model(images)).argmax(1)
  keys = jax.random.split(jax.random.key(0), 4)
  batch = Batch(jnp.asarray(images), jax.nn.one_hot(labels, networks.CLASSES), jnp.asarray(labels), keys, jnp.arange(4))
  context = SimpleNamespace(classifier=model, coupled=None, eps_scale=1.0, key=jax.random.key(1))
  options = {"budgets": {"linf": "8/255", "stadv": "0.05"}, "num_steps": 2}
  each = make_technique("multi-at", **options)
  ball, flow = (np.asarray(found) for found in jax.jit(lambda rows: each.craft(rows, context))(batch))
  alone = make_technique("stadv-at", num_steps=2, only_correct=False)
  np.testing.assert_allclose(flow, jax.jit(lambda rows: alone.craft(rows, context))(batch), atol=1e-6)
  assert np.abs(ball - images).max() <= 8 / 255 + 1e-6 < np.abs(flow - images).max()
  drawn = make_technique("multi-at", mode="random", **options)
  (found,) = jax.jit(lambda rows: drawn.craft(rows, context))(batch)
  assert any(np.allclose(found, one, atol=1e-5) for one in (ball, flow))


@pytest.mark.parametrize("name", ["stadv-at", pytest.param("pat", marks=pytest.mark.ci)])
def test_only_what_the_network_gets_right_is_attacked(name):
  model, images = classifier(), networks.pictures(4)
  labels = np.asarray(model(images)).argmax(1)
  labels[0] = (labels[0] + 1) % networks.CLASSES
  keys = jax.random.split(jax.random.key(0), 4)
  batch = Batch(jnp.asarray(images), jax.nn.one_hot(labels, networks.CLASSES), jnp.asarray(labels), keys, jnp.arange(4))
  objective = make_technique(name, num_steps=2)
  context = SimpleNamespace(classifier=model, coupled=None, eps_scale=1.0)
  found = np.asarray(jax.jit(lambda rows: objective.craft(rows, context))(batch))
  change = np.abs(found - images).max((1, 2, 3))
  assert change[0] == 0 and (change[1:] > 1e-3).all() and found.min() >= 0 and found.max() <= 1
  logits = [np.asarray(model(x)) for x in (images, found)]
  margins = [
    np.delete(row, label).max() - row[label] for rows in logits for row, label in zip(rows, labels, strict=True)
  ]
  assert (np.array(margins[5:]) > np.array(margins[1:4])).all(), "attacked images are closer to being wrong"


@pytest.mark.ci
def test_the_pair_of_perceptual_variation_is_driven_apart_by_the_steps_of_fast_lpa():
  model, images = classifier(), networks.pictures(4)
  labels = np.asarray(model(images)).argmax(1)
  labels[0] = (labels[0] + 1) % networks.CLASSES
  keys = jax.random.split(jax.random.key(0), 4)
  batch = Batch(jnp.asarray(images), jax.nn.one_hot(labels, networks.CLASSES), jnp.asarray(labels), keys, jnp.arange(4))
  context = SimpleNamespace(classifier=model, coupled=None, eps_scale=1.0)
  objective = make_technique("pat-vr", num_steps=1)
  _, *pair = jax.jit(lambda rows: objective.craft(rows, context))(batch)
  attack, halves = bind_threat(make_attack("fast-lpa", num_steps=1), model), jax.vmap(jax.random.split)(keys)
  problem = lambda row, at: Problem(batch.images[row], -1, -1, jnp.asarray(0.5), halves[row, at])
  starts = [jnp.stack([attack.init(problem(row, at)).image for row in range(4)]) for at in range(2)]
  before, after = (np.asarray(variation(*map(model, points))) for points in (starts, pair))
  np.testing.assert_array_equal(pair[0][0], images[0], "an image that the network gets wrong stays as it is")
  assert after[0] < 1e-5 and (after[1:] > before[1:]).all()
  # The first point's step by hand, away from the second.
  other, first = model(starts[1])[3], problem(3, 0)
  moving = dataclasses.replace(attack, loss=lambda logits: jnp.linalg.norm(logits - other))
  state, _ = moving.step(ImageLogits(model, first.key), first, moving.init(first))
  np.testing.assert_allclose(pair[0][3], state.image, atol=1e-5)


@pytest.mark.parametrize(
  ("name", "options", "text"),
  [
    ("pat", {"method": "rigid-random"}, "rigid-random is not"),
    ("multi-at", {"budgets": {"linf": "8/255", "square": "0.1"}}, "climb a loss by gradients, which square is not"),
    ("pat-vr", {"method": "stadv"}, "perceptual attack, which stadv is not"),
    ("stadv-at", {"norm": "l2"}, "against flow has no norm"),
  ],
)
def test_attacks_that_training_cannot_steer_are_refused(name, options, text):
  with pytest.raises(InputError, match=text):
    make_technique(name, **options)


def test_perceptual_variation_weighs_the_distance_of_logits():
  matrix, batch = weights(), rows()
  pair = (batch.images + 0.1, batch.images - 0.2)
  values = {}
  for weight in (0.0, 2.0):
    objective = make_technique("pat-vr", weight=weight)
    frozen = linear_context(matrix, crafted=(batch.images, *pair))
    values[weight] = np.asarray(objective.loss(Training(matrix), batch, frozen).values)
  flat = np.asarray(batch.images).reshape(len(batch.labels), -1)
  np.testing.assert_allclose(values[0.0], entropy(flat @ matrix, np.asarray(batch.targets)), rtol=1e-5)
  want = 2 * np.linalg.norm(np.full_like(flat, 0.3) @ matrix, axis=-1)
  np.testing.assert_allclose(values[2.0] - values[0.0], want, rtol=1e-4)
