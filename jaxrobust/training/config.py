"""Everything that decides a trained network, as one flat config."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from jaxrobust.core.errors import InputError
from jaxrobust.core.registry import unknown_name
from jaxrobust.core.validation import is_number
from jaxrobust.training.optimisers import OPTIMISERS, SCHEDULES
from jaxrobust.training.technique import Plan, make_plan

PRECISIONS = ("float32", "bfloat16")
SHARDINGS = ("data", "fsdp")
# Say how a run is logged or checked, not what it makes: a run may be continued with others.
_FREE = ("save_every", "log_every")
# Came later: a run without them is the run it was before.
_LATER = {"extra_data": "", "extra_part": 0.0}


@dataclass(frozen=True)
class TrainConfig:
  """A training run.

  Attributes:
    arch, data: registered names; `arch_options` go to the architecture.
    extra_data, extra_part: a second data set and which part of every batch comes from it (extra or synthetic images).
    init: a classifier folder to start from (fine-tuning); a head of another size is replaced.
    epochs, batch_size: of the whole run, over all devices; a batch may straddle two epochs.
    accumulate: batches whose gradients are averaged into one update.
    optimiser: "sgd" (Nesterov 0.9) or "adamw"; `learning_rate` and `weight_decay` its own.
    schedule: "cosine", "step" (a tenth at 50 % and 75 %), "step-30", "cyclic" (up and down linearly) or "constant".
    warmup_epochs: of the learning rate.
    clip: the largest global gradient norm; 0 for none.
    techniques: names, in order; `options` hold the parameters of each.
    attack_warmup_epochs: how long the budget of the training attack grows from zero.
    precision: of the forward and backward passes; weights and updates are float32.
    sharding: "data" copies weights to every device, "fsdp" splits weights and optimiser state.
    holdout: examples of the training set kept to choose the best epoch by; 0 keeps the last epoch.
    validate_steps: of the PGD attack it is chosen by, at the budget trained for; no attack for standard training.
    seed: of initialisation, order, augmentation and random starts.
    save_every, log_every: steps between checkpoints and between log lines.
  """

  arch: str = "cnn-tiny"
  arch_options: Mapping[str, Any] = field(default_factory=dict)
  data: str = "digits32-train"
  extra_data: str = ""
  extra_part: float = 0.0
  init: str = ""
  epochs: float = 20.0
  batch_size: int = 64
  accumulate: int = 1
  optimiser: str = "adamw"
  learning_rate: float = 2e-3
  weight_decay: float = 1e-4
  schedule: str = "cosine"
  warmup_epochs: float = 0.0
  clip: float = 0.0
  techniques: tuple[str, ...] = ()
  options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
  attack_warmup_epochs: float = 0.0
  precision: str = "float32"
  sharding: str = "data"
  holdout: int = 0
  validate_steps: int = 10
  seed: int = 0
  save_every: int = 200
  log_every: int = 10

  def __post_init__(self) -> None:
    object.__setattr__(self, "techniques", tuple(self.techniques))
    least = {"epochs": 0, "batch_size": 1, "accumulate": 1, "learning_rate": 0, "weight_decay": 0, "warmup_epochs": 0}
    least |= {
      "clip": 0,
      "extra_part": 0,
      "attack_warmup_epochs": 0,
      "holdout": 0,
      "validate_steps": 1,
      "seed": 0,
      "log_every": 1,
      "save_every": 1,
    }
    for name, bound in least.items():
      value = getattr(self, name)
      whole = isinstance(getattr(TrainConfig, name), int)
      if not is_number(value, int if whole else int | float) or not value >= bound:
        kind = "whole number" if whole else "number"
        raise InputError(f"{name} must be a {kind} of at least {bound}, got {value!r}")
    if not self.epochs > 0:
      raise InputError(f"epochs must be more than 0, got {self.epochs!r}")
    if bool(self.extra_data) != (self.extra_part > 0) or self.extra_part >= 1:
      raise InputError(f"extra_data needs an extra_part in (0, 1) and the other way round, got {self.extra_part!r}")
    for name in ("arch", "data", "extra_data", "init"):
      if not isinstance(getattr(self, name), str):
        raise InputError(f"{name} must be a name, got {getattr(self, name)!r}")
    for name, known in (("precision", PRECISIONS), ("sharding", SHARDINGS)):
      if getattr(self, name) not in known:
        raise unknown_name(name, getattr(self, name), list(known))
    OPTIMISERS[self.optimiser], SCHEDULES[self.schedule]

  def plan(self) -> Plan:
    """The techniques, built."""
    return make_plan(self.techniques, self.options)

  def identity(self) -> dict[str, Any]:
    """What must be equal for two runs to make the same network, as plain JSON."""
    plain = json.loads(json.dumps(asdict(self)))
    known = {name: value for name, value in plain.items() if name not in _FREE}
    return {name: value for name, value in known.items() if name not in _LATER or value != _LATER[name]}


def make_train_config(options: Any) -> TrainConfig:
  """A config from plain options; unknown ones are refused with the nearest known names.

  >>> make_train_config({"epoch": 3})
  Traceback (most recent call last):
  jaxrobust.core.errors.UnknownNameError: unknown training option 'epoch'; did you mean 'epochs' or 'warmup_epochs'?
  """
  options = _plain(options)
  if not isinstance(options, Mapping):
    raise InputError(f"a training config is a set of options, got {options!r}")
  known = [item.name for item in fields(TrainConfig)]
  for key in options:
    if key not in known:
      raise unknown_name("training option", key, known)
  return TrainConfig(**options)


def _plain(value: Any) -> Any:
  """Config dicts as plain ones."""
  if isinstance(value, Mapping) or hasattr(value, "to_dict"):
    return {key: _plain(inner) for key, inner in dict(value).items()}
  return tuple(value) if isinstance(value, list) else value
