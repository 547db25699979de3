"""T2T-ViT (Yuan et al. 2021, arXiv:2101.11986): tokens are formed by three overlapping soft splits.

Layer names follow the official yitu-opensource/T2T-ViT. `t2t_vit_14` mixes tokens by Performers, `t2t_vit_t_14` by
transformers (the variant of ARES-Bench). The sinusoid position table is stored but not trained, and travels with the
batch statistics as in `performer.py`.
"""

from __future__ import annotations

import functools

import jax.numpy as jnp
import numpy as np
from flax import linen as nn

from jaxrobust.core.types import Array
from jaxrobust.models.layers.attention import (
  Mlp,
  TokenPerformer,
  TransformerBlock,
  attend,
  dense,
  depth_rates,
  merge_heads,
  split_heads,
)
from jaxrobust.models.layers.basic import dropout, layer_norm
from jaxrobust.models.layers.patches import unfold
from jaxrobust.models.registry import MODELS, imagenet_spec

_TOKEN_FEATURES = 64


def sinusoid_table(count: int, features: int) -> np.ndarray:
  """Returns the position table of the first transformer (arXiv:1706.03762), (1, count, features).

  >>> sinusoid_table(3, 4)[0, 0]
  array([0., 1., 0., 1.], dtype=float32)
  """
  channel = np.arange(features)
  angle = np.arange(count)[:, None] / 10000.0 ** (2 * (channel // 2) / features)
  return np.where(channel % 2 == 0, np.sin(angle), np.cos(angle))[None].astype(np.float32)


class TokenAttention(nn.Module):
  """One-head attention to a smaller width; the shortcut is the values. The scale is that of the input's width."""

  features: int

  @nn.compact
  def __call__(self, x: Array) -> Array:
    query, key, value = split_heads(dense(3 * self.features, "qkv", use_bias=False)(x), 3, 1)
    y = merge_heads(attend(query, key, value, x.shape[-1] ** -0.5))
    return value[:, 0] + dense(self.features, "proj")(y)


class TokenTransformer(nn.Module):
  """The transformer layer between soft splits."""

  features: int
  drop_rate: float = 0.0

  @nn.compact
  def __call__(self, x: Array, train: bool = False) -> Array:
    x = TokenAttention(self.features, name="attn")(layer_norm("norm1", 1e-5)(x))
    return x + Mlp(self.features, self.drop_rate, name="mlp")(layer_norm("norm2", 1e-5)(x), train)


class T2TViT(nn.Module):
  """Soft splits of 7, 3 and 3 with strides 4, 2 and 2, then transformer blocks of MLP ratio 3."""

  features: int
  depth: int
  num_heads: int
  performer: bool = True
  num_classes: int = 1000
  drop_rate: float = 0.0
  drop_path_rate: float = 0.0

  @nn.compact
  def __call__(self, x: Array, train: bool = False) -> Array:
    x = self._tokens(x, train)
    token = self.param("cls_token", nn.initializers.normal(0.02), (1, 1, self.features)).astype(x.dtype)
    x = jnp.concatenate([jnp.broadcast_to(token, (x.shape[0], 1, self.features)), x], axis=1)
    table = self.variable("batch_stats", "pos_embed", lambda: jnp.asarray(sinusoid_table(*x.shape[1:])))
    x = dropout(x + table.value.astype(x.dtype), self.drop_rate, train)
    for index, rate in enumerate(depth_rates(self.drop_path_rate, (self.depth,))[0]):
      options = {"qkv_bias": False, "epsilon": 1e-5, "drop_rate": self.drop_rate, "drop_path": rate}
      x = TransformerBlock(self.num_heads, 3.0, name=f"blocks_{index}", **options)(x, train)
    return dense(self.num_classes, "head")(layer_norm("norm", 1e-5)(x[:, 0]))

  def _tokens(self, x: Array, train: bool) -> Array:
    layer = TokenPerformer if self.performer else TokenTransformer
    for index, (size, stride, padding) in enumerate(((7, 4, 2), (3, 2, 1))):
      x = unfold(x, size, stride, padding)
      mix = layer(_TOKEN_FEATURES, self.drop_rate, name=f"tokens_to_token.attention{index + 1}")
      x = mix(x.reshape(x.shape[0], -1, x.shape[-1]), train).reshape(*x.shape[:3], _TOKEN_FEATURES)
    x = unfold(x, 3, 2, 1)
    return dense(self.features, "tokens_to_token.project")(x.reshape(x.shape[0], -1, x.shape[-1]))


# Features, depth, heads.
for _row in ((384, 14, 6), (448, 19, 7), (512, 24, 8)):
  for _infix, _performer in (("", True), ("t_", False)):
    MODELS.register(f"t2t_vit_{_infix}{_row[1]}")(
      imagenet_spec(
        functools.partial(T2TViT, *_row, performer=_performer),
        f"T2T-ViT-{_row[1]}, tokens by {'Performer' if _performer else 'transformer'} (Yuan et al. 2021)",
        crop_fraction=0.9,
        interpolation="bicubic",
      )
    )
