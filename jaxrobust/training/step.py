"""One jitted training step, plain or adversarial, on one device or a pod.

The batch is split over the mesh and everything else follows from it: XLA inserts the reductions, so batch norm and
the gradient are those of the global batch whatever the number of devices.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
from clu import metrics as clu_metrics
from flax import linen as nn
from jax.sharding import Mesh

from jaxrobust.core.classifier import Classifier
from jaxrobust.core.mesh import replicated, row_sharding
from jaxrobust.core.types import Array
from jaxrobust.training.state import TrainState, as_variables
from jaxrobust.training.technique import Batch, Context, Network, Plan, prepare

# What a step reports, as sums and counts.
StepMetrics = clu_metrics.Collection.create(
  loss=clu_metrics.Average.from_output("loss"), accuracy=clu_metrics.Average.from_output("correct")
)


@dataclasses.dataclass(frozen=True)
class Recipe:
  """What decides the compiled step.

  Attributes:
    module: the network; mean, std: its normalisation.
    plan: the techniques.
    optimiser: an optax transformation.
    attack_warmup: steps over which the training attack's budget grows from zero.
    dtype: of the forward and backward passes.
    seed: of everything random.
  """

  module: nn.Module
  num_classes: int
  mean: tuple[float, ...]
  std: tuple[float, ...]
  plan: Plan
  optimiser: optax.GradientTransformation
  attack_warmup: int = 0
  dtype: Any = jnp.float32
  seed: int = 0


def _cast(tree: Any, dtype: Any) -> Any:
  return jax.tree.map(lambda leaf: leaf.astype(dtype) if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf, tree)


def _network(recipe: Recipe, params: Any, key: Array) -> Network:
  """The network in training mode; each call draws its own dropout."""
  calls = iter(range(1 << 20))

  def apply(images: Array, batch_stats: Any, weights: Any | None = None, **inputs: Any) -> tuple[Array, Any]:
    normalised = ((images - jnp.asarray(recipe.mean)) / jnp.asarray(recipe.std)).astype(recipe.dtype)
    variables = as_variables(_cast(params if weights is None else weights, recipe.dtype), batch_stats)
    rng = jax.random.fold_in(key, next(calls))
    rngs = {"dropout": rng, "drop_path": rng}
    logits, updates = recipe.module.apply(
      variables, normalised, train=True, mutable=["batch_stats"], rngs=rngs, **inputs
    )
    return logits.astype(jnp.float32), updates.get("batch_stats", {})

  return apply


def train_step(
  recipe: Recipe, state: TrainState, images: Array, labels: Array, ids: Array
) -> tuple[TrainState, dict[str, Any]]:
  """One update.

  Args:
    images: (N, H, W, C), uint8 or float32 in [0, 1]; labels, ids: (N,).

  Returns:
    The next state and a report: `metrics` (sums and counts) and what is not finite, if anything.
  """
  key = jax.random.fold_in(jax.random.key(recipe.seed), state.step)
  keys = jax.vmap(lambda example: jax.random.fold_in(key, example))(ids)
  if images.dtype == jnp.uint8:
    images = images.astype(jnp.float32) / 255
  batch = Batch(images, jax.nn.one_hot(labels, recipe.num_classes), labels, keys)
  # The keys of examples and of the batch come from two streams, so that no id can collide with them.
  batch_key, dropout_key, objective_key = jax.random.split(jax.random.fold_in(key, 0x62617463), 3)
  batch = prepare(recipe.plan, batch, batch_key)
  frozen = jax.lax.stop_gradient(_cast(as_variables(state.params, state.batch_stats), recipe.dtype))
  classifier = Classifier.from_module(recipe.module, frozen, mean=recipe.mean, std=recipe.std)
  progress = jnp.minimum((state.step + 1) / (recipe.attack_warmup + 1), 1.0).astype(jnp.float32)
  context = Context(classifier, state.batch_stats, progress, objective_key)

  def mean_loss(params: Any) -> tuple[Array, Any]:
    losses = recipe.plan.objective.loss(_network(recipe, params, dropout_key), batch, context)
    return jnp.mean(losses.values), losses

  (loss, losses), grads = jax.value_and_grad(mean_loss, has_aux=True)(state.params)
  updates, opt_state = recipe.optimiser.update(grads, state.opt_state, state.params)
  params = optax.apply_updates(state.params, updates)
  average = state.average
  if recipe.plan.average is not None:
    average = recipe.plan.average.average(average, (params, losses.batch_stats), state.step)
  correct = losses.correct
  if correct is None:
    correct = (jnp.argmax(losses.logits, -1) == jnp.argmax(batch.targets, -1)).astype(jnp.float32)
  report = {
    "metrics": StepMetrics.single_from_model_output(loss=losses.values, correct=correct),
    "finite": _finite(batch.images, losses.logits, grads),
    "loss": loss,
  }
  return TrainState(params, losses.batch_stats, opt_state, average, state.step + 1), report


def _finite(images: Array, logits: Array, grads: Any) -> dict[str, Array]:
  """Where things stop being numbers, in the order in which they are computed; one flag per parameter."""
  every = lambda tree: jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(tree)])
  return {"images": every(images), "logits": every(logits), "gradients": every(grads)}


def culprit(report: dict[str, Any], params: Any) -> str | None:
  """What was not finite first, by name; None where all is well."""
  for part, flags in jax.device_get(report["finite"]).items():
    if not flags.all():
      if part != "gradients":
        return f"the {part}"
      paths = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(params)]
      return f"the gradient of {paths[int((~flags).argmax())]}"
  return None


def make_step(recipe: Recipe, mesh: Mesh, shardings: Any) -> Callable[..., tuple[TrainState, dict[str, Any]]]:
  """The step, compiled for states laid out as `shardings`; the state's buffers are reused."""

  def step(state: TrainState, images: Array, labels: Array, ids: Array) -> tuple[TrainState, dict[str, Any]]:
    return train_step(recipe, state, images, labels, ids)

  rows = row_sharding(mesh)
  return jax.jit(
    step, in_shardings=(shardings, rows, rows, rows), out_shardings=(shardings, replicated(mesh)), donate_argnums=0
  )
