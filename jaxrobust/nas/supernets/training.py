"""Trains all subnets of a supernet together, and recalibrates one of them.

Each batch is seen by four subnets (the sandwich rule, BigNAS; RobustART's "four subnets a batch"): the largest learns
from labels, smoothed by 0.1; two random ones and the smallest learn what the largest has just said of the same images
(in-place distillation), whose logits count as constants. Their gradients are added. One compiled program computes the
gradient of any subnet, so a step is four calls of it and one update; image sizes take turns, a program for each.

Normalization is by the batch in training, and no running statistics are kept: they would mix those of all subnets.
`calibrate` measures those of one subnet afterwards, as exact means of the batches' means and variances.

SGD with Nesterov's momentum 0.9 and a cosine to zero, as RobustART's appendix; weight decay and dropout rates are not
printed there, 1e-4 and none are ours.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from jaxrobust.core.errors import TrainingError
from jaxrobust.core.types import Array
from jaxrobust.nas.supernets.network import forward, init_params
from jaxrobust.nas.supernets.space import Subnet, SupernetSpace, largest, pick, smallest

SMOOTHING, MOMENTUM, WEIGHT_DECAY = 0.1, 0.9, 1e-4


@functools.partial(jax.jit, static_argnums=0)
def subnet_gradient(
  space: SupernetSpace, params: Any, subnet: Subnet, images: Array, targets: Array
) -> tuple[Any, Array, Array]:
  """Returns the gradient of a subnet's cross-entropy with target distributions, its loss, and its logits."""

  def loss(params: Any) -> tuple[Array, Array]:
    logits = forward(space, params, None, subnet, images)[0]
    return -jnp.mean(jnp.sum(targets * jax.nn.log_softmax(logits), axis=-1)), logits

  (value, logits), gradient = jax.value_and_grad(loss, has_aux=True)(params)
  return gradient, value, logits


@functools.partial(jax.jit, static_argnums=0, donate_argnums=(1, 2))
def _update(optimizer: Any, params: Any, state: Any, gradients: Sequence[Any]) -> tuple[Any, Any]:
  total = jax.tree.map(lambda *parts: sum(parts), *gradients)
  updates, state = optimizer.update(total, state, params)
  return optax.apply_updates(params, updates), state


@dataclass(frozen=True)
class SupernetRecipe:
  """How a supernet is trained.

  Attributes:
    steps, batch_size: of the run.
    learning_rate: at the start of the cosine.
    random_subnets: beside the largest and the smallest.
    seed: of weights, order and subnets.
  """

  steps: int = 100
  batch_size: int = 64
  learning_rate: float = 0.1
  random_subnets: int = 2
  seed: int = 0


def sandwich(space: SupernetSpace, seed: int, step: int, count: int = 2) -> list[Subnet]:
  """Returns the subnets of a step: the largest, random ones, the smallest; a function of seed and step."""
  rng = np.random.default_rng((seed, step))
  return [largest(space), *(pick(space, rng) for _ in range(count)), smallest(space)]


def train_supernet(
  space: SupernetSpace, images: np.ndarray, labels: np.ndarray, recipe: SupernetRecipe, num_classes: int = 10
) -> tuple[Any, list[float]]:
  """Trains a supernet.

  Args:
    space: of its subnets.
    images: (N, H, W, 3) normalized; shown at the sizes of the space in turns, by nearest neighbors of a grid.
    labels: (N,).
    recipe: of the training.
    num_classes: of the data.

  Returns:
    Its weights, and the largest subnet's loss by step.
  """
  params = init_params(space, jax.random.key(recipe.seed), num_classes)
  schedule = optax.cosine_decay_schedule(recipe.learning_rate, recipe.steps)
  optimizer = optax.chain(
    optax.clip_by_global_norm(1.0 * (recipe.random_subnets + 2)),
    optax.add_decayed_weights(WEIGHT_DECAY),
    optax.sgd(schedule, MOMENTUM, nesterov=True),
  )
  state, losses = optimizer.init(params), []
  for step in range(recipe.steps):
    rows = np.random.default_rng((recipe.seed, step, 1)).integers(len(images), size=recipe.batch_size)
    size = space.sizes[step % len(space.sizes)]
    batch = resized(images[rows], size)
    targets: Array = optax.smooth_labels(jax.nn.one_hot(labels[rows], num_classes), SMOOTHING)
    gradients = []
    for number, subnet in enumerate(sandwich(space, recipe.seed, step, recipe.random_subnets)):
      gradient, loss, logits = subnet_gradient(space, params, subnet, batch, targets)
      gradients.append(gradient)
      if number == 0:
        targets, first = jax.nn.softmax(logits), loss
    params, state = _update(optimizer, params, state, gradients)
    losses.append(float(first))
    if not np.isfinite(losses[-1]):
      raise TrainingError(f"not a number at step {step} of the supernet; lower the learning rate")
  return params, losses


def resized(images: np.ndarray, size: int) -> np.ndarray:
  """Returns square images at another size: means of the pixels under each new one, bilinear between them."""
  if images.shape[1] == size:
    return np.asarray(images)
  return np.asarray(_resize(images, size))


@functools.partial(jax.jit, static_argnums=1)
def _resize(images: Array, size: int) -> Array:
  return jax.image.resize(images, (len(images), size, size, images.shape[-1]), "bilinear", antialias=True)


@functools.partial(jax.jit, static_argnums=0)
def batch_statistics(space: SupernetSpace, params: Any, subnet: Subnet, images: Array) -> Any:
  """Returns means and variances of every normalization of a subnet on a batch."""
  return forward(space, params, None, subnet, images)[1]


def calibrate(space: SupernetSpace, params: Any, subnet: Subnet, batches: Sequence[np.ndarray]) -> Any:
  """Measures the statistics of a subnet: means over batches of their means and variances.

  Args:
    space: of the supernet.
    params: its weights.
    subnet: to recalibrate.
    batches: of normalized images, all of one shape.

  Returns:
    Statistics for `forward`.
  """
  found = [batch_statistics(space, params, subnet, batch) for batch in batches]
  return jax.tree.map(lambda *leaves: sum(leaves) / len(leaves), *found)
