"""The techniques of a run: made by name, checked, and sorted by what they change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, cast

import jax

from jaxrobust.core.errors import InputError
from jaxrobust.core.registry import unknown_name
from jaxrobust.core.spelling import current_keys, current_name
from jaxrobust.core.types import Array
from jaxrobust.core.validation import is_number
from jaxrobust.training.declarations import check_technique
from jaxrobust.training.technique import (
  HOOKS,
  TECHNIQUES,
  Augmentation,
  Averaging,
  Batch,
  Export,
  LogitMargin,
  Mixing,
  Objective,
  Perturbation,
  Technique,
)

# Of these a plan has one at most.
_SINGLE = ("loss", "margin", "perturb", "average", "export")


@dataclass(frozen=True)
class TrainPlan:
  """The techniques of a run, by what they change; values that are none raise InputError."""

  augments: tuple[Augmentation, ...]
  mixes: tuple[Mixing, ...]
  objective: Objective
  average: Averaging | None
  margin: LogitMargin | None = None
  perturb: Perturbation | None = None
  export: Export | None = None
  classifiers: tuple[str, ...] = ()
  arch_options: tuple[tuple[str, Any], ...] = ()

  def __post_init__(self) -> None:
    single = (self.objective, self.margin, self.perturb, self.average, self.export)
    places = {hook: (t,) for hook, t in zip(_SINGLE, single, strict=True) if t is not None or hook == "loss"}
    for hook, techniques in {"augment": self.augments, "mix": self.mixes, **places}.items():
      for technique in techniques:
        check_technique(type(technique).__name__, technique)
        if not isinstance(technique, HOOKS[hook]):
          raise InputError(f"a plan's {hook} is of the kind {HOOKS[hook].__name__}, not {type(technique).__name__}")


def make_technique(name: str, **options: Any) -> Technique:
  """Builds the technique of that name.

  Raises:
    InputError: it has no such option, or a hook that nothing would call.


  >>> make_technique("label-smoothing", amount=0.1)
  LabelSmoothing(amount=0.1, others=False)
  """
  build, options = TECHNIQUES[name], current_keys(options)
  if is_dataclass(build):
    known = [item.name for item in fields(build)]
    for option in options:
      if option not in known:
        raise unknown_name(f"option of {name}", option, known)
  try:
    technique = build(**options)
  except TypeError as error:
    raise InputError(f"technique {name!r}: {error}") from None
  check_technique(name, technique)
  _check_kinds(name, technique)
  return technique


def _check_kinds(name: str, technique: Any) -> None:
  """Raises InputError for options of another type than their defaults: "no" is not False, and no half an integer."""
  for item in fields(technique) if is_dataclass(technique) else ():
    value, kind = getattr(technique, item.name), type(item.default)
    number = {int: int, float: int | float}.get(kind)
    fits = is_number(value, number) if number else isinstance(value, kind) if kind in (bool, str) else True
    if not fits:
      raise InputError(f"{name}: {item.name} takes {kind.__name__}, got {value!r}")


def make_plan(names: Sequence[str], options: Mapping[str, Mapping[str, Any]]) -> TrainPlan:
  """Builds the named techniques and sorts them by what they change.

  >>> make_plan(["flip", "ema"], {"ema": {"decay": 0.5}}).average
  EMA(decay=0.5)
  """
  names, options = [current_name(name) for name in names], current_keys(options)
  for name in options:
    if name not in names:
      raise InputError(f"options for {name!r}, which is not among the techniques: {', '.join(names) or 'none'}")
  techniques = [make_technique(name, **dict(options.get(name, {}))) for name in names]
  having = {hook: tuple(t for t in techniques if isinstance(t, kind)) for hook, kind in HOOKS.items()}
  for hook in _SINGLE:
    if len(having[hook]) > 1:
      clash = [name for name, technique in zip(names, techniques, strict=True) if isinstance(technique, HOOKS[hook])]
      raise InputError(f"only one technique may set the {hook}: {', '.join(clash)}")
  for name, technique in zip(names, techniques, strict=True):
    if not all(technique.classifiers):
      raise InputError(f"{name} asks other networks: name their folders in its options")
  single: dict[str, Any] = {hook: having[hook][0] if having[hook] else None for hook in _SINGLE}
  return TrainPlan(
    cast(tuple[Augmentation, ...], having["augment"]),
    cast(tuple[Mixing, ...], having["mix"]),
    single["loss"] or cast(Objective, make_technique("standard")),
    single["average"],
    single["margin"],
    single["perturb"],
    single["export"],
    tuple(folder for technique in techniques for folder in technique.classifiers),
    tuple(option for technique in techniques for option in technique.arch_options.items()),
  )


def prepare(plan: TrainPlan, batch: Batch, key: Array) -> Batch:
  """Returns the batch after augmentation and mixing."""
  images = batch.images
  for number, technique in enumerate(plan.augments):
    keys = jax.vmap(lambda k, number=number: jax.random.fold_in(k, number))(batch.keys)
    images = jax.vmap(technique.augment)(images, keys)
  batch = batch._replace(images=images)
  for number, mixing in enumerate(plan.mixes):
    batch = mixing.mix(batch, jax.random.fold_in(key, number))
  return batch
