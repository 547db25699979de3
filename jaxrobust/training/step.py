"""One jitted training step, plain or adversarial, on one device or a pod.

The batch is split over the mesh and everything else follows from it: XLA inserts the reductions, so batch norm and
the gradient are those of the global batch whatever the number of devices. Weights that are split over devices are
gathered once per step (`network`).
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from clu import metrics as clu_metrics
from flax import linen as nn
from jax.sharding import Mesh

from jaxrobust.core.classifier import Classifier
from jaxrobust.core.mesh import replicated, row_sharding
from jaxrobust.core.types import Array
from jaxrobust.training.composition import TrainPlan, prepare
from jaxrobust.training.coupled import coupled_classifier
from jaxrobust.training.network import Gather, TrainingNetwork, gather_frozen, gather_weights
from jaxrobust.training.state import TrainState, as_variables
from jaxrobust.training.technique import Batch, Clock, Context, Losses

# What a step reports, as sums and counts.
StepMetrics = clu_metrics.Collection.create(
  loss=clu_metrics.Average.from_output("loss"), accuracy=clu_metrics.Average.from_output("correct")
)


@dataclasses.dataclass(frozen=True)
class Recipe:
  """The static values that decide the compiled step.

  Attributes:
    module: the network; mean, std: its normalization.
    plan: the techniques.
    optimizer: an optax transformation.
    attack_warmup: steps over which the training attack's budget grows from zero.
    dtype: of the forward and backward passes.
    seed: of everything random.
    total_steps, epoch_steps: of the run, for techniques that change with time.
    batch_norm_groups: parts of a batch that are normalized by statistics of their own; 1 for those of the whole batch.
  """

  module: nn.Module
  num_classes: int
  mean: tuple[float, ...]
  std: tuple[float, ...]
  plan: TrainPlan
  optimizer: optax.GradientTransformation
  attack_warmup: int = 0
  dtype: Any = jnp.float32
  seed: int = 0
  total_steps: int = 1
  epoch_steps: float = 1.0
  batch_norm_groups: int = 1


class StepOutputs(NamedTuple):
  """The outputs of one update: a loss and a verdict per example, and flags of what is finite."""

  values: Array
  correct: Array
  finite: dict[str, Array]


def train_step(
  recipe: Recipe,
  state: TrainState,
  images: Array,
  labels: Array,
  ids: Array,
  frozen_models: Mapping[str, Classifier] | None = None,
  layout: Any = None,
) -> tuple[TrainState, dict[str, Any]]:
  """Makes one step: one update, or as many as the objective makes with a batch.

  Args:
    images: (N, H, W, C), uint8 or float32 in [0, 1]; labels, ids: (N,).
    frozen_models: the frozen classifiers that techniques ask, by name.
    layout: the shardings of the weights, where they are split over devices.

  Returns:
    The next state and a report: `metrics` (sums and counts) and what is not finite, if anything.
  """
  batch, dropout_key, objective_key = _prepare(recipe, state.step, images, labels, ids)
  begun, replays = state, recipe.plan.objective.replays
  gather = functools.partial(gather_weights, dtype=recipe.dtype, layout=layout)
  update = functools.partial(_update, recipe, gather, gather_frozen(frozen_models or {}, layout))
  if replays == 1:
    state, outputs = update(state, batch, dropout_key, objective_key)
  else:

    def replay(state: TrainState, number: Array) -> tuple[TrainState, StepOutputs]:
      draws = (jax.random.fold_in(each, number) for each in (dropout_key, objective_key))
      return update(state, batch, *draws)

    state, outputs = jax.lax.scan(replay, state, jnp.arange(replays))
    finite = jax.tree.map(lambda flags: jnp.all(flags, axis=0), outputs.finite)
    outputs = StepOutputs(outputs.values.ravel(), outputs.correct.ravel(), finite)
  if recipe.plan.average is not None:
    clock = Clock(begun.step, recipe.total_steps, recipe.epoch_steps, _updated(state.opt_state))
    average = recipe.plan.average.average(begun.average, (state.params, state.batch_stats), clock)
    state = state._replace(average=average)
  report = {
    "metrics": StepMetrics.single_from_model_output(loss=outputs.values, correct=outputs.correct),
    "finite": outputs.finite,
    "loss": jnp.mean(outputs.values),
  }
  return state._replace(step=begun.step + 1), report


def _updated(opt_state: Any) -> Array | bool:
  """Returns whether the step changed the weights, or only added to gradients that are averaged over several."""
  return opt_state.mini_step == 0 if isinstance(opt_state, optax.MultiStepsState) else True


def _prepare(recipe: Recipe, step: Array, images: Array, labels: Array, ids: Array) -> tuple[Batch, Array, Array]:
  """Returns the batch that a step trains on, and the keys of dropout and of the objective."""
  key = jax.random.fold_in(jax.random.key(recipe.seed), step)
  keys = jax.vmap(lambda example: jax.random.fold_in(key, example))(ids)
  if images.dtype == jnp.uint8:
    images = images.astype(jnp.float32) / 255
  batch = Batch(images, jax.nn.one_hot(labels, recipe.num_classes), labels, keys, ids)
  # The keys of examples and of the batch come from two streams, so that no id can collide with them.
  batch_key, dropout_key, objective_key = jax.random.split(jax.random.fold_in(key, 0x62617463), 3)
  batch = prepare(recipe.plan, batch, batch_key)
  return batch, dropout_key, objective_key


def _update(
  recipe: Recipe,
  gather: Gather,
  frozen_models: Mapping[str, Classifier],
  state: TrainState,
  batch: Batch,
  dropout_key: Array,
  objective_key: Array,
) -> tuple[TrainState, StepOutputs]:
  """Makes one update of the weights; returns the state and what it saw."""
  plan, objective = recipe.plan, recipe.plan.objective
  context = _context(recipe, gather, state, batch, frozen_models, objective_key)

  def mean_loss(params: Any, objective_state: Any) -> tuple[Array, Losses]:
    network = _network(recipe, gather, params, dropout_key)
    losses = objective.loss(network, batch, context._replace(state=objective_state))
    return jnp.mean(losses.values), losses

  gradient = jax.value_and_grad(mean_loss, argnums=(0, 1) if objective.needs_state_grad else (0,), has_aux=True)
  params = state.params
  if plan.perturb is not None:
    steepest = gradient(params, state.objective_state)[1][0]
    params = plan.perturb.perturb(params, steepest, context.train_fraction)
  (_, losses), (grads, *ascent) = gradient(params, state.objective_state)
  # Where the weights are perturbed, so are those that decay: as if the update were made there and carried back.
  updates, opt_state = recipe.optimizer.update(grads, state.opt_state, params)
  objective_state = objective.update_state(batch, context, ascent[0] if objective.needs_state_grad else None)
  correct = losses.correct
  if correct is None:
    correct = (jnp.argmax(losses.logits, -1) == jnp.argmax(batch.targets, -1)).astype(jnp.float32)
  outputs = StepOutputs(losses.values, correct, _finite(batch.images, losses.logits, grads))
  moved = optax.apply_updates(state.params, updates)
  return TrainState(moved, losses.batch_stats, opt_state, state.average, state.step, objective_state), outputs


def statistics_after(
  recipe: Recipe,
  state: TrainState,
  starts: Sequence[Any],
  frozen_models: Mapping[str, Classifier],
  images: Array,
  labels: Array,
  ids: Array,
) -> list[Any]:
  """Returns the running statistics after an objective's passes over a batch, from each of `starts`."""
  batch, dropout_key, objective_key = _prepare(recipe, state.step, images, labels, ids)
  gather = functools.partial(gather_weights, dtype=recipe.dtype)
  context = _context(recipe, gather, state, batch, frozen_models, objective_key)
  network = lambda: _network(recipe, gather, state.params, dropout_key)
  loss = recipe.plan.objective.loss
  return [loss(network(), batch, context._replace(batch_stats=start)).batch_stats for start in starts]


def _network(recipe: Recipe, gather: Gather, params: Any, key: Array) -> TrainingNetwork:
  return TrainingNetwork(
    recipe.module, recipe.mean, recipe.std, recipe.dtype, recipe.batch_norm_groups, gather, params, key
  )


def _context(
  recipe: Recipe,
  gather: Gather,
  state: TrainState,
  batch: Batch,
  frozen_models: Mapping[str, Classifier],
  key: Array,
) -> Context:
  """Returns what the objective may use, with what it crafts."""
  # Statistics stay as they are: rounded to bfloat16 they would be those of another network.
  frozen = jax.lax.stop_gradient(as_variables(gather(state.params), state.batch_stats))
  classifier = Classifier.from_module(recipe.module, frozen, mean=recipe.mean, std=recipe.std, dtype=recipe.dtype)
  context = Context(
    classifier,
    state.batch_stats,
    jnp.minimum((state.step + 1) / (recipe.attack_warmup + 1), 1.0).astype(jnp.float32),
    key,
    coupled_classifier(classifier, recipe.module, jax.random.fold_in(key, 0x63726166)),
    jnp.minimum(state.step / recipe.total_steps, 1.0).astype(jnp.float32),
    frozen_models,
    state.objective_state,
  )
  if recipe.plan.margin is not None:
    context = context._replace(margin=recipe.plan.margin.margin)
  return context._replace(crafted=jax.lax.stop_gradient(recipe.plan.objective.craft(batch, context)))


def _finite(images: Array, logits: Array, grads: Any) -> dict[str, Array]:
  """Returns flags of what is finite, in the order in which things are computed; one per parameter."""
  every = lambda tree: jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(tree)])
  return {"images": every(images), "logits": every(logits), "gradients": every(grads)}


def first_nonfinite(report: dict[str, Any], params: Any) -> str | None:
  """Returns what was not finite first, by name; None where all is well."""
  for part, flags in jax.device_get(report["finite"]).items():
    if not flags.all():
      if part != "gradients":
        return f"the {part}"
      paths = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(params)]
      return f"the gradient of {paths[int((~flags).argmax())]}"
  return None


def jit_step(
  recipe: Recipe, mesh: Mesh, shardings: Any, frozen_shardings: Any
) -> Callable[..., tuple[TrainState, dict[str, Any]]]:
  """Returns the jitted step of (state, frozen models, images, labels, ids), for states laid out as `shardings`."""
  split = not all(leaf.is_fully_replicated for leaf in jax.tree.leaves(shardings.params))
  layout = shardings.params if split else None

  def step(
    state: TrainState, frozen_models: Any, images: Array, labels: Array, ids: Array
  ) -> tuple[TrainState, dict[str, Any]]:
    return train_step(recipe, state, images, labels, ids, frozen_models, layout)

  rows = row_sharding(mesh)
  return jax.jit(
    step,
    in_shardings=(shardings, frozen_shardings, rows, rows, rows),
    out_shardings=(shardings, replicated(mesh)),
    donate_argnums=0,
  )


def make_step(
  recipe: Recipe, mesh: Mesh, shardings: Any, frozen_models: Mapping[str, Classifier] | None = None
) -> Callable[..., tuple[TrainState, dict[str, Any]]]:
  """Builds the step, compiled for states laid out as `shardings`; the state's buffers are reused.

  The weights of `frozen_models`, which lie on the mesh, are arguments of the program and not constants in it.
  """
  frozen_models = frozen_models or {}
  compiled = jit_step(recipe, mesh, shardings, jax.tree.map(lambda leaf: leaf.sharding, frozen_models))
  return lambda state, images, labels, ids: compiled(state, frozen_models, images, labels, ids)
