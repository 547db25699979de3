"""The training step of a config, lowered for a slice: no data, no weights, no chips."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax.sharding import Mesh

from jaxrobust.core.errors import InputError
from jaxrobust.core.mesh import replicated, row_sharding
from jaxrobust.core.types import Array
from jaxrobust.data.registry import DATASETS
from jaxrobust.engine.memory import abstract, lowering_platform
from jaxrobust.models.registry import MODELS
from jaxrobust.pods.work import Lower, PodNetwork, Work, bare_programs
from jaxrobust.training.config import TrainConfig
from jaxrobust.training.network import TrainingNetwork, gather_weights
from jaxrobust.training.recipes import make_recipe
from jaxrobust.training.state import TrainState, init_state, state_shardings
from jaxrobust.training.step import Recipe, jit_step

# Of a run that is never made; schedules of learning rates want some.
STEPS = 1000


def training_work(config: TrainConfig, mesh: Mesh) -> Work:
  """Returns one step of a training.

  Args:
    config: `batch_size` is that of all chips; a config that asks frozen networks raises InputError.
  """
  spec, plan = MODELS[config.arch], config.plan()
  if plan.classifiers:
    raise InputError("frozen networks are read from disk: compile the config without them")
  network = PodNetwork(config.arch, config.precision, "default")
  steps = getattr(plan.objective, "num_steps", 0) if getattr(plan.objective, "budget", 0.0) else 0
  name = ", ".join([f"train {config.sharding}", *_named(config, steps)])

  def lower(rows: int) -> jax.stages.Lowered:
    return lower_step(_sized(config, rows * mesh.size), mesh, spec.input_size)

  rows, rest = divmod(config.batch_size, mesh.size)
  if rest or not rows:
    raise InputError(f"batch_size {config.batch_size} does not divide over {mesh.size} chips")
  bare: dict[str, Lower] = {
    **bare_programs(network, mesh),
    "parameters": functools.partial(_lower_parameters, config, mesh),
  }
  needs = {"parameters": 1.0} | ({"gradient": float(steps)} if steps else {})
  return Work(name, network, lower, rows, needs, bare, silent=False)


def _named(config: TrainConfig, steps: int) -> list[str]:
  groups = [f"{config.batch_norm_groups} batch norm groups"] if config.batch_norm_groups > 1 else []
  return [f"PGD-{steps}"] * bool(steps) + groups


def _sized(config: TrainConfig, batch_size: int) -> TrainConfig:
  return dataclasses.replace(config, batch_size=batch_size)


def _recipe(config: TrainConfig) -> Recipe:
  entry = DATASETS.get(config.data.partition("@")[0])
  size = entry.size if entry is not None and entry.size else STEPS * config.batch_size
  return make_recipe(config, MODELS[config.arch].num_classes, size, STEPS)


def lower_step(config: TrainConfig, mesh: Mesh, image_shape: tuple[int, ...]) -> jax.stages.Lowered:
  """Returns the step of a config, lowered for a mesh whose devices need not be there."""
  recipe = _recipe(config)
  state, shardings = _state(recipe, config, mesh, image_shape)
  split = jax.tree.map(lambda leaf, sharding: abstract(leaf, sharding), state, shardings)
  batch = config.batch_size
  rows = [((batch, *image_shape), jnp.uint8), ((batch,), jnp.int32), ((batch,), jnp.int32)]
  inputs = [jax.ShapeDtypeStruct(shape, dtype, sharding=row_sharding(mesh)) for shape, dtype in rows]
  step: Any = jit_step(recipe, mesh, shardings, {})
  return step.trace(split, {}, *inputs).lower(lowering_platforms=(lowering_platform(mesh),))


def _state(
  recipe: Recipe, config: TrainConfig, mesh: Mesh, image_shape: tuple[int, ...]
) -> tuple[TrainState, TrainState]:
  """Returns the shapes of a training's state, and how it lies on the chips."""
  memory = lambda: recipe.plan.objective.init_state((config.batch_size, *image_shape), config.batch_size)
  averaged = recipe.plan.average is not None
  build = lambda key: init_state(recipe.module, recipe.optimizer, key, image_shape, averaged, None, memory())
  state = jax.eval_shape(build, jax.random.key(0))
  return state, state_shardings(state, mesh, config.sharding)


def _lower_parameters(config: TrainConfig, mesh: Mesh, rows: int) -> jax.stages.Lowered:
  """Returns the bare gradient of the weights: one pass in training mode, the statistics of each chip its own."""
  groups = mesh.size if config.batch_norm_groups == 1 else config.batch_norm_groups
  recipe = _recipe(dataclasses.replace(_sized(config, rows * mesh.size), batch_norm_groups=groups))
  shape = MODELS[config.arch].input_size
  state, _ = _state(recipe, config, mesh, shape)

  def gradient(params: Any, stats: Any, images: Array, labels: Array) -> Any:
    def loss(params: Any) -> Array:
      gather = functools.partial(gather_weights, dtype=recipe.dtype)
      network = TrainingNetwork(
        recipe.module, recipe.mean, recipe.std, recipe.dtype, groups, gather, params, jax.random.key(0)
      )
      return jnp.mean(optax.softmax_cross_entropy_with_integer_labels(network(images, stats)[0], labels))

    return jax.grad(loss)(params)

  everywhere, split = replicated(mesh), row_sharding(mesh)
  inputs = [((rows * mesh.size, *shape), jnp.float32), ((rows * mesh.size,), jnp.int32)]
  batch = [jax.ShapeDtypeStruct(extents, dtype, sharding=split) for extents, dtype in inputs]
  jitted: Any = jax.jit(gradient, out_shardings=everywhere)
  weights = abstract((state.params, state.batch_stats), everywhere)
  return jitted.trace(*weights, *batch).lower(lowering_platforms=(lowering_platform(mesh),))
