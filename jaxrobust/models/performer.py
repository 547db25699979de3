"""Attention of linear cost for long token sequences (Performer, arXiv:2009.14794), as T2T-ViT and ViTAE use it.

softmax(q·k) is replaced by φ(q)·φ(k) with positive random features φ(x) = exp(w·x − |x|²/2) / √m. The directions w are
drawn once and never trained: they travel with the batch statistics, which every caller keeps and no optimiser touches.
"""

from __future__ import annotations

import jax.numpy as jnp
from flax import linen as nn

from jaxrobust.core.types import Array
from jaxrobust.models.attention import dense
from jaxrobust.models.layers import dropout, gelu, layer_norm


class TokenPerformer(nn.Module):
  """Linear attention of one head from any width to `features`, then an MLP; values are the shortcut.

  The authors drop 10 % of the projection's and the MLP's outputs in training; here `drop_rate` says how many.
  """

  features: int
  drop_rate: float = 0.0

  @nn.compact
  def __call__(self, x: Array, train: bool = False, parallel: Array | float = 0.0) -> Array:
    """`parallel` is added to the attention's output, before the MLP."""
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
