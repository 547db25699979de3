"""A linear network, of which every gradient is known, and the same in NumPy."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn

from jaxrobust.core.classifier import Classifier
from jaxrobust.training.composition import make_plan
from jaxrobust.training.state import init_state
from jaxrobust.training.step import Recipe
from jaxrobust.training.technique import Batch, Context

CLASSES = 3
SHAPE = (2, 2, 1)
RATE = 0.5


class Linear(nn.Module):
  """Logits are W x."""

  num_classes: int = CLASSES

  @nn.compact
  def __call__(self, x: Any, train: bool = False) -> Any:
    return nn.Dense(self.num_classes, use_bias=False, name="head")(x.reshape(len(x), -1))


class Normalized(nn.Module):
  """A hidden layer with batch norm, on the same images."""

  num_classes: int = CLASSES

  @nn.compact
  def __call__(self, x: Any, train: bool = False) -> Any:
    x = nn.Dense(5, name="hidden")(x.reshape(len(x), -1))
    x = nn.relu(nn.BatchNorm(use_running_average=not train, momentum=0.8, name="norm")(x))
    return nn.Dense(self.num_classes, name="head")(x)


class Training:
  """The network that an objective is given: `weights` are its only parameter."""

  def __init__(self, weights: Any):
    self.weights = weights

  def __call__(self, images: Any, stats: Any) -> Any:
    return images.reshape(len(images), -1) @ self.weights, stats

  def features(self, images: Any, stats: Any) -> Any:
    return images.reshape(len(images), -1), stats


def weights(seed: int = 0) -> np.ndarray:
  return np.random.default_rng(seed).normal(size=(4, CLASSES)).astype(np.float32)


def rows(count: int = 6, seed: int = 1) -> Batch:
  rng = np.random.default_rng(seed)
  images = rng.uniform(0.3, 0.7, (count, *SHAPE)).astype(np.float32)
  labels = rng.integers(CLASSES, size=count)
  keys = jax.random.split(jax.random.key(seed), count)
  return Batch(jnp.asarray(images), jnp.eye(CLASSES)[labels], jnp.asarray(labels), keys, jnp.arange(count))


def classifier(matrix: np.ndarray) -> Classifier:
  return Classifier.from_module(Linear(), {"params": {"head": {"kernel": jnp.asarray(matrix)}}})


def context(matrix: np.ndarray, **more: Any) -> Context:
  return Context(classifier(matrix), {}, jnp.float32(1), jax.random.key(0), **more)


def start(*techniques: str, steps: int = 4, options: Any = None) -> tuple[Recipe, Any]:
  """A recipe of plain gradient descent and its first state, with the weights of `weights()`."""
  plan = make_plan(techniques, options or {})
  recipe = Recipe(Linear(), CLASSES, (0.0,), (1.0,), plan, optax.sgd(RATE), total_steps=steps)
  variables = {"params": {"head": {"kernel": jnp.asarray(weights())}}}
  kept = plan.objective.init_state((6, *SHAPE), 6)
  averaged = plan.average is not None
  return recipe, init_state(recipe.module, recipe.optimizer, jax.random.key(0), SHAPE, averaged, variables, kept)


def softmax(z: np.ndarray) -> np.ndarray:
  e = np.exp(z - z.max(-1, keepdims=True))
  return e / e.sum(-1, keepdims=True)


def entropy(z: np.ndarray, y: np.ndarray) -> np.ndarray:
  return -np.sum(y * np.log(softmax(z)), -1)


def divergence(z: np.ndarray, w: np.ndarray) -> np.ndarray:
  return np.sum(softmax(z) * np.log(softmax(z) / softmax(w)), -1)
