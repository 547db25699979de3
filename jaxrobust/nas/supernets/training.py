"""Trains all subnets of a supernet together, and recalibrates one of them.

Each batch is seen by four subnets (the sandwich rule, BigNAS; RobustART's "four subnets a batch"): the largest learns
from labels, smoothed by 0.1; two random ones and the smallest learn what the largest has just said of the same images
(in-place distillation), whose logits count as constants. Their gradients are added. One compiled program computes the
gradient of any subnet, so a step is four calls of it and one update; image sizes take turns, a program for each.

Normalization is by the batch in training, and no running statistics are kept: they would mix those of all subnets.
`calibrate` measures those of one subnet afterwards, as exact means of the batches' means and variances.

SGD with Nesterov's momentum 0.9 and a cosine to zero, as RobustART's appendix; weight decay and dropout rates are not
printed there, 1e-4 and none are ours, as are random flips in place of ImageNet's augmentation. Batches, flips and
subnets are functions of seed and step, so a run that goes on from a checkpoint ends in the very same weights.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from jaxrobust.core.errors import TrainingError
from jaxrobust.core.stopping import StopRequest
from jaxrobust.core.types import Array
from jaxrobust.core.validation import check_count
from jaxrobust.data.source import DataSource
from jaxrobust.nas.supernets.network import forward, init_params
from jaxrobust.nas.supernets.space import Subnet, SupernetSpace, largest, pick, smallest
from jaxrobust.training.checkpoints import Checkpoints

SMOOTHING, MOMENTUM, WEIGHT_DECAY = 0.1, 0.9, 1e-4
# What every supernet sees of a pixel: (pixel - MEAN) / STD.
MEAN, STD = 0.5, 0.25


class SupernetState(NamedTuple):
  """What a step of the training changes.

  Attributes:
    params: weights of all subnets.
    optimizer: its momentum.
  """

  params: Any
  optimizer: Any


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


@functools.partial(jax.jit, static_argnums=0, donate_argnums=1)
def _update(recipe: SupernetRecipe, state: SupernetState, gradients: Sequence[Any]) -> SupernetState:
  total = jax.tree.map(lambda *parts: sum(parts), *gradients)
  updates, optimizer = _optimizer(recipe).update(total, state.optimizer, state.params)
  return SupernetState(optax.apply_updates(state.params, updates), optimizer)


def _optimizer(recipe: SupernetRecipe) -> optax.GradientTransformation:
  schedule = optax.cosine_decay_schedule(recipe.learning_rate, recipe.steps)
  return optax.chain(
    optax.clip_by_global_norm(1.0 * (recipe.random_subnets + 2)),
    optax.add_decayed_weights(WEIGHT_DECAY),
    optax.sgd(schedule, MOMENTUM, nesterov=True),
  )


@dataclass(frozen=True)
class SupernetRecipe:
  """How a supernet is trained.

  Attributes:
    steps, batch_size: of the run.
    learning_rate: at the start of the cosine.
    random_subnets: beside the largest and the smallest.
    seed: of weights, order, flips and subnets.
    save_every: steps between checkpoints.
  """

  steps: int = 100
  batch_size: int = 64
  learning_rate: float = 0.1
  random_subnets: int = 2
  seed: int = 0
  save_every: int = 500

  def __post_init__(self) -> None:
    for name in ("steps", "batch_size", "save_every"):
      check_count(getattr(self, name), name, 1 << 31)


def sandwich(space: SupernetSpace, seed: int, step: int, count: int = 2) -> list[Subnet]:
  """Returns the subnets of a step: the largest, random ones, the smallest; a function of seed and step."""
  rng = np.random.default_rng((seed, step))
  return [largest(space), *(pick(space, rng) for _ in range(count)), smallest(space)]


def train_supernet(
  space: SupernetSpace, data: DataSource, recipe: SupernetRecipe, folder: str | Path | None = None
) -> tuple[Any, list[float]]:
  """Trains a supernet.

  Args:
    space: of its subnets.
    data: shown at the sizes of the space in turns.
    recipe: of the training.
    folder: of checkpoints, from the last of which a run goes on; None for none.

  Returns:
    Its weights, and the largest subnet's loss by step.

  Raises:
    StoppedError: the process was asked to end; a checkpoint is saved.
    TrainingError: the loss is not a number.
  """
  params = init_params(space, jax.random.key(recipe.seed), data.num_classes)
  state = SupernetState(params, _optimizer(recipe).init(params))
  losses: list[float] = []
  checkpoints = Checkpoints(folder) if folder is not None else None
  if checkpoints is not None:
    here = jax.tree.map(lambda leaf: jax.sharding.SingleDeviceSharding(jax.local_devices()[0]), state)
    found = checkpoints.restore(state, here)
    if found is not None:
      _, state, losses = found
  try:
    with StopRequest() as stop:
      for step in range(len(losses), recipe.steps):
        state, loss = _advance(space, state, recipe, step, *_batch(data, recipe, step))
        losses.append(float(loss))
        if not np.isfinite(losses[-1]):
          raise TrainingError(f"not a number at step {step} of the supernet; lower the learning rate")
        last = step + 1 == recipe.steps
        if checkpoints is not None and (last or stop.asked or (step + 1) % recipe.save_every == 0):
          checkpoints.save(step + 1, state, list(losses))
        if stop.asked and not last:
          raise stop.error(f"after step {step + 1} of {recipe.steps} of the supernet")
  finally:
    if checkpoints is not None:
      checkpoints.close()
  return state.params, losses


def _batch(data: DataSource, recipe: SupernetRecipe, step: int) -> tuple[np.ndarray, np.ndarray]:
  """Returns the images of a step, normalized and half of them mirrored, and their labels."""
  rng = np.random.default_rng((recipe.seed, step, 1))
  images, labels = data.take(rng.integers(len(data), size=recipe.batch_size))
  flipped = rng.random(recipe.batch_size) < 0.5
  return to_inputs(np.where(flipped[:, None, None, None], images[:, :, ::-1], images)), labels


def _advance(
  space: SupernetSpace, state: SupernetState, recipe: SupernetRecipe, step: int, images: np.ndarray, labels: np.ndarray
) -> tuple[SupernetState, Array]:
  """Returns the state after a step, and the largest subnet's loss."""
  batch = resized(images, space.sizes[step % len(space.sizes)])
  classes = state.params["head"]["bias"].shape[0]
  targets: Array = optax.smooth_labels(jax.nn.one_hot(labels, classes), SMOOTHING)
  gradients, first = [], jnp.asarray(jnp.nan)
  for number, subnet in enumerate(sandwich(space, recipe.seed, step, recipe.random_subnets)):
    gradient, loss, logits = subnet_gradient(space, state.params, subnet, batch, targets)
    gradients.append(gradient)
    if number == 0:
      targets, first = jax.nn.softmax(logits), loss
  return _update(recipe, state, gradients), first


def to_inputs(images: np.ndarray) -> np.ndarray:
  """Returns pixels in [0, 1] as a supernet sees them."""
  return ((images - MEAN) / STD).astype(np.float32)


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
