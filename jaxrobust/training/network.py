"""The network as a training step sees it: weights whole and in the arithmetic of the run, statistics by groups.

**Weights that are split** (`sharding="fsdp"`) are gathered once per step, in the arithmetic of the run, and serve all
gradients of crafting and training; gradients leave scattered as the weights lie. Left to itself the compiler follows
the split axis of a weight into the activations and moves those, whole batches of them, instead.

**Statistics by groups.** Batch norm over a batch of N examples may take means and variances over each of G parts of it,
rows 0 to N/G - 1 first, as training on G devices without synchronization does ("ghost" batches, arXiv:1705.08741);
running statistics move by the mean over groups. The groups belong to the recipe: devices only share the work,
and where G is a multiple of the devices, none has to ask another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax.sharding import NamedSharding, PartitionSpec

from jaxrobust.core.classifier import Classifier
from jaxrobust.core.errors import InputError
from jaxrobust.core.mesh import replicated
from jaxrobust.core.types import Array
from jaxrobust.models.layers.head import with_features
from jaxrobust.training.state import as_variables

Gather = Callable[[Any], Any]
"""Weights as they are stored -> weights as a network takes them."""


def cast(tree: Any, dtype: Any) -> Any:
  """Returns floating-point leaves in another type."""
  return jax.tree.map(lambda leaf: leaf.astype(dtype) if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf, tree)


def gather_weights(params: Any, dtype: Any, layout: Any = None) -> Any:
  """Returns weights in `dtype`, whole on every device; their gradients go back as `layout` says, if it does.

  Args:
    layout: the shardings that weights and gradients have outside; None where they are whole anyway.
  """
  params = cast(params, dtype)
  return params if layout is None else jax.tree.map(_gathered, params, layout)


def gather_frozen(models: Mapping[str, Classifier], layout: Any) -> Mapping[str, Classifier]:
  """Returns frozen networks whole on every device, where weights are split."""
  shardings = jax.tree.leaves(layout)
  if not shardings:
    return models
  return jax.lax.with_sharding_constraint(models, replicated(shardings[0].mesh)) if models else models


def _gathered(leaf: Array, sharding: NamedSharding) -> Array:
  """Copies an array to all devices, its cotangent scattered; the transpose of a mere constraint would copy that too."""
  if sharding.is_fully_replicated:
    return leaf

  @jax.custom_vjp
  def gather(split: Array) -> Array:
    return jax.lax.with_sharding_constraint(split, NamedSharding(sharding.mesh, PartitionSpec()))

  gather.defvjp(
    lambda split: (gather(split), None), lambda _, whole: (jax.lax.with_sharding_constraint(whole, sharding),)
  )
  return gather(leaf)


class TrainingNetwork:
  """A network in training mode; each call draws its own dropout.

  Args:
    mean, std: of the normalization; dtype: of forward and backward passes.
    groups: parts of a batch with batch statistics of their own.
    gather: weights as stored -> as the module takes them.
    params: weights as stored.
    key: of all dropout.
  """

  def __init__(
    self,
    module: nn.Module,
    mean: tuple[float, ...],
    std: tuple[float, ...],
    dtype: Any,
    groups: int,
    gather: Gather,
    params: Any,
    key: Array,
  ):
    self._module, self._mean, self._std, self._dtype = module, jnp.asarray(mean), jnp.asarray(std), dtype
    self._groups, self._gather, self._params = groups, gather, params
    self._key, self._calls = key, iter(range(1 << 20))

  def __call__(self, images: Array, batch_stats: Any, weights: Any | None = None, **more: Any) -> tuple[Array, Any]:
    """Returns logits in float32 and the running statistics after this batch."""
    return self._applied(self._module.apply, images, batch_stats, weights, more)

  def features(self, images: Array, batch_stats: Any) -> tuple[Array, Any]:
    """Returns what the head sees, likewise."""

    def apply(variables: Any, inputs: Array, **options: Any) -> tuple[Array, Any]:
      (_, updates), features = with_features(self._module, variables, inputs, **options)
      return features, updates

    return self._applied(apply, images, batch_stats, None, {})

  def _applied(
    self, apply: Callable[..., tuple[Array, Any]], images: Array, batch_stats: Any, weights: Any, more: dict[str, Any]
  ) -> tuple[Array, Any]:
    key = jax.random.fold_in(self._key, next(self._calls))
    inputs = ((images - self._mean) / self._std).astype(self._dtype)
    variables = as_variables(self._gather(self._params if weights is None else weights), batch_stats)

    def one(inputs: Array, key: Array) -> tuple[Array, Any]:
      rngs = {"dropout": key, "drop_path": key, "noise": jax.random.fold_in(key, 1)}
      return apply(variables, inputs, train=True, mutable=["batch_stats"], rngs=rngs, **more)

    if self._groups == 1:
      out, updates = one(inputs, key)
    else:
      if more:
        raise InputError("this objective looks at the whole batch at once: leave batch_norm_groups at 1")
      parts = inputs.reshape(self._groups, -1, *inputs.shape[1:])
      out, updates = jax.vmap(one)(parts, jax.random.split(key, self._groups))
      out = out.reshape(-1, *out.shape[2:])
      updates = jax.tree.map(lambda leaf: jnp.mean(leaf, axis=0), updates)
    return out.astype(jnp.float32), updates.get("batch_stats", {})
