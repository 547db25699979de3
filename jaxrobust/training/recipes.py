"""From a config to what decides the compiled step, and to the form in which a network is saved."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax.numpy as jnp

from jaxrobust.core.errors import InputError
from jaxrobust.data.crops import Crop
from jaxrobust.data.source import DataSource, whole_pictures
from jaxrobust.models.registry import MODELS, make_model
from jaxrobust.training.augmentations.augment import RandomResizedCrop
from jaxrobust.training.composition import TrainPlan
from jaxrobust.training.config import TrainConfig
from jaxrobust.training.optimizers import make_optimizer
from jaxrobust.training.pretraining.backbone import wrapped
from jaxrobust.training.step import Recipe


def make_recipe(config: TrainConfig, num_classes: int, size: int, total_steps: int) -> Recipe:
  """Returns the compiled step's ingredients, from a config."""
  spec, plan = MODELS[config.arch], config.plan()
  exported_options(config, plan)
  if config.batch_norm_groups > 1 and getattr(plan.objective, "crafting", "eval") == "train":
    raise InputError("crafting='train' takes the statistics of the whole batch: leave batch_norm_groups at 1")
  per_epoch = size / config.batch_size
  # An objective may make several updates with each batch.
  share = plan.objective.replays / config.accumulate
  optimizer = make_optimizer(
    config.optimizer,
    config.schedule,
    learning_rate=config.learning_rate,
    weight_decay=config.weight_decay,
    updates=max(1, int(total_steps * share)),
    warmup=round(config.warmup_epochs * per_epoch * share),
    clip=config.clip,
    accumulate=config.accumulate,
    first_rate=config.first_rate,
    last_rate=config.last_rate,
    decay=config.decay,
  )
  module = make_model(config.arch, num_classes, **{**config.arch_options, **dict(plan.arch_options)})
  return Recipe(
    wrapped(module, plan.objective, config),
    num_classes,
    tuple(spec.mean),
    tuple(spec.std),
    plan,
    optimizer,
    round(config.attack_warmup_epochs * per_epoch),
    jnp.dtype(config.precision),
    config.seed,
    total_steps,
    per_epoch,
    config.batch_norm_groups,
  )


def crop_while_reading(data: DataSource, recipe: Recipe) -> tuple[Crop | None, Recipe]:
  """Returns the crop that pictures are read with, and the recipe without it; None and the recipe where there is none.

  A random resized crop that comes first is cut out of the whole picture where the data is one of pictures: of what an
  evaluation sees, the middle at 224 pixels, a crop of 8 % would have 63 pixels and never what lies outside.
  """
  first = recipe.plan.augments[0] if recipe.plan.augments else None
  if not isinstance(first, RandomResizedCrop) or not whole_pictures(data):
    return None, recipe
  plan = replace(recipe.plan, augments=recipe.plan.augments[1:])
  return Crop(first.smallest, first.largest, first.aspect), replace(recipe, plan=plan)


def exported_options(config: TrainConfig, plan: TrainPlan) -> dict[str, Any]:
  """Returns the architecture's options in the form that is saved."""
  options = {**config.arch_options, **dict(plan.arch_options)}
  return plan.export.exported(config.arch, options) if plan.export is not None else options
