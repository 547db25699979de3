"""Momentum contrast: a view of an image should be nearer to its other view, as a slow copy of the network sees it, than
to other images.

  moco-v2  negatives are a queue of earlier keys; Chen et al. 2020 (arXiv:2003.04297): temperature 0.2, momentum 0.999,
           65,536 keys, a two-layer projection to 128
  moco-v3  negatives are the batch, both views in both roles, a predictor on top; Chen et al. 2021 (arXiv:2104.02057):
           temperature 0.2, momentum 0.99, three layers with batch norm to 256; `frozen_patches` keeps the random
           patch embedding of a vision transformer, which stabilizes its training

Known deviations: batch norm is that of the global batch, so batches are not shuffled (v2); the momentum is constant and
both views come from one distribution (v3).
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn

from jaxrobust.core.errors import InputError
from jaxrobust.core.types import Array
from jaxrobust.training.augmentations.views import ContrastiveViews, two_views
from jaxrobust.training.pretraining.contrast import Contrast, follow
from jaxrobust.training.technique import TECHNIQUES, Batch, Context, Losses, Network, Objective


def info_nce(logits: Array, positive: Array) -> tuple[Array, Array]:
  """Returns -log softmax of the positive's logit, per row, and whether it is the largest.

  >>> value, right = info_nce(jnp.array([[0.0, 0.0]]), jnp.array([1]))
  >>> round(float(value[0]), 4), float(right[0])
  (0.6931, 0.0)
  """
  own = jnp.take_along_axis(jax.nn.log_softmax(logits), positive[:, None], axis=-1)[:, 0]
  return -own, (jnp.argmax(logits, axis=-1) == positive).astype(jnp.float32)


def _slow_weights(context: Context, momentum: float) -> Any:
  """Returns the momentum encoder, moved toward the weights of this step."""
  return follow(context.batch_stats["momentum"], context.classifier.variables["module"]["params"], momentum)


def _check(temperature: float, momentum: float) -> None:
  if not temperature > 0 or not 0 <= momentum < 1:
    raise InputError(f"moco needs a positive temperature and a momentum in [0, 1), got {temperature} and {momentum}")


@TECHNIQUES.register("moco-v2")
@dataclass(frozen=True)
class MoCoV2(Objective):
  """A queue of keys; `hidden` is the projection's hidden width (2048 for ResNet-50)."""

  temperature: float = 0.2
  momentum: float = 0.999
  queue: int = 65536
  features: int = 128
  hidden: int = 2048
  smallest: float = 0.2

  def __post_init__(self) -> None:
    _check(self.temperature, self.momentum)

  def wrap(self, module: nn.Module) -> nn.Module:
    backbone = module.clone(num_classes=self.hidden)
    return Contrast(backbone, self.features, self.hidden, momentum=True, queue=self.queue)

  def loss(self, network: Network, batch: Batch, context: Context) -> Losses:
    slow, queue = _slow_weights(context, self.momentum), context.batch_stats["queue"]
    one, two = two_views(ContrastiveViews(self.smallest), batch.images, batch.keys)
    queries, stats = network(one, context.batch_stats)
    keys = jax.lax.stop_gradient(network(two, context.batch_stats, weights=slow)[0])
    near = jnp.sum(queries * keys, axis=-1, keepdims=True)
    logits = jnp.concatenate([near, queries @ queue.T], axis=-1) / self.temperature
    values, correct = info_nce(logits, jnp.zeros(len(logits), jnp.int32))
    queue = jnp.concatenate([keys, queue])[: len(queue)]
    return Losses(values, logits, {**stats, "momentum": slow, "queue": queue}, correct)


@TECHNIQUES.register("moco-v3")
@dataclass(frozen=True)
class MoCoV3(Objective):
  """No queue, a predictor; `hidden` is the width of projection and predictor."""

  temperature: float = 0.2
  momentum: float = 0.99
  features: int = 256
  hidden: int = 4096
  smallest: float = 0.2
  frozen_patches: bool = False

  def __post_init__(self) -> None:
    _check(self.temperature, self.momentum)

  def wrap(self, module: nn.Module) -> nn.Module:
    if self.frozen_patches and "hide" not in inspect.signature(type(module).__call__).parameters:
      kind = type(module).__name__
      raise InputError(f"{kind} has no patches to freeze: --options.moco-v3.frozen_patches=false, or a transformer")
    backbone = module.clone(num_classes=self.hidden)
    return Contrast(backbone, self.features, self.hidden, normalized=True, predictor=True, momentum=True)

  def loss(self, network: Network, batch: Batch, context: Context) -> Losses:
    slow = _slow_weights(context, self.momentum)
    views = two_views(ContrastiveViews(self.smallest), batch.images, batch.keys)
    inputs = {"hide": lambda patches, positions: jax.lax.stop_gradient(patches) + positions}
    inputs = inputs if self.frozen_patches else {}
    encode = lambda view, weights: network(view, context.batch_stats, weights=weights, target=True, **inputs)[0]
    keys = [jax.lax.stop_gradient(encode(view, slow)) for view in views]
    stats, values, correct = context.batch_stats, jnp.zeros(()), jnp.zeros(())
    for view, key in zip(views, reversed(keys), strict=True):
      query, stats = network(view, stats, **inputs)
      logits = query @ key.T / self.temperature
      value, right = info_nce(logits, jnp.arange(len(logits)))
      values, correct = values + 2 * self.temperature * value, correct + right / 2
    return Losses(values, logits, {**stats, "momentum": slow}, correct)
