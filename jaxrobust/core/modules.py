"""Modules of flax as functions of variables and images, in evaluation mode.

Linen modules keep their variables outside, nnx modules inside; both normalize in front. The mode is an argument of a
linen call that everyone names otherwise (`train`, `training`, `deterministic`, …): it is given where a module asks for
it, or would train by default. What else a call asks for nobody can guess, and is refused with the line to write.
"""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

import jax
import jax.numpy as jnp

from jaxrobust.core.errors import InputError
from jaxrobust.core.types import Array

# What evaluation is called: argument of a module's call -> its value.
_MODES = {
  **dict.fromkeys(("train", "training", "is_training", "is_train", "train_mode"), False),
  **dict.fromkeys(("deterministic", "eval", "is_eval", "inference", "use_running_average"), True),
}


def evaluation_arguments(kind: Any) -> tuple[tuple[str, bool], ...]:
  """Returns what the call of a linen class must be told besides images for evaluation mode.

  >>> class Net:
  ...   def __call__(self, x, training, temperature=1.0): ...
  >>> evaluation_arguments(Net)
  (('training', False),)
  """
  told: list[tuple[str, bool]] = []
  _, _, *others = inspect.signature(kind.__call__).parameters.values()
  for argument in others:
    if argument.kind in (argument.VAR_POSITIONAL, argument.VAR_KEYWORD):
      continue
    wanted, usual = _MODES.get(argument.name), argument.default
    if wanted is None and usual is argument.empty:
      line = (
        f"Classifier.from_function(lambda v, x: module.apply(v, x, {argument.name}=…), classes, variables=variables)"
      )
      raise InputError(f"{kind.__name__} takes {argument.name!r} with its images; say what it is: {line}")
    if wanted is not None and (usual is argument.empty or usual is (not wanted)):
      told.append((argument.name, wanted))
  return tuple(told)


def normalized(variables: Any, images: Array, dtype: Any) -> Array:
  """Returns what a module sees of images, in `dtype` if any is asked for."""
  inputs = (images - variables["mean"]) / variables["std"]
  return inputs if dtype is None else inputs.astype(dtype)


@dataclasses.dataclass(frozen=True)
class LinenApply:
  """Normalizes and applies a linen module in evaluation mode."""

  module: Any
  dtype: Any = None
  called: str = dataclasses.field(default="", compare=False)

  def __call__(self, variables: Any, images: Array, key: Array | None) -> Array:
    inputs = variables["module"], normalized(variables, images, self.dtype)
    mode: dict[str, Any] = dict(evaluation_arguments(type(self.module)))
    if not self.rngs:
      return self.module.apply(*inputs, **mode)
    if key is None:
      raise InputError(f"{type(self.module).__name__} draws noise in evaluation too: it needs a key with the images")
    return self.module.apply(*inputs, **mode, rngs=dict.fromkeys(self.rngs, key))

  @property
  def title(self) -> str:
    return type(self.module).__name__

  @property
  def rngs(self) -> tuple[str, ...]:
    """Returns the streams of randomness that the module draws from in evaluation."""
    return tuple(getattr(self.module, "evaluation_rngs", ()))

  @property
  def offers_features(self) -> bool:
    # A field of this name, as dense layers have, is a number.
    return self._sows or callable(getattr(type(self.module), "features", None))

  @property
  def _sows(self) -> bool:
    return bool(getattr(type(self.module), "sows_stages", False))

  def features(self, variables: Any, images: Array) -> Any:
    inputs = variables["module"], normalized(variables, images, self.dtype)
    return self._sown(*inputs)[1] if self._sows else self.module.apply(*inputs, method="features")

  def logits_and_features(self, variables: Any, images: Array) -> tuple[Array, Any] | None:
    """Returns what one pass gives of both; None where they take a pass each."""
    return self._sown(variables["module"], normalized(variables, images, self.dtype)) if self._sows else None

  def _sown(self, *inputs: Any) -> tuple[Array, Any]:
    mode: dict[str, Any] = dict(evaluation_arguments(type(self.module)))
    logits, sown = self.module.apply(*inputs, **mode, mutable=["intermediates"])
    return logits, sown["intermediates"]["stages"]


@dataclasses.dataclass(frozen=True)
class NnxApply:
  """Puts an nnx module together again, switches it to evaluation and applies it to normalized images.

  Attributes:
    graph: the module without its arrays.
    randoms: structure and types of its random streams, which evaluation never draws from.
  """

  graph: Any
  randoms: tuple[Any, ...]
  title: str
  dtype: Any = None
  called: str = dataclasses.field(default="", compare=False)
  rngs = ()

  def __call__(self, variables: Any, images: Array, key: Array | None) -> Array:
    from flax import nnx

    module = nnx.merge(self.graph, self._streams(), variables["module"])
    module.eval()
    return module(normalized(variables, images, self.dtype))

  def _streams(self) -> Any:
    tree, kinds = self.randoms
    blank = lambda shape, dtype: (
      jax.random.key(0) if jnp.issubdtype(dtype, jax.dtypes.prng_key) else jnp.zeros(shape, dtype)
    )
    return jax.tree.unflatten(tree, [jnp.broadcast_to(blank(*kind), kind[0]) for kind in kinds])


def is_nnx(module: Any) -> bool:
  """Tells whether a value is an nnx module, without importing nnx."""
  return _is_of(module, "flax.nnx")


def _is_of(value: Any, package: str) -> bool:
  return any(f"{kind.__module__}.".startswith(f"{package}.") for kind in type(value).__mro__)


def nnx_apply(module: Any, dtype: Any, called: str) -> tuple[NnxApply, Any]:
  """Returns an nnx module as a function, and its arrays."""
  from flax import nnx

  graph, streams, state = nnx.split(module, nnx.RngState, ...)
  leaves, tree = jax.tree.flatten(streams)
  randoms = tree, tuple((leaf.shape, leaf.dtype) for leaf in leaves)
  return NnxApply(graph, randoms, type(module).__name__, dtype, called), state


def refuse_module(module: Any) -> None:
  """Raises InputError for what is no module of flax, with the line that makes a classifier of it."""
  name = type(module).__name__
  refuse_torch(module)
  if isinstance(module, tuple) and hasattr(module, "init") and hasattr(module, "apply"):  # haiku.Transformed
    line = "Classifier.from_function(lambda p, x: net.apply(p, None, x), classes, variables=params)"
    raise InputError(f"{name} is no flax module: write {line}")
  if not hasattr(module, "apply"):
    line = "Classifier.from_function(lambda x: jax.vmap(net)(x), classes)"
    raise InputError(f"{name} is no flax module: write {line}, if it takes one image, or give any function of images")


def refuse_torch(network: Any) -> None:
  """Raises InputError for a network of PyTorch, with the way to one that JAX can follow."""
  if _is_of(network, "torch.nn"):
    way = "torch.save(net.state_dict(), 'net.pth'), then jaxrobust convert net.pth --arch NAME --out FOLDER"
    raise InputError(f"{type(network).__name__} is a network of PyTorch, of which JAX has no gradients: {way}")
