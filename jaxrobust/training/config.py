"""Everything that decides a trained network, as one flat config."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from jaxrobust.core.errors import InputError
from jaxrobust.core.registry import unknown_name
from jaxrobust.core.spelling import accepts_old_names, current_keys, current_name
from jaxrobust.core.validation import is_number
from jaxrobust.training.composition import TrainPlan, make_plan
from jaxrobust.training.optimizers import DECAYS, OPTIMIZERS, SCHEDULES

PRECISIONS = ("float32", "bfloat16")
SHARDINGS = ("data", "fsdp")
# Say how a run is logged or checked, not what it makes: a run may be continued with others.
_FREE = ("save_every", "log_every")
# Came later: a run without them is the run it was before.
_LATER = {
  **{"extra_data": "", "extra_part": 0.0, "first_rate": 0.0, "last_rate": 0.0, "batch_norm_groups": 1},
  "preprocess": "",
  "decay": "weights",
}


@accepts_old_names
@dataclass(frozen=True)
class TrainConfig:
  """A training run.

  Attributes:
    arch, data: registered names; `arch_options` go to the architecture.
    extra_data, extra_part: a second data set and which part of every batch comes from it (extra or synthetic images).
    preprocess: how pictures become arrays, and so the size of images (`resize292-crop260`); the architecture's own way
      if empty.
    init: a classifier folder to start from (fine-tuning); a head of another size is replaced.
    epochs, batch_size: of the whole run, over all devices; a batch may straddle two epochs.
    accumulate: batches whose gradients are averaged into one update.
    optimizer: "sgd" (Nesterov 0.9), "momentum" (0.9) or "adamw"; `learning_rate` and `weight_decay` its own.
    decay: what decays: "weights" alone, or "all" parameters, as plain SGD over all of a network has it.
    schedule: "cosine", "step" (a tenth at 50 % and 75 %), "step-30", "cyclic" (up and down linearly) or "constant".
    warmup_epochs: of the learning rate.
    first_rate, last_rate: where the warm-up begins, and what the schedule ends with; 0 for nothing.
    clip: the largest global gradient norm; 0 for none.
    techniques: names, in order; `options` hold the parameters of each.
    attack_warmup_epochs: how long the budget of the training attack grows from zero.
    precision: of the forward and backward passes; weights and updates are float32.
    sharding: "data" copies weights to every device, "fsdp" splits weights and optimizer state.
    batch_norm_groups: parts of a batch with statistics of their own (`network`), whatever the devices: 1 for those of
      the whole batch; a multiple of the devices spares them an exchange per layer.
    holdout: examples of the training set kept to choose the best epoch by; 0 keeps the last epoch.
    validate_steps: of the attack it is chosen by, as a rule PGD, at the budget trained for; none for standard training.
    seed: of initialization, order, augmentation and random starts.
    save_every, log_every: steps between checkpoints and between log lines.
  """

  arch: str = "cnn-tiny"
  arch_options: Mapping[str, Any] = field(default_factory=dict)
  data: str = "digits32-train"
  extra_data: str = ""
  extra_part: float = 0.0
  preprocess: str = ""
  init: str = ""
  epochs: float = 20.0
  batch_size: int = 64
  accumulate: int = 1
  optimizer: str = "adamw"
  learning_rate: float = 2e-3
  weight_decay: float = 1e-4
  decay: str = "weights"
  schedule: str = "cosine"
  warmup_epochs: float = 0.0
  first_rate: float = 0.0
  last_rate: float = 0.0
  clip: float = 0.0
  techniques: tuple[str, ...] = ()
  options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
  attack_warmup_epochs: float = 0.0
  precision: str = "float32"
  sharding: str = "data"
  batch_norm_groups: int = 1
  holdout: int = 0
  validate_steps: int = 10
  seed: int = 0
  save_every: int = 200
  log_every: int = 10

  def __post_init__(self) -> None:
    object.__setattr__(self, "techniques", tuple(map(current_name, self.techniques)))
    object.__setattr__(self, "options", _current_options(self.options))
    least = {"epochs": 0, "batch_size": 1, "accumulate": 1, "learning_rate": 0, "weight_decay": 0, "warmup_epochs": 0}
    least |= {
      "clip": 0,
      "first_rate": 0,
      "last_rate": 0,
      "extra_part": 0,
      "attack_warmup_epochs": 0,
      "holdout": 0,
      "validate_steps": 1,
      "batch_norm_groups": 1,
      "seed": 0,
      "log_every": 1,
      "save_every": 1,
    }
    values, defaults = vars(self), vars(TrainConfig)
    for name, bound in least.items():
      value, whole = values[name], isinstance(defaults[name], int)
      if not is_number(value, int if whole else int | float) or not value >= bound:
        kind = "an integer" if whole else "a number"
        raise InputError(f"{name} must be {kind} of at least {bound}, got {value!r}")
    if not self.epochs > 0:
      raise InputError(f"epochs must be more than 0, got {self.epochs!r}")
    if max(self.first_rate if self.warmup_epochs else 0, self.last_rate) > self.learning_rate:
      rates = f"first_rate {self.first_rate!r}, learning_rate {self.learning_rate!r}, last_rate {self.last_rate!r}"
      raise InputError(f"a warm-up begins and a schedule ends at a rate of at most learning_rate, got {rates}")
    if self.batch_size % self.batch_norm_groups:
      raise InputError(f"batch_size {self.batch_size} does not divide into {self.batch_norm_groups} batch_norm_groups")
    if bool(self.extra_data) != (self.extra_part > 0) or self.extra_part >= 1:
      raise InputError(f"extra_data needs an extra_part in (0, 1) and the other way round, got {self.extra_part!r}")
    for name in ("arch", "data", "extra_data", "preprocess", "init"):
      if not isinstance(values[name], str):
        raise InputError(f"{name} must be a name, got {values[name]!r}")
    for name, known in (("precision", PRECISIONS), ("sharding", SHARDINGS), ("decay", tuple(DECAYS))):
      if values[name] not in known:
        raise unknown_name(name, values[name], list(known))
    OPTIMIZERS[self.optimizer], SCHEDULES[self.schedule]

  def plan(self) -> TrainPlan:
    """Returns the techniques, built."""
    return make_plan(self.techniques, self.options)

  def identity(self) -> dict[str, Any]:
    """Returns what must be equal for two runs to make the same network, as plain JSON."""
    plain = json.loads(json.dumps(asdict(self)))
    known = {name: value for name, value in plain.items() if name not in _FREE}
    return {name: value for name, value in known.items() if name not in _LATER or value != _LATER[name]}


def make_train_config(options: Any) -> TrainConfig:
  """Builds a config from plain options; unknown ones raise UnknownNameError with the nearest known names.

  >>> make_train_config({"seeds": 3})
  Traceback (most recent call last):
  jaxrobust.core.errors.UnknownNameError: unknown training option 'seeds'; did you mean 'seed'?
  """
  options = _plain(options)
  if not isinstance(options, Mapping):
    raise InputError(f"a training config is a set of options, got {options!r}")
  options = current_keys(options)
  known = [item.name for item in fields(TrainConfig)]
  for key in options:
    if key not in known:
      raise unknown_name("training option", key, known)
  return TrainConfig(**options)


def same_identity(stored: Any, config: TrainConfig) -> bool:
  """Returns whether a run's folder, whose names may be spelled as they once were, was made by this very config."""
  if not isinstance(stored, Mapping) or not stored.keys() >= {"techniques", "options"}:
    return False
  techniques, options = [current_name(name) for name in stored["techniques"]], _current_options(stored["options"])
  return {**current_keys(stored), "techniques": techniques, "options": options} == config.identity()


def _current_options(options: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
  """Returns the options of techniques, by their current names."""
  return {
    name: current_keys(inner) if isinstance(inner, Mapping) else inner for name, inner in current_keys(options).items()
  }


def _plain(value: Any) -> Any:
  """Returns config dicts as plain ones."""
  if isinstance(value, Mapping) or hasattr(value, "to_dict"):
    return {key: _plain(inner) for key, inner in dict(value).items()}
  return tuple(value) if isinstance(value, list) else value
