"""Techniques: small values that change the batch, the loss or the weights of a training run.

A technique is a frozen dataclass that inherits what it is; each kind has one hook, which the step calls, in this order:

  Augmentation   augment(image, key) -> image                  one image in [0, 1]; vmapped, with the example's own key
  Mixing         mix(batch, key) -> batch                      images and soft targets of a whole batch
  Objective      loss(network, batch, context) -> Losses       what is trained on, with optional parts; at most one
  LogitMargin    margin(logits, targets) -> logits             what its classification loss sees; at most one
  Perturbation   perturb(params, grads, fraction) -> params    the weights at which the gradient is taken; at most one
  Averaging      average(average, weights, clock) -> average   a second set of weights, for evaluation; at most one
  Export         export(variables) -> variables                the form in which the network is saved; at most one

A technique may be of several kinds. A hook that is not declared, a name close to one of a part, and parts that
contradict each other raise InputError when the technique is made: see `declarations`. Techniques compose in the order
in which a config names them: see `composition`. Adding one is a file and a line in `_MODULES`.

  >>> from dataclasses import dataclass
  >>> @dataclass(frozen=True)
  ... class Negative(Augmentation):
  ...   def augment(self, image, key): return 1 - image
  >>> Negative().augment(0.25, None)
  0.75
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from flax import linen as nn

from jaxrobust.attacks.pgd import PGD
from jaxrobust.core.classifier import Classifier
from jaxrobust.core.registry import Registry
from jaxrobust.core.types import Array, Attack

_MODULES = (
  "augmentations.augment",
  "augmentations.augmix",
  "augmentations.autoaugment",
  "augmentations.erasing",
  "augmentations.idbh",
  "augmentations.randaugment",
  "augmentations.targets",
  "augmentations.trivialaugment",
  "augmentations.views",
  "pretraining.acl",
  "pretraining.mae",
  "pretraining.moco",
  "pretraining.simmim",
  "techniques.adp",
  "techniques.adversarial",
  "techniques.alp",
  "techniques.averaging",
  "techniques.awp",
  "techniques.certified",
  "techniques.composite",
  "techniques.deepdefense",
  "techniques.distill",
  "techniques.ensemble",
  "techniques.free",
  "techniques.friendly",
  "techniques.hat",
  "techniques.hypersphere",
  "techniques.margins",
  "techniques.mart",
  "techniques.minimum_margin",
  "techniques.multi",
  "techniques.objectives",
  "techniques.reparameterize",
  "techniques.trades",
  "techniques.unforeseen",
  "techniques.variation",
)


class Batch(NamedTuple):
  """The examples a step trains on; one row each.

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
  """The time of a step: steps made before it, of the whole run and of an epoch; whether it changed the weights."""

  step: Array
  total: int
  epoch: float
  updated: Array | bool = True


Margin = Callable[[Array, Array], Array]


def no_margin(logits: Array, targets: Array) -> Array:
  """Leaves the logits alone: a classification loss sees them as they are."""
  del targets
  return logits


class Context(NamedTuple):
  """The values an objective may use besides the network.

  Attributes:
    classifier: the current weights in evaluation mode, for crafting; no gradient flows through it.
    batch_stats: the running statistics at the start of the step.
    eps_scale: 0 at the first step, growing to 1 over the warm-up of attacks.
    key: for what belongs to the whole batch.
    coupled: the same weights in training mode: a batch is normalized by its own statistics.
    train_fraction: the share of the run that is over.
    frozen_models: the frozen classifiers that techniques asked for, by name.
    state: what the objective keeps from step to step.
    crafted: what the objective crafted for this update.
    margin: what turns logits into those that a classification loss sees.
  """

  classifier: Classifier
  batch_stats: Any
  eps_scale: Array
  key: Array
  coupled: Classifier | None = None
  train_fraction: Array | float = 0.0
  frozen_models: Mapping[str, Classifier] = {}
  state: Any = ()
  crafted: Any = None
  margin: Margin = no_margin


class Losses(NamedTuple):
  """The values an objective returns.

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
    """Returns logits and the statistics after the pass; at other `weights` where given, `more` goes to the module."""
    ...

  def features(self, images: Array, batch_stats: Any) -> tuple[Array, Any]:
    """Returns what the last dense layer sees, and the statistics after the pass."""
    ...


class Technique:
  """The base of all techniques; one changes something by being of one of the kinds below."""

  @property
  def classifiers(self) -> tuple[str, ...]:
    """Names frozen networks that it asks, folders or zoo names; found in `context.frozen_models` by name."""
    return ()

  @property
  def arch_options(self) -> dict[str, Any]:
    """Options that it adds to the architecture."""
    return {}


class Augmentation(Technique):
  """Changes single images."""

  def augment(self, image: Array, key: Array) -> Array:
    """Changes one image in [0, 1] with the example's own key."""
    raise NotImplementedError


class Mixing(Technique):
  """Changes whole batches, targets included."""

  def mix(self, batch: Batch, key: Array) -> Batch:
    """Returns the batch with other images or soft targets."""
    raise NotImplementedError


class Objective(Technique):
  """The loss that is trained on; everything but `loss` is optional.

  Attributes:
    needs_state_grad: whether `update_state` is given the loss's gradient with respect to the state; None elsewhere.
    replays: updates made with one batch.
    norm, num_steps: of the ball and the search that it trains against, where it has a `budget`.
  """

  needs_state_grad: bool = False
  replays: int = 1
  norm: str = ""
  num_steps: int = 0

  @property
  def budget(self) -> float:
    """Returns the radius of the ball that it trains against, and that epochs are compared in; 0 for none."""
    return 0.0

  def judged_by(self, steps: int) -> Attack:
    """Returns the attack that epochs are compared under, within the `budget`."""
    return PGD(self.norm, num_steps=steps)

  def wrap(self, module: nn.Module) -> nn.Module:
    """Returns the network that is trained, around the one that is saved: see `pretraining.backbone`."""
    return module

  def init_state(self, shape: tuple[int, ...], examples: int) -> Any:
    """Returns arrays kept from step to step, given the shape of a batch's images; they are part of checkpoints."""
    del shape, examples
    return ()

  def craft(self, batch: Batch, context: Context) -> Any:
    """Finds, once per update, before the loss and without gradient, what is `context.crafted`."""
    del batch, context

  def loss(self, network: Network, batch: Batch, context: Context) -> Losses:
    """Returns a loss for each example."""
    raise NotImplementedError

  def update_state(self, batch: Batch, context: Context, ascent: Any) -> Any:
    """Returns the state after an update."""
    del batch, ascent
    return context.state


class LogitMargin(Technique):
  """Makes classification harder while training."""

  def margin(self, logits: Array, targets: Array) -> Array:
    """Returns the logits that the objective's classification loss sees."""
    raise NotImplementedError


class Perturbation(Technique):
  """Moves the weights before the gradient is taken."""

  def perturb(self, params: Any, grads: Any, train_fraction: Array | float) -> Any:
    """Returns the weights at which the gradient is taken; `train_fraction` of the run is over."""
    raise NotImplementedError


class Averaging(Technique):
  """Keeps a second set of weights; `statistics` batches measure its batch statistics anew before it is used."""

  statistics: int = 0

  def average(self, average: Any, weights: Any, clock: Clock) -> Any:
    """Returns the second set after an update, (parameters, statistics) as `weights` are."""
    raise NotImplementedError


class Export(Technique):
  """Saves another form of the trained network."""

  def export(self, variables: Any) -> Any:
    """Returns what is saved as a classifier."""
    raise NotImplementedError

  def exported(self, arch: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the architecture's options in that form; raises InputError for one that has none."""
    raise NotImplementedError


# What makes a technique one of a kind.
HOOKS: dict[str, type[Technique]] = {
  "augment": Augmentation,
  "mix": Mixing,
  "loss": Objective,
  "margin": LogitMargin,
  "perturb": Perturbation,
  "average": Averaging,
  "export": Export,
}

TECHNIQUES: Registry[Callable[..., Technique]] = Registry(
  "technique", lambda: [importlib.import_module(f"jaxrobust.training.{module}") for module in _MODULES]
)
