"""Techniques: small values that change the batch, the loss or the weights of a training run.

A technique is a frozen dataclass with any of these methods; the step calls those that are there, in this order:

  augment(image, key) -> image                     one image in [0, 1]; vmapped, with the example's own key
  mix(batch, key) -> batch                         images and soft targets of a whole batch
  loss(network, batch, context) -> Losses          the training objective; at most one technique has it
  average(average, weights, step) -> average       a second set of weights, used for evaluation; at most one has it

An objective that trains more than a classifier (a decoder, a projection: see `pretraining`) also has

  wrap(module) -> module                           the network that is trained, around the one that is saved

Techniques compose in the order in which a config names them. Adding one is a file and a line in `_MODULES`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, NamedTuple

import jax

from jaxrobust.core.classifier import Classifier
from jaxrobust.core.errors import InputError
from jaxrobust.core.registry import Registry, unknown_name
from jaxrobust.core.types import Array

_MODULES = (
  "acl",
  "adversarial",
  "augment",
  "augmix",
  "autoaugment",
  "averaging",
  "erasing",
  "idbh",
  "mae",
  "moco",
  "objectives",
  "randaugment",
  "simmim",
  "targets",
  "trades",
  "trivialaugment",
  "views",
)

HOOKS = ("augment", "mix", "loss", "average")


class Batch(NamedTuple):
  """What a step trains on; one row per example.

  Attributes:
    images: float32 in [0, 1].
    targets: class probabilities.
    labels: the class each example came with.
    keys: functions of (seed, step, example id).
  """

  images: Array
  targets: Array
  labels: Array
  keys: Array


class Context(NamedTuple):
  """What an objective may use besides the network.

  Attributes:
    classifier: the current weights in evaluation mode, for crafting; no gradient flows through it.
    batch_stats: the running statistics at the start of the step.
    progress: 0 at the first step, growing to 1 over the warm-up of attacks.
    key: for what belongs to the whole batch.
  """

  classifier: Classifier
  batch_stats: Any
  progress: Array
  key: Array


class Losses(NamedTuple):
  """What an objective returns.

  Attributes:
    values: (N,), one loss per example.
    logits: (N, C), of the images trained on, for the accuracy shown.
    batch_stats: the running statistics after the forward passes.
    correct: (N,), what is shown as accuracy where it is not about classes.
  """

  values: Array
  logits: Array
  batch_stats: Any
  correct: Array | None = None


Network = Callable[..., tuple[Array, Any]]
"""(images in [0, 1], batch_stats) -> (logits, batch_stats), in training mode, differentiable in the weights.

`weights=` evaluates at other weights than those trained; other named arguments go to the module.
"""


TECHNIQUES: Registry[Callable[..., Any]] = Registry(
  "technique", lambda: [importlib.import_module(f"jaxrobust.training.{module}") for module in _MODULES]
)


@dataclass(frozen=True)
class Plan:
  """The techniques of a run, by what they change."""

  augments: tuple[Any, ...]
  mixes: tuple[Any, ...]
  objective: Any
  average: Any | None


def make_technique(name: str, **options: Any) -> Any:
  """The technique of that name.

  >>> make_technique("label-smoothing", amount=0.1)
  LabelSmoothing(amount=0.1)
  """
  build = TECHNIQUES[name]
  if is_dataclass(build):
    known = [field.name for field in fields(build)]
    for option in options:
      if option not in known:
        raise unknown_name(f"option of {name}", option, known)
  try:
    return build(**options)
  except TypeError as error:
    raise InputError(f"technique {name!r}: {error}") from None


def make_plan(names: Sequence[str], options: Mapping[str, Mapping[str, Any]]) -> Plan:
  """Builds the named techniques and sorts them by what they change.

  >>> make_plan(["flip", "ema"], {"ema": {"decay": 0.5}}).average
  EMA(decay=0.5)
  """
  for name in options:
    if name not in names:
      raise InputError(f"options for {name!r}, which is not among the techniques: {', '.join(names) or 'none'}")
  techniques = [make_technique(name, **dict(options.get(name, {}))) for name in names]
  having = {hook: tuple(t for t in techniques if hasattr(t, hook)) for hook in HOOKS}
  for hook in ("loss", "average"):
    if len(having[hook]) > 1:
      clash = [name for name, technique in zip(names, techniques, strict=True) if hasattr(technique, hook)]
      raise InputError(f"only one technique may set the {hook}: {', '.join(clash)}")
  objective = having["loss"][0] if having["loss"] else make_technique("standard")
  average = having["average"][0] if having["average"] else None
  return Plan(having["augment"], having["mix"], objective, average)


def prepare(plan: Plan, batch: Batch, key: Array) -> Batch:
  """The batch after augmentation and mixing."""
  images = batch.images
  for number, technique in enumerate(plan.augments):
    keys = jax.vmap(lambda k, number=number: jax.random.fold_in(k, number))(batch.keys)
    images = jax.vmap(technique.augment)(images, keys)
  batch = batch._replace(images=images)
  for number, technique in enumerate(plan.mixes):
    batch = technique.mix(batch, jax.random.fold_in(key, number))
  return batch
