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
from jaxrobust.models.layers.basic import DropPath, dropout, gelu, layer_norm


def dense(features: int, name: str, use_bias: bool = True) -> nn.Dense:
  """Builds a linear layer with the initial values transformers are trained from."""
  return nn.Dense(features, use_bias, kernel_init=nn.initializers.normal(0.02), name=name)


def split_heads(x: Array, parts: int, heads: int) -> Array:
  """Turns (batch, tokens, parts · heads · channels) into (parts, batch, heads, tokens, channels)."""
  return x.reshape(*x.shape[:2], parts, heads, -1).transpose(2, 0, 3, 1, 4)


def merge_heads(x: Array) -> Array:
  """Turns (batch, heads, tokens, channels) into (batch, tokens, heads · channels)."""
  return x.transpose(0, 2, 1, 3).reshape(x.shape[0], x.shape[2], -1)


def attend(query: Array, key: Array, value: Array, scale: float, bias: Array | None = None) -> Array:
  """Returns softmax(scale · q kᵀ + bias) v for (batch, heads, tokens, channels).

  A bias of (windows, heads, queries, keys) repeats over the batch, whose windows run fastest.
  """
  merged = [part.reshape(-1, *part.shape[2:]) for part in (query * scale, key, value)]
  scores = jnp.einsum("bqd,bkd->bqk", *merged[:2], preferred_element_type=jnp.float32)
  if bias is not None:
    scores = (scores.reshape(-1, *bias.shape) + bias).reshape(scores.shape)
  weights = nn.softmax(scores).astype(value.dtype)
  return jnp.einsum("bqk,bkd->bqd", weights, merged[2]).reshape(*query.shape[:3], -1)


def depth_rates(rate: float, depths: Sequence[int]) -> list[list[float]]:
  """Returns stochastic-depth rates that grow linearly with depth, per stage.

  >>> depth_rates(0.2, (1, 2))
  [[0.0], [0.1, 0.2]]
  """
  rates = [float(value) for value in np.linspace(0.0, rate, sum(depths))]
  return [rates[start:stop] for start, stop in itertools.pairwise(np.cumsum((0, *depths)))]


def quick_gelu(x: Array) -> Array:
  """Returns x sigmoid(1.702 x), the approximation of GELU that CLIP's networks were trained with (arXiv:2103.00020)."""
  return x * nn.sigmoid(1.702 * x)


class Mlp(nn.Module):
  """Two linear layers with an exact GELU, or CLIP's approximation of it, between them."""

  hidden: int
  drop_rate: float = 0.0
  quick: bool = False

  @nn.compact
  def __call__(self, x: Array, train: bool = False) -> Array:
    features = x.shape[-1]
    act = quick_gelu if self.quick else gelu
    x = dropout(act(dense(self.hidden, "fc1")(x)), self.drop_rate, train)
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


class TransformerBlock(nn.Module):
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
  quick: bool = False

  @nn.compact
  def __call__(self, x: Array, train: bool = False) -> Array:
    attention = Attention(self.num_heads, self.qkv_bias, self.drop_rate, name="attn")
    mlp = Mlp(int(x.shape[-1] * self.mlp_ratio), self.drop_rate, self.quick, name="mlp")
    x = x + self._scaled("ls1", attention(layer_norm("norm1", self.epsilon)(x), train), train)
    return x + self._scaled("ls2", mlp(layer_norm("norm2", self.epsilon)(x), train), train)

  def _scaled(self, name: str, branch: Array, train: bool) -> Array:
    if self.layer_scale is not None:
      init = nn.initializers.constant(self.layer_scale)
      branch = branch * self.param(f"{name}.gamma", init, (branch.shape[-1],))
    return DropPath(self.drop_path)(branch, train)


class TokenPerformer(nn.Module):
  """Linear attention of one head from any width to `features`, then an MLP; values are the shortcut.

  Performer (arXiv:2009.14794), as T2T-ViT and ViTAE use it: softmax(q·k) is replaced by φ(q)·φ(k) with positive random
  features φ(x) = exp(w·x − |x|²/2) / √m. The directions w are drawn once and never trained: they travel with the batch
  statistics, which every caller keeps and no optimizer touches.

  The authors drop 10 % of the projection's and the MLP's outputs in training; here `drop_rate` says how many.
  """

  features: int
  drop_rate: float = 0.0

  @nn.compact
  def __call__(self, x: Array, train: bool = False, parallel: Array | float = 0.0) -> Array:
    """Applies the block; `parallel` is added to the attention's output, before the MLP."""
    features = self.features
    kqv = dense(3 * features, "kqv")(layer_norm("norm1", 1e-5)(x))
    key, query, value = jnp.split(kqv, 3, axis=-1)
    y = self._linear_attention(query, key, value)
    x = value + dropout(dense(features, "proj")(y), self.drop_rate, train) + parallel
    y = gelu(dense(features, "mlp.0")(layer_norm("norm2", 1e-5)(x)))
    return x + dropout(dense(features, "mlp.2")(y), self.drop_rate, train)

  def _linear_attention(self, query: Array, key: Array, value: Array) -> Array:
    count = self.features // 2
    orthogonal, shape = nn.initializers.orthogonal(count**0.5), (count, self.features)
    directions = self.variable("batch_stats", "w", lambda: orthogonal(self.make_rng("params"), shape)).value
    directions = directions.astype(jnp.float32)

    def lift(x: Array) -> Array:
      x = x.astype(jnp.float32)
      return jnp.exp(x @ directions.T - jnp.sum(jnp.square(x), -1, keepdims=True) / 2) / count**0.5

    lifted_query, lifted_key = lift(query), lift(key)
    total = jnp.einsum("btm,bm->bt", lifted_query, jnp.sum(lifted_key, axis=1))[..., None]
    summary = jnp.einsum("btm,btn->bmn", lifted_key, value.astype(jnp.float32))
    return (lifted_query @ summary / (total + 1e-8)).astype(value.dtype)
