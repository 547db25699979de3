"""Layers that the transformer families share, named as in timm.

Heads are merged with the batch before the products: XLA:CPU runs a product with one leading batch axis three times
faster than one whose heads sit between tokens and channels. Scores and softmax are float32 whatever the network
computes in.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from flax import linen as nn

from jaxrobust.core.types import Array
from jaxrobust.models.layers import DropPath, dropout, gelu, layer_norm


def dense(features: int, name: str, use_bias: bool = True) -> nn.Dense:
  """A linear layer with the initial values transformers are trained from."""
  return nn.Dense(features, use_bias, kernel_init=nn.initializers.normal(0.02), name=name)


def split_heads(x: Array, parts: int, heads: int) -> Array:
  """(batch, tokens, parts · heads · channels) to (parts, batch, heads, tokens, channels)."""
  return x.reshape(*x.shape[:2], parts, heads, -1).transpose(2, 0, 3, 1, 4)


def merge_heads(x: Array) -> Array:
  """(batch, heads, tokens, channels) to (batch, tokens, heads · channels)."""
  return x.transpose(0, 2, 1, 3).reshape(x.shape[0], x.shape[2], -1)


def attend(query: Array, key: Array, value: Array, scale: float, bias: Array | None = None) -> Array:
  """softmax(scale · q kᵀ + bias) v for (batch, heads, tokens, channels).

  A bias of (windows, heads, queries, keys) repeats over the batch, whose windows run fastest.
  """
  merged = [part.reshape(-1, *part.shape[2:]) for part in (query * scale, key, value)]
  scores = jnp.einsum("bqd,bkd->bqk", *merged[:2], preferred_element_type=jnp.float32)
  if bias is not None:
    scores = (scores.reshape(-1, *bias.shape) + bias).reshape(scores.shape)
  weights = nn.softmax(scores).astype(value.dtype)
  return jnp.einsum("bqk,bkd->bqd", weights, merged[2]).reshape(*query.shape[:3], -1)


def depth_rates(rate: float, depths: Sequence[int]) -> list[list[float]]:
  """Stochastic-depth rates that grow linearly with depth, per stage.

  >>> depth_rates(0.2, (1, 2))
  [[0.0], [0.1, 0.2]]
  """
  rates = [float(value) for value in np.linspace(0.0, rate, sum(depths))]
  return [rates[start:stop] for start, stop in itertools.pairwise(np.cumsum((0, *depths)))]


class Mlp(nn.Module):
  """Two linear layers with an exact GELU between them."""

  hidden: int
  drop_rate: float = 0.0

  @nn.compact
  def __call__(self, x: Array, train: bool = False) -> Array:
    features = x.shape[-1]
    x = dropout(gelu(dense(self.hidden, "fc1")(x)), self.drop_rate, train)
    return dropout(dense(features, "fc2")(x), self.drop_rate, train)


class Attention(nn.Module):
  """Multi-head self-attention with one layer for queries, keys and values."""

  num_heads: int
  qkv_bias: bool = True
  drop_rate: float = 0.0

  @nn.compact
  def __call__(self, x: Array, train: bool = False) -> Array:
    features = x.shape[-1]
    qkv = dense(3 * features, "qkv", self.qkv_bias)(x)
    query, key, value = split_heads(qkv, 3, self.num_heads)
    x = merge_heads(attend(query, key, value, (features // self.num_heads) ** -0.5))
    return dropout(dense(features, "proj")(x), self.drop_rate, train)


class Block(nn.Module):
  """The pre-norm transformer block.

  `layer_scale` is the initial value of a learned factor per channel on both branches (arXiv:2103.17239); None has none.
  """

  num_heads: int
  mlp_ratio: float = 4.0
  qkv_bias: bool = True
  epsilon: float = 1e-6
  layer_scale: float | None = None
  drop_rate: float = 0.0
  drop_path: float = 0.0

  @nn.compact
  def __call__(self, x: Array, train: bool = False) -> Array:
    attention = Attention(self.num_heads, self.qkv_bias, self.drop_rate, name="attn")
    mlp = Mlp(int(x.shape[-1] * self.mlp_ratio), self.drop_rate, name="mlp")
    x = x + self._scaled("ls1", attention(layer_norm("norm1", self.epsilon)(x), train), train)
    return x + self._scaled("ls2", mlp(layer_norm("norm2", self.epsilon)(x), train), train)

  def _scaled(self, name: str, branch: Array, train: bool) -> Array:
    if self.layer_scale is not None:
      init = nn.initializers.constant(self.layer_scale)
      branch = branch * self.param(f"{name}.gamma", init, (branch.shape[-1],))
    return DropPath(self.drop_path)(branch, train)
