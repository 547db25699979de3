"""The state of a running loop, and the networks that come out of it: weights to evaluate, the form that is saved."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from jaxrobust.core.classifier import Classifier
from jaxrobust.core.mesh import replicated
from jaxrobust.core.stopping import StopRequest
from jaxrobust.data.crops import Crop
from jaxrobust.data.source import DataSource
from jaxrobust.models.registry import MODELS
from jaxrobust.models.zoo import load_classifier, read_metadata, save_classifier
from jaxrobust.training.checkpoints import Checkpoints
from jaxrobust.training.config import TrainConfig
from jaxrobust.training.logs import Log
from jaxrobust.training.pretraining.backbone import backbone_of, backbone_variables
from jaxrobust.training.recipes import exported_options
from jaxrobust.training.state import TrainState, as_variables, variables_of
from jaxrobust.training.step import Recipe, statistics_after
from jaxrobust.training.stream import Stream


@dataclass
class Run:
  """All that a running loop holds."""

  config: TrainConfig
  folder: Path
  recipe: Recipe
  mesh: Mesh
  data: DataSource
  train_size: int
  total_steps: int
  log: Log
  checkpoints: Checkpoints
  stop: StopRequest
  frozen_models: dict[str, Classifier]
  window: list[float]  # The sums of the log line that a checkpoint cut off.
  crop: Crop | None = None  # Cut out of whole pictures while they are read.
  profile: bool = False  # Whether a few steps are recorded.

  @property
  def chief(self) -> bool:
    return jax.process_index() == 0

  def epoch_of(self, step: int) -> int:
    """Returns the finished epochs after `step` steps."""
    return step * self.config.batch_size // self.train_size


def host_variables(run: Run, state: TrainState) -> Any:
  """Returns the weights to evaluate, whole, on this process's host; every process must call it."""
  variables = variables_of(state)
  average = run.recipe.plan.average
  batches = average.statistics if average is not None else 0
  if batches and state.batch_stats:
    stream = Stream(run.data, run.train_size, run.config.batch_size, run.config.seed, run.mesh)
    try:
      variables = measured(run.recipe, state, run.frozen_models, itertools.islice(stream, batches))
    finally:
      stream.close()
  variables = backbone_variables(run.recipe.module, variables)
  whole = jax.jit(lambda tree: tree, out_shardings=replicated(run.mesh))(variables)
  return jax.tree.map(lambda leaf: np.asarray(leaf.addressable_data(0)), whole)


def exported(run: Run, variables: Any) -> Any:
  export = run.recipe.plan.export
  return variables if export is None else export.export(variables)


def save_weights(run: Run, variables: Any, folder: Path, extra: dict[str, Any]) -> None:
  spec, config = MODELS[run.config.arch], run.config
  notes = {"train": config.identity(), **extra}
  if config.preprocess:
    notes["preprocess"] = config.preprocess
  shape = run.data.take(np.arange(1))[0].shape[1:]
  save_classifier(
    folder,
    config.arch,
    variables,
    num_classes=backbone_of(run.recipe.module).num_classes,
    mean=spec.mean,
    std=spec.std,
    options=exported_options(config, run.recipe.plan),
    notes=notes,
    input_shape=None if shape == spec.input_size else shape,
  )


def finish(run: Run, state: TrainState) -> None:
  """Makes the folder a classifier: the best epoch where examples were held out, the last one elsewhere."""
  variables = host_variables(run, state)
  if run.chief:
    best = read_metadata(run.folder / "best")
    if best is not None:
      variables = load_classifier(run.folder / "best").variables["module"]
    else:
      variables = exported(run, variables)
    extra = (
      {key: value for key, value in best["notes"].items() if key != "train"} if best else {"step": int(state.step)}
    )
    save_weights(run, variables, run.folder, extra)


@functools.partial(jax.jit, static_argnums=0)
def _of_a_batch(recipe: Recipe, state: TrainState, rows: Any, frozen_models: Mapping[str, Classifier]) -> Any:
  starts = [jax.tree.map(fill, state.batch_stats) for fill in (jnp.zeros_like, jnp.ones_like)]
  zeros, ones = statistics_after(recipe, state, starts, frozen_models, *rows)
  return jax.tree.map(lambda zero, one: zero / (1 - (one - zero)), zeros, ones)


def measured(
  recipe: Recipe, state: TrainState, frozen_models: Mapping[str, Classifier], batches: Iterable[Any]
) -> dict[str, Any]:
  """Returns the averaged weights with the mean statistics of the batches, augmented and attacked as in training.

  An average was never trained with statistics of its own (arXiv:1803.05407, section 3.2). A layer makes
  `keep · old + (1 - keep) · measured` of the statistics it is given, with a `keep` of its own. Asked twice about one
  batch, with statistics of all zeros and of all ones, it gives both away; the means over many batches are then exact,
  whatever the architecture.
  """
  params, stats = state.average
  averaged = state._replace(params=params, batch_stats=stats, opt_state=(), average=())
  total, count = jax.tree.map(jnp.zeros_like, stats), 0
  for rows in batches:
    total = jax.tree.map(jnp.add, total, _of_a_batch(recipe, averaged, tuple(rows), frozen_models))
    count += 1
  return as_variables(params, jax.tree.map(lambda leaf: leaf / count, total))
