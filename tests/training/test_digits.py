"""Robust techniques train the small network on the digits: the loss of each falls.

Free training, distillation, SWA, RepVGG and hypersphere embedding do so in `test_weights.py`.
"""

from __future__ import annotations

import functools

import jax
import numpy as np
import optax
import pytest

from jaxrobust.core.classifier import Classifier
from jaxrobust.data.registry import load_data
from jaxrobust.models.registry import make_model
from jaxrobust.training.composition import make_plan
from jaxrobust.training.state import init_state
from jaxrobust.training.step import Recipe, first_nonfinite, train_step

pytestmark = pytest.mark.ci

COUNT = 32
MEAN = STD = (0.5, 0.5, 0.5)
# The fewest steps with which each still does all of its parts.
SHORT = {"num_steps": 2, "step_size": 0.5, "eps": "0.05"}
TECHNIQUES = {
  "pgd-score": SHORT,
  "mart": SHORT,
  "alp": SHORT,
  "mm-at": SHORT,
  "vr": SHORT,
  "ensemble-at": {"sources": ("other",)},
  "mma": SHORT | {"bisections": 2},
  "fat": SHORT,
  "hat": SHORT | {"helper": "other"},
  "gat": SHORT,
  "pat-vr": {"num_steps": 2, "eps": "0.2"},
  "multi-at": SHORT | {"mode": "msd", "budgets": {"linf": "0.05", "l2": "0.5"}},
}


def run(names, options, steps=5):
  plan = make_plan(names, options)
  module = make_model("cnn-tiny", 10, **dict(plan.arch_options))
  recipe = Recipe(module, 10, MEAN, STD, plan, optax.adam(1e-2), total_steps=steps)
  images, labels = load_data("digits32-train").take(np.arange(COUNT))
  kept = plan.objective.init_state(images.shape, COUNT)
  state = jax.jit(lambda key: init_state(module, recipe.optimizer, key, (32, 32, 3), False))(jax.random.key(0))
  state = state._replace(objective_state=kept)
  others = {name: network() for name in plan.classifiers}
  # Compiling takes most of the time: the code need not be fast.
  step = jax.jit(functools.partial(train_step, recipe), compiler_options={"xla_backend_optimization_level": 0})
  reports = []
  for _ in range(steps):
    state, report = step(state, images, labels, np.arange(COUNT), others)
    assert first_nonfinite(report, state.params) is None
    reports.append(float(report["loss"]))
  return state, reports


@functools.cache
def network():
  module = make_model("cnn-tiny")
  variables = jax.jit(module.init)(jax.random.key(5), np.zeros((1, 32, 32, 3), np.float32))
  return Classifier.from_module(module, variables, mean=MEAN, std=STD)


@pytest.mark.parametrize("name", TECHNIQUES)
def test_trains_on_the_digits(name):
  _, losses = run((name,), {name: TECHNIQUES[name]})
  assert losses[-1] < 0.95 * losses[0] and np.isfinite(losses).all()


def test_objectives_compose_with_augmentations_and_weight_techniques():
  names = ("pad-crop-flip", "mixup", "trades-score", "he", "awp")
  _, losses = run(names, {"trades-score": SHORT | {"crafting": "train"}, "awp": {"gamma": 0.005}}, 8)
  assert np.mean(losses[-3:]) < losses[0] and np.isfinite(losses).all()
