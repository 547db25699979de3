"""The training loop: epochs over a data source, and a classifier folder at the end.

Batches are a function of (seed, epoch) alone and keys of (seed, step), so two runs of one config make the
same network.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import jax
import numpy as np
import optax

from jaxrobust.attacks.losses import LOSSES
from jaxrobust.attacks.registry import make_attack
from jaxrobust.core.errors import CellMismatchError, InputError
from jaxrobust.core.progress import Meter, show
from jaxrobust.core.registry import unknown_name
from jaxrobust.core.threat import Budget
from jaxrobust.core.types import Attack
from jaxrobust.data.registry import DATASETS, load_data
from jaxrobust.models.registry import MODELS, make_model
from jaxrobust.models.zoo import read_metadata, save_classifier
from jaxrobust.training.step import Recipe, TrainState, init_state, train_step, variables_of


@dataclass(frozen=True)
class TrainConfig:
  """Everything that decides a trained network.

  Attributes:
    arch, data: registered names.
    epochs, batch_size, learning_rate, weight_decay: AdamW with a cosine schedule.
    attack: the attack that crafts training images, or "" for standard training; `attack_options` its parameters.
    eps: its budget, as text; `warmup_epochs` is how long it grows from zero.
    seed: of initialisation, order and random starts.
  """

  arch: str = "cnn-tiny"
  data: str = "digits32-train"
  epochs: int = 20
  batch_size: int = 64
  learning_rate: float = 2e-3
  weight_decay: float = 1e-4
  attack: str = ""
  attack_options: tuple[tuple[str, Any], ...] = ()
  eps: str = "8/255"
  warmup_epochs: int = 5
  seed: int = 0

  def __post_init__(self) -> None:
    for name, least in (
      ("epochs", 1),
      ("batch_size", 1),
      ("warmup_epochs", 0),
      ("learning_rate", 0),
      ("weight_decay", 0),
    ):
      value = getattr(self, name)
      if isinstance(value, bool) or not isinstance(value, int | float) or not value >= least:
        raise InputError(f"{name} must be a number of at least {least}, got {value!r}")


def make_train_config(options: dict[str, Any]) -> TrainConfig:
  """A config from plain options; unknown ones are refused with the nearest known names."""
  known = [field.name for field in fields(TrainConfig)]
  for key in options:
    if key not in known:
      raise unknown_name("training option", key, known)
  parameters = tuple(sorted(dict(options.get("attack_options", {})).items()))
  return TrainConfig(**{**options, "attack_options": parameters})


def check_train_config(config: TrainConfig) -> None:
  """Looks every name up, so that a typo is found before the first network is trained."""
  MODELS[config.arch]
  DATASETS[config.data] if not config.data.startswith("npz:") else load_data(config.data)
  Budget.parse(config.eps)
  if config.attack:
    _training_attack(config)


def train(config: TrainConfig, out: str | Path, *, title: str = "train", quiet: bool = False) -> Path:
  """Trains and saves a classifier; a folder that already holds this very network is returned as it is."""
  notes = {"train": json.loads(json.dumps(asdict(config)))}
  existing = read_metadata(out)
  if existing is not None:
    if existing["notes"] == notes:
      return Path(out)
    raise CellMismatchError(f"{out} holds a network trained with another config; use another folder or remove it")
  data = load_data(config.data)
  steps_per_epoch = len(data) // config.batch_size
  if not steps_per_epoch:
    raise InputError(f"batch_size {config.batch_size} is larger than {config.data} ({len(data)} examples)")
  recipe = _recipe(config, data.num_classes, steps_per_epoch)
  images, labels = data.take(np.arange(len(data)))
  root = jax.random.key(config.seed)
  state = init_state(recipe, jax.random.fold_in(root, 0), images.shape[1:])
  with show(title, config.epochs * steps_per_epoch * config.batch_size, quiet=quiet) as meter:
    state = _epochs(config, recipe, state, images, labels, jax.random.fold_in(root, 1), meter)
  spec = MODELS[config.arch]
  return save_classifier(
    out,
    config.arch,
    variables_of(state),
    num_classes=data.num_classes,
    mean=spec.mean,
    std=spec.std,
    notes=notes,
  )


def _training_attack(config: TrainConfig) -> Attack:
  """The attack, if it can craft a batch in a fixed number of steps within a budget."""
  attack = make_attack(config.attack, **dict(config.attack_options))
  if not hasattr(attack, "last") or getattr(attack, "minimal", False):
    raise InputError(f"{config.attack!r} cannot be trained with; use an attack of fixed steps such as pgd, fgsm or mim")
  loss = getattr(attack, "loss", None)
  if isinstance(loss, str) and LOSSES[loss].target == "required":
    raise InputError(f"{config.attack!r} needs a target class; train with an untargeted attack such as pgd")
  return attack


def _recipe(config: TrainConfig, num_classes: int, steps_per_epoch: int) -> Recipe:
  spec = MODELS[config.arch]
  schedule = optax.cosine_decay_schedule(config.learning_rate, config.epochs * steps_per_epoch)
  attack = _training_attack(config) if config.attack else None
  return Recipe(
    make_model(config.arch, num_classes),
    tuple(spec.mean),
    tuple(spec.std),
    optax.adamw(schedule, weight_decay=config.weight_decay),
    attack,
    Budget.parse(config.eps).value,
    config.warmup_epochs * steps_per_epoch,
  )


def _epochs(
  config: TrainConfig,
  recipe: Recipe,
  state: TrainState,
  images: np.ndarray,
  labels: np.ndarray,
  key: jax.Array,
  meter: Meter,
) -> TrainState:
  steps = len(images) // config.batch_size
  for epoch in range(config.epochs):
    order = np.random.default_rng((config.seed, epoch)).permutation(len(images))
    for batch in range(steps):
      rows = order[batch * config.batch_size : (batch + 1) * config.batch_size]
      step = epoch * steps + batch
      state, metrics = train_step(recipe, state, images[rows], labels[rows], jax.random.fold_in(key, step))
      if step % 10 == 0:
        jax.block_until_ready(metrics)  # Keeps the meter honest without stalling every step.
      meter((step + 1) * config.batch_size)
    if not np.isfinite(float(metrics["loss"])):
      raise InputError(f"the loss is not finite after epoch {epoch + 1}; lower the learning rate")
  return state
