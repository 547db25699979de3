"""Crafting against a network in training mode: batch norm by the statistics of the very batch that is attacked.

An attack sees one image, but here the logits of an image depend on the others of its batch. The engine's `vmap` over
images is therefore given a rule of its own: all images are passed through the network together, and the gradient of
an image is that of the sum of all losses, as in code that attacks a batch in `model.train()`. Examples are coupled:
what is found for one depends on the batch it is in, which is why evaluation mode is the default. Running statistics
are neither used nor changed.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Hashable
from typing import Any, cast

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax.custom_batching import custom_vmap

from jaxrobust.core.classifier import Classifier
from jaxrobust.core.errors import InputError
from jaxrobust.core.modules import normalized
from jaxrobust.core.types import Array
from jaxrobust.models.layers.head import with_features


@dataclasses.dataclass(frozen=True)
class _CoupledApply:
  """Normalizes and applies a linen module in training mode to a whole batch, also under `vmap`."""

  module: nn.Module
  dtype: Any = None

  def __call__(self, variables: Any, images: Array, key: Array | None) -> Array:
    del key
    return _together(self.module, self.dtype)(variables, images)


def coupled_classifier(classifier: Classifier, module: nn.Module, key: Array) -> Classifier:
  """Returns `classifier`, a module in evaluation mode, in training mode; `key` is for dropout."""
  variables = {**classifier.variables, "dropout": jax.random.key_data(key)}
  return dataclasses.replace(classifier, variables=variables, apply=_CoupledApply(module, classifier.apply.dtype))  # type: ignore[attr-defined]


def features_of(classifier: Classifier, images: Array) -> Array:
  """Returns what the head of a module sees, for a whole batch, in the classifier's own mode."""
  variables, apply = classifier.variables, cast(_CoupledApply, classifier.apply)
  options = _training(variables) if "dropout" in variables else {}
  inputs = normalized(variables, images, apply.dtype)
  return with_features(apply.module, variables["module"], inputs, **options)[1].astype(jnp.float32)


def _training(variables: Any) -> dict[str, Any]:
  key = jax.random.wrap_key_data(variables["dropout"])
  return {"train": True, "mutable": ["batch_stats"], "rngs": dict.fromkeys(("dropout", "drop_path", "noise"), key)}


@functools.cache
def _together(module: nn.Module, dtype: Any) -> Callable[[Any, Array], Array]:
  # How to put a pull-back together again from the arrays that it holds, by their shapes: `vmap` carries arrays alone.
  trees: dict[Hashable, Any] = {}

  def logits(variables: Any, images: Array) -> Array:
    return module.apply(variables["module"], normalized(variables, images, dtype), **_training(variables))[0]

  @_over_the_batch
  def plain(variables: Any, images: Array) -> tuple[Array, list[Array]]:
    return logits(variables, images), []

  @_over_the_batch
  def linearized(variables: Any, images: Array) -> tuple[Array, list[Array]]:
    out, pull = jax.vjp(lambda x: logits(variables, x), images)
    saved, tree = jax.tree.flatten(pull)
    trees[_shapes(saved)] = tree, out.shape
    return out, saved

  @_over_the_batch
  def pullback(saved: list[Array], cotangent: Array, images: Array) -> tuple[Array, list[Array]]:
    tree, shape = trees[_shapes(saved)]
    if cotangent.shape != shape:
      return jnp.zeros_like(images), []  # `vmap` asks for the shape of one image's result before that of all.
    return jax.tree.unflatten(tree, saved)(cotangent)[0], []

  def forward(variables: Any, images: Array) -> tuple[Array, Any]:
    out, saved = linearized(variables, images)
    return out, (saved, images)

  def backward(kept: Any, cotangent: Array) -> tuple[None, Array]:
    saved, images = kept
    return None, pullback(saved, cotangent, images)[0]

  apply = jax.custom_vjp(lambda variables, images: plain(variables, images)[0])
  apply.defvjp(forward, backward)
  return apply


def _over_the_batch(function: Callable[..., tuple[Array, list[Array]]]) -> Callable[..., tuple[Array, list[Array]]]:
  """Makes `vmap` call `function(shared, *rows) -> (rows, shared)` once, with the rows of all images as one batch."""
  together = custom_vmap(function)

  @together.def_vmap
  def rule(size: int, batched: Any, shared: Any, *rows: Array) -> tuple[Any, Any]:
    if any(jax.tree.leaves(batched[0])) or not all(batched[1:]):
      raise InputError("crafting in training mode attacks one network with a whole batch")
    out, kept = function(shared, *(row.reshape(-1, *row.shape[2:]) for row in rows))
    return (out.reshape(size, -1, *out.shape[1:]), kept), (True, [False] * len(kept))

  return together


def _shapes(arrays: list[Array]) -> Hashable:
  return tuple((array.shape, str(array.dtype)) for array in arrays)
