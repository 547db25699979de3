"""A classifier is a callable pytree: `classifier(images) -> logits`.

Weights are leaves, so a classifier passes through `jit` as an argument and two networks of
one architecture share every compiled program. Images are float32 NHWC in [0, 1]; the
normalization a network was trained with lives inside.

Example:
  >>> import jax.numpy as jnp
  >>> linear = Classifier.from_function(lambda x: x.reshape(len(x), -1)[:, :3], num_classes=3)
  >>> linear(jnp.ones((2, 4, 4, 1))).shape
  (2, 3)
  >>> linear
  Classifier(<lambda>, 3 classes, 0 numbers)
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrobust.core.errors import InputError, first_line
from jaxrobust.core.modules import (
  LinenApply,
  NnxApply,
  evaluation_arguments,
  is_nnx,
  nnx_apply,
  refuse_module,
  refuse_torch,
)
from jaxrobust.core.spelling import accepts_old_names
from jaxrobust.core.types import Array


@accepts_old_names
@functools.partial(
  jax.tree_util.register_dataclass,
  data_fields=("variables",),
  meta_fields=("apply", "num_classes", "randomized", "input_shape", "adaptive"),
)
@dataclasses.dataclass(frozen=True, repr=False)
class Classifier:
  """Variables and a pure function of them.

  Attributes:
    variables: a pytree of arrays; traced.
    apply: `apply(variables, images, key) -> logits`; static, so equal functions share programs.
    num_classes: length of a logit vector.
    randomized: whether `apply` uses its key (a randomized defense); deterministic ones ignore it.
    input_shape: (H, W, C) where the architecture fixes it, for checks before compilation.
    adaptive: answers as `apply` does, with the gradient that an attack should follow; None where that is its own.
  """

  variables: Any
  apply: Callable[[Any, Array, Array | None], Array]
  num_classes: int
  randomized: bool = False
  input_shape: tuple[int, int, int] | None = None
  adaptive: Callable[[Any, Array, Array | None], Array] | None = None

  def __call__(self, images: Array, key: Array | None = None) -> Array:
    """Returns logits in float32, whatever precision the network computes in."""
    return self.apply(self.variables, images, key).astype(jnp.float32)

  def __repr__(self) -> str:
    """Returns one line: what it computes, classes, input, and how many numbers it holds; never the numbers."""
    what = self.called.rstrip("@") or getattr(self.apply, "title", type(self.apply).__name__)
    shape = [] if self.input_shape is None else ["×".join(map(str, self.input_shape))]
    count = sum(int(np.size(leaf)) for leaf in jax.tree.leaves(self.variables))
    more = ["randomized"] if self.randomized else []
    return f"Classifier({', '.join([what, f'{self.num_classes} classes', *shape, f'{count:,} numbers', *more])})"

  def features(self, images: Array) -> Array:
    """Returns what the network sees in images, for threats that measure there: any pytree of arrays, a row per image.

    A linen module offers it as a method `features(x)`, or sows what its stages return, "stages" of "intermediates", and
    says `sows_stages = True`. A function is given with one of its own.
    """
    offered = getattr(self.apply, "offers_features", False)
    if not offered:
      raise InputError("the classifier offers no features: give its module a method `features`, or pass features=")
    return self.apply.features(self.variables, images)  # type: ignore[attr-defined]

  def logits_and_features(self, images: Array) -> tuple[Array, Any]:
    """Returns both of a classifier that draws nothing, by one pass where its module sows what its stages return."""
    once = getattr(self.apply, "logits_and_features", lambda variables, images: None)(self.variables, images)
    logits, features = once or (self.apply(self.variables, images, None), self.features(images))
    return logits.astype(jnp.float32), features

  @property
  def adaptive_view(self) -> Classifier:
    """Returns what an attack differentiates: the same answers, and the gradient that knows of the defenses."""
    return self if self.adaptive is None else dataclasses.replace(self, apply=self.adaptive, adaptive=None)

  @property
  def naive(self) -> Classifier:
    """Returns the classifier for attacks that know of no defense: its gradient is that of the defenses themselves."""
    return dataclasses.replace(self, adaptive=None)

  @property
  def module(self) -> Any:
    """Returns the linen module it applies as it is; None where it does anything else."""
    module = getattr(self.apply, "module", None)
    return module if self.apply == LinenApply(module) else None

  @property
  def randomised(self) -> bool:
    """Returns `randomized`, by its old name."""
    return self.randomized

  @property
  def called(self) -> str:
    """Returns the name and version that its maker gave to what it computes; empty where there are none."""
    return getattr(self.apply, "called", "")

  @classmethod
  @accepts_old_names
  def from_function(
    cls,
    logits_fn: Callable[..., Array],
    num_classes: int,
    *,
    variables: Any = None,
    randomized: bool = False,
    input_shape: tuple[int, int, int] | None = None,
    features: Callable[..., Any] | None = None,
    name: str = "",
    version: str = "",
  ) -> Classifier:
    """Wraps any `logits_fn(images)`, or `logits_fn(variables, images)` where variables are given.

    A randomized function takes a key as its last argument. `features` takes what `logits_fn` takes but the key. Results
    on disk are used again only for a function with a `name`; whoever changes what it computes gives it another
    `version`. Variables are told apart by themselves.
    """
    if num_classes < 2:
      raise InputError(f"a classifier needs at least 2 classes, got {num_classes}")
    refuse_torch(logits_fn)
    apply = _FunctionApply(logits_fn, variables is not None, randomized, features, _called(name, version))
    return cls(variables, apply, num_classes, randomized, input_shape)

  @classmethod
  def from_module(
    cls,
    module: Any,
    variables: Any = None,
    *,
    mean: Sequence[float] | float = 0.0,
    std: Sequence[float] | float = 1.0,
    num_classes: int | None = None,
    input_shape: tuple[int, int, int] | None = None,
    dtype: Any = None,
    name: str = "",
    version: str = "",
  ) -> Classifier:
    """Wraps a flax module in evaluation mode: `module.apply(variables, (images - mean) / std)`, or `module(…)` for nnx.

    An nnx module brings its variables along. Batch statistics are read, never written. Arguments by which a linen call
    is told whether it trains (`train`, `training`, `deterministic`, …) are given. `num_classes` is that of the
    module by default, or what it returns for `input_shape`. Normalized images are cast to `dtype`, if any. One from
    elsewhere takes a `name` and `version` as in `from_function`. A linen module that draws noise in evaluation too says
    from which streams, in an attribute `evaluation_rngs`, and is then randomized.
    """
    scale = np.asarray(std, np.float32)
    if not np.all(scale > 0):
      raise InputError(f"std must be positive, got {std}")
    apply, inner = _module_apply(module, variables, dtype, _called(name, version))
    weights = {"module": inner, "mean": jnp.asarray(mean, jnp.float32), "std": jnp.asarray(scale)}
    classes = num_classes if num_classes is not None else getattr(module, "num_classes", None)
    if classes is None and input_shape is not None:
      classes = _logits_shape(cls(weights, apply, 2, bool(apply.rngs), input_shape), input_shape)[-1]
    if classes is None:
      raise InputError(f"{type(module).__name__} has no num_classes attribute; pass num_classes= or input_shape=")
    return cls(weights, apply, int(classes), bool(apply.rngs), input_shape)


def _module_apply(module: Any, variables: Any, dtype: Any, called: str) -> tuple[LinenApply | NnxApply, Any]:
  """Returns a module as a function of (variables, images, key), and its variables."""
  if is_nnx(module):
    if variables is not None:
      raise InputError(f"{type(module).__name__} is an nnx module, which has its variables inside; leave them out")
    return nnx_apply(module, dtype, called)
  refuse_module(module)
  if variables is None:
    raise InputError(f"{type(module).__name__} comes without variables: pass those of module.init or of its training")
  evaluation_arguments(type(module))
  return LinenApply(module, dtype, called), variables


@dataclasses.dataclass(frozen=True)
class _FunctionApply:
  """Calls a plain function; a dataclass, so that wrapping one function twice compares equal."""

  function: Callable[..., Array]
  takes_variables: bool
  takes_key: bool
  extractor: Callable[..., Any] | None = None
  called: str = dataclasses.field(default="", compare=False)  # Does not change what is compiled.

  def __call__(self, variables: Any, images: Array, key: Array | None) -> Array:
    args = ((variables,) if self.takes_variables else ()) + (images,)
    return self.function(*args, *((key,) if self.takes_key else ()))

  @property
  def title(self) -> str:
    return getattr(self.function, "__qualname__", type(self.function).__name__)

  @property
  def offers_features(self) -> bool:
    return self.extractor is not None

  def features(self, variables: Any, images: Array) -> Any:
    assert self.extractor is not None
    return self.extractor(*((variables,) if self.takes_variables else ()), images)


def _called(name: str, version: str) -> str:
  if not isinstance(name, str) or not isinstance(version, str):
    raise InputError(f"name and version are texts, got {name!r} and {version!r}")
  if version and not name:
    raise InputError(f"version {version!r} is that of a name; pass name= as well")
  return f"{name}@{version}" if name else ""


def check_logits(classifier: Classifier, image_shape: tuple[int, int, int]) -> None:
  """Raises InputError for a classifier that cannot take the images, before anything compiles."""
  if classifier.input_shape is not None and tuple(classifier.input_shape) != tuple(image_shape):
    raise InputError(f"images are {tuple(image_shape)}, the classifier takes {tuple(classifier.input_shape)}")
  if isinstance(classifier.apply, LinenApply | NnxApply):
    # Broadcasting would turn gray images into as many channels as the normalization has.
    for part in ("mean", "std"):
      channels = np.size(classifier.variables[part])
      if channels not in (1, image_shape[-1]):
        shape = tuple(image_shape)
        raise InputError(f"the classifier does not take images of shape {shape}: its {part} has {channels} channels")
  leaves, tree = jax.tree.flatten(classifier)
  signature = (tree, tuple((np.shape(leaf), str(jnp.result_type(leaf))) for leaf in leaves), tuple(image_shape))
  if signature in _CHECKED:  # Tracing a network takes longer than attacking a few images.
    return
  shape = _logits_shape(classifier, image_shape)
  if shape != (2, classifier.num_classes):
    raise InputError(f"the classifier returns {shape[1:]} per image, expected ({classifier.num_classes},)")
  _CHECKED.add(signature)


def _logits_shape(classifier: Classifier, image_shape: tuple[int, int, int]) -> tuple[int, ...]:
  """Returns the shape of the logits of two images, without computing anything."""
  leaves, tree = jax.tree.flatten(classifier)
  abstract = jax.tree.unflatten(tree, [jax.ShapeDtypeStruct(np.shape(leaf), jnp.result_type(leaf)) for leaf in leaves])
  images = jax.ShapeDtypeStruct((2, *image_shape), jnp.float32)
  key = jax.eval_shape(lambda: jax.random.key(0))
  try:
    return jax.eval_shape(lambda c, x, k: c(x, k), abstract, images, key).shape
  except Exception as error:
    reason = first_line(error)
    raise InputError(f"the classifier does not take images of shape {tuple(image_shape)}: {reason}") from error


_CHECKED: set = set()
