"""Techniques: small values that change the batch, the loss or the weights of a training run.

A technique is a frozen dataclass with any of these methods; the step calls those that are there, in this order:

  augment(image, key) -> image                     one image in [0, 1]; vmapped, with the example's own key
  mix(batch, key) -> batch                         images and soft targets of a whole batch
  loss(network, batch, context) -> Losses          the training objective; at most one technique has it
  margin(logits, targets) -> logits                what the objective's classification loss sees; at most one has it
  perturb(params, grads, done) -> params           the weights at which the gradient is taken; at most one has it
  average(average, weights, clock) -> average      a second set of weights, used for evaluation; at most one has it
  export(variables) -> variables                   what is saved as a classifier: another form of the trained network,
                                                   with the options `exported(arch, options)`

An objective may also have
  craft(batch, context) -> anything                found once per update, before the loss and without gradient (images)
  begin(shape, examples) -> memory                 arrays that it keeps from step to step; they are part of checkpoints
  remember(batch, context, ascent) -> memory       the memory after an update; `ascent` is the loss's gradient with
                                                   respect to it where `climbs` is true, None elsewhere
  replays: int                                     updates made with one batch
  wrap(module) -> module                           the network that is trained, around the one that is saved: see
                                                    `pretraining`

and any technique
  classifiers: tuple of str                        frozen networks that it asks, found in `context.others` by name
  arch_options: dict                               options that it adds to the architecture

Techniques compose in the order in which a config names them. Adding one is a file and a line in `_MODULES`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, NamedTuple, Protocol

import jax

from jaxrobust.core.classifier import Classifier
from jaxrobust.core.errors import InputError
from jaxrobust.core.registry import Registry, unknown_name
from jaxrobust.core.types import Array
from jaxrobust.core.validation import is_number

_MODULES = (
  "acl",
  "adversarial",
  "alp",
  "augment",
  "augmix",
  "autoaugment",
  "averaging",
  "awp",
  "distill",
  "ensemble",
  "erasing",
  "free",
  "friendly",
  "hat",
  "hypersphere",
  "idbh",
  "mae",
  "margins",
  "mart",
  "minimum_margin",
  "moco",
  "multi",
  "objectives",
  "randaugment",
  "reparameterise",
  "simmim",
  "targets",
  "trades",
  "trivialaugment",
  "variation",
  "views",
)

HOOKS = ("augment", "mix", "loss", "margin", "perturb", "average", "export")
# Of these a plan has one at most.
_SINGLE = ("loss", "margin", "perturb", "average", "export")


class Batch(NamedTuple):
  """What a step trains on; one row per example.

  Attributes:
    images: float32 in [0, 1].
    targets: class probabilities.
    labels: the class each example came with.
    keys: functions of (seed, step, example id).
    ids: the example's place in the training set.
  """

  images: Array
  targets: Array
  labels: Array
  keys: Array
  ids: Array | None = None


class Clock(NamedTuple):
  """When a step happens: steps made before it, of the whole run and of an epoch; whether it changed the weights."""

  step: Array
  total: int
  epoch: float
  updated: Array | bool = True


Margin = Callable[[Array, Array], Array]


def plain(logits: Array, targets: Array) -> Array:
  """No margin: a classification loss sees the logits as they are."""
  del targets
  return logits


class Context(NamedTuple):
  """What an objective may use besides the network.

  Attributes:
    classifier: the current weights in evaluation mode, for crafting; no gradient flows through it.
    batch_stats: the running statistics at the start of the step.
    progress: 0 at the first step, growing to 1 over the warm-up of attacks.
    key: for what belongs to the whole batch.
    coupled: the same weights in training mode: a batch is normalised by its own statistics.
    done: the share of the run that is over.
    others: the frozen classifiers that techniques asked for, by name.
    memory: what the objective keeps from step to step.
    crafted: what the objective crafted for this update.
    margin: what turns logits into those that a classification loss sees.
  """

  classifier: Classifier
  batch_stats: Any
  progress: Array
  key: Array
  coupled: Classifier | None = None
  done: Array | float = 0.0
  others: Mapping[str, Classifier] = {}
  memory: Any = ()
  crafted: Any = None
  margin: Margin = plain


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


class Network(Protocol):
  """The network in training mode, differentiable in the weights; images are in [0, 1]."""

  def __call__(self, images: Array, batch_stats: Any, weights: Any | None = None, **more: Any) -> tuple[Array, Any]:
    """Logits and the statistics after the pass; at other `weights` where given, `more` goes to the module."""
    ...

  def features(self, images: Array, batch_stats: Any) -> tuple[Array, Any]:
    """What the last dense layer sees, and the statistics after the pass."""
    ...


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
  margin: Any | None = None
  perturb: Any | None = None
  export: Any | None = None
  classifiers: tuple[str, ...] = ()
  arch_options: tuple[tuple[str, Any], ...] = ()

  @property
  def replays(self) -> int:
    return getattr(self.objective, "replays", 1)


def make_technique(name: str, **options: Any) -> Any:
  """The technique of that name.

  >>> make_technique("label-smoothing", amount=0.1)
  LabelSmoothing(amount=0.1)
  """
  build = TECHNIQUES[name]
  if is_dataclass(build):
    known = [item.name for item in fields(build)]
    for option in options:
      if option not in known:
        raise unknown_name(f"option of {name}", option, known)
  try:
    technique = build(**options)
  except TypeError as error:
    raise InputError(f"technique {name!r}: {error}") from None
  _check_kinds(name, technique)
  return technique


def _check_kinds(name: str, technique: Any) -> None:
  """Refuses options that are not what their defaults are: "no" is not False, and no half is a whole number."""
  for item in fields(technique) if is_dataclass(technique) else ():
    value, kind = getattr(technique, item.name), type(item.default)
    number = {int: int, float: int | float}.get(kind)
    fits = is_number(value, number) if number else isinstance(value, kind) if kind in (bool, str) else True
    if not fits:
      raise InputError(f"{name}: {item.name} takes {kind.__name__}, got {value!r}")


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
  for hook in _SINGLE:
    if len(having[hook]) > 1:
      clash = [name for name, technique in zip(names, techniques, strict=True) if hasattr(technique, hook)]
      raise InputError(f"only one technique may set the {hook}: {', '.join(clash)}")
  single = {hook: having[hook][0] if having[hook] else None for hook in _SINGLE}
  asked = [(name, tuple(getattr(t, "classifiers", ()))) for name, t in zip(names, techniques, strict=True)]
  for name, folders in asked:
    if not all(folders):
      raise InputError(f"{name} asks other networks: name their folders in its options")
  return Plan(
    having["augment"],
    having["mix"],
    single["loss"] or make_technique("standard"),
    single["average"],
    single["margin"],
    single["perturb"],
    single["export"],
    tuple(folder for _, folders in asked for folder in folders),
    tuple(option for t in techniques for option in getattr(t, "arch_options", {}).items()),
  )


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
