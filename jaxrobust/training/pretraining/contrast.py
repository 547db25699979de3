"""The network of contrastive learning: a classifier whose head is the first layer of a projection to a unit sphere."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn

from jaxrobust.core.types import Array
from jaxrobust.models.families.vit import ViT
from jaxrobust.models.layers.basic import batch_norm
from jaxrobust.training.pretraining.backbone import transformer_start


class Contrast(nn.Module):
  """Embeddings of unit length, of images.

  Attributes:
    backbone: a classifier of `hidden` classes: its head is the projection's first layer, and is made anew when the
      network is fine-tuned.
    features: of an embedding.
    normalized: whether there are three layers with batch norm (MoCo v3) instead of two without (MoCo v2, SimCLR).
    predictor: whether a second network predicts one view's embedding from the other's.
    momentum: whether a slow copy of the weights is carried along.
    queue: how many embeddings of earlier batches are.
  """

  backbone: nn.Module
  features: int
  hidden: int
  normalized: bool = False
  predictor: bool = False
  momentum: bool = False
  queue: int = 0

  @property
  def num_classes(self) -> int:
    return self.features

  def init(self, rngs: Any, *inputs: Any, **options: Any) -> Any:
    variables = super().init(rngs, *inputs, **options)
    if not isinstance(self.backbone, ViT):
      return variables
    params = transformer_start(variables["params"], rngs["params"])
    carried = {**variables["batch_stats"], "momentum": jax.tree.map(jnp.copy, params)} if self.momentum else {}
    return {**variables, "params": params, **({"batch_stats": carried} if carried else {})}

  @nn.compact
  def __call__(self, x: Array, train: bool = False, target: bool = False, **inputs: Any) -> Array:
    """Applies the network; `target` leaves the predictor out; other arguments go to the backbone."""
    x = self.backbone(x, train=train, **inputs)
    if self.normalized:
      x = nn.relu(batch_norm(train, "norm1")(x))
      x = nn.Dense(self.hidden, use_bias=False, name="project1")(x)
      x = nn.relu(batch_norm(train, "norm2")(x))
      x = _plain_norm(train, "norm3")(nn.Dense(self.features, use_bias=False, name="project2")(x))
    else:
      x = nn.Dense(self.features, name="project")(nn.relu(x))
    if self.predictor and not target:
      x = nn.relu(batch_norm(train, "norm4")(nn.Dense(self.hidden, use_bias=False, name="predict1")(x)))
      x = _plain_norm(train, "norm5")(nn.Dense(self.features, use_bias=False, name="predict2")(x))
    if self.is_initializing():
      self._carry()
    return unit(x)

  def _carry(self) -> None:
    """Keeps it beside the weights, in the collection that steps hand on."""
    if self.momentum:
      self.variable("batch_stats", "momentum", lambda: jax.tree.map(jnp.copy, self.variables["params"]))
    if self.queue:
      start = lambda: unit(jax.random.normal(jax.random.key(0), (self.queue, self.features)))
      self.variable("batch_stats", "queue", start)


def _plain_norm(train: bool, name: str) -> nn.BatchNorm:
  return nn.BatchNorm(use_running_average=not train, momentum=0.9, use_bias=False, use_scale=False, name=name)


def unit(x: Array) -> Array:
  """Returns rows of length one, in float32."""
  x = x.astype(jnp.float32)
  return x / jnp.maximum(jnp.linalg.norm(x, axis=-1, keepdims=True), 1e-12)


def follow(slow: Any, fast: Any, momentum: float) -> Any:
  """Moves slow <- momentum · slow + (1 - momentum) · fast."""
  return jax.tree.map(lambda old, new: momentum * old + (1 - momentum) * new.astype(old.dtype), slow, fast)
