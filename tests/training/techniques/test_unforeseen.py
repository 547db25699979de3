"""Training against threats that are no norms crafts by the attacks that evaluate, and leaves wrong images alone."""

from __future__ import annotations

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrobust.training.composition import make_technique
from jaxrobust.training.technique import Batch
from tests.attacks.test_perceptual import classifier
from tests.golden import perceptual_networks as networks


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
