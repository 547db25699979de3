"""ViTAE (Xu et al. 2021, arXiv:2106.03348): transformers with convolutions beside attention.

Layer names follow the official ViTAE-Transformer repository. Reduction cells downsample by dilated convolutions at
several scales (PRM), two of them with linear attention and parallel convolutions (PCM); normal cells are transformer
blocks with a third, convolutional branch. Tokens are averaged, without a last norm.
"""

from __future__ import annotations

import functools
import math

import jax.numpy as jnp
from flax import linen as nn

from jaxrobust.core.types import Array
from jaxrobust.models.layers.attention import Attention, Mlp, TokenPerformer, dense, depth_rates
from jaxrobust.models.layers.basic import DropPath, batch_norm, gelu, global_pool, layer_norm
from jaxrobust.models.layers.conv import Conv
from jaxrobust.models.registry import MODELS, imagenet_spec


class PyramidReduction(nn.Module):
  """Strided convolutions of growing dilation, side by side."""

  features: int
  size: int
  stride: int
  dilations: tuple[int, ...]

  @nn.compact
  def __call__(self, x: Array) -> Array:
    scales = []
    for index, dilation in enumerate(self.dilations):
      padding = math.ceil(((self.size - 1) * dilation + 1 - self.stride) / 2)
      conv = Conv(self.features, self.size, self.stride, padding, dilation, name=f"convs.{index}.0")
      scales.append(gelu(conv(x)))
    return jnp.concatenate(scales, axis=-1)


class ReductionCell(nn.Module):
  """Pyramid reduction; with `token_features` also linear attention and the parallel convolutions."""

  features: int
  token_features: int | None
  size: int
  stride: int
  dilations: tuple[int, ...]
  drop_rate: float = 0.0

  @nn.compact
  def __call__(self, x: Array, train: bool = False) -> Array:
    pyramid = PyramidReduction(self.features, self.size, self.stride, self.dilations, name="PRM")(x)
    if self.token_features is None:
      return pyramid
    strides = (2, 2, 1) if self.stride == 4 else (2, 1, 1)
    y = nn.silu(Conv(self.features, 3, strides[0], 1, name="PCM.0")(x))
    y = Conv(self.features, 3, strides[1], 1, name="PCM.2")(y)
    y = nn.silu(batch_norm(train, "PCM.3")(y))
    y = nn.silu(Conv(self.token_features, 3, strides[2], 1, name="PCM.5")(y))
    tokens = pyramid.reshape(x.shape[0], -1, pyramid.shape[-1])
    mix = TokenPerformer(self.token_features, self.drop_rate, name="attn")
    return mix(tokens, train, y.reshape(*tokens.shape[:2], -1)).reshape(y.shape)


class NormalCell(nn.Module):
  """Attention and, beside it, three grouped convolutions with batch norm; then an MLP."""

  num_heads: int
  mlp_ratio: float
  groups: int
  drop_rate: float = 0.0
  drop_path: float = 0.0

  @nn.compact
  def __call__(self, x: Array, train: bool = False) -> Array:
    features, hidden = x.shape[-1], int(x.shape[-1] * self.mlp_ratio)
    y = Conv(hidden, 3, 1, 1, groups=self.groups, name="PCM.0")(x)
    y = nn.silu(batch_norm(train, "PCM.1")(y))
    y = Conv(features, 3, 1, 1, groups=self.groups, name="PCM.3")(y)
    y = nn.silu(batch_norm(train, "PCM.4")(y))
    local = nn.silu(Conv(features, 3, 1, 1, groups=self.groups, name="PCM.6")(y))
    tokens = layer_norm("norm1")(x).reshape(x.shape[0], -1, features)
    y = Attention(self.num_heads, drop_rate=self.drop_rate, name="attn")(tokens, train).reshape(x.shape)
    x = x + DropPath(self.drop_path)(y, train) + DropPath(self.drop_path)(local, train)
    y = Mlp(hidden, self.drop_rate, name="mlp")(layer_norm("norm2")(x), train)
    return x + DropPath(self.drop_path)(y, train)


class ViTAE(nn.Module):
  """Three reduction cells (strides 4, 2 and 2), then normal cells.

  Attributes:
    features: channels of the convolutions of each reduction cell.
    token_features: tokens' channels after the first two.
  """

  features: tuple[int, int, int]
  token_features: tuple[int, int]
  depth: int
  num_heads: int
  mlp_ratio: float
  groups: int
  num_classes: int = 1000
  drop_rate: float = 0.0
  drop_path_rate: float = 0.0

  @nn.compact
  def __call__(self, x: Array, train: bool = False) -> Array:
    cells = ((7, 4, (1, 2, 3, 4)), (3, 2, (1, 2, 3)), (3, 2, (1, 2)))
    for stage, (size, stride, dilations) in enumerate(cells):
      tokens = self.token_features[stage] if stage < 2 else None
      name = f"layers.{stage}.RC"
      x = ReductionCell(self.features[stage], tokens, size, stride, dilations, self.drop_rate, name=name)(x, train)
    for index, rate in enumerate(depth_rates(self.drop_path_rate, (self.depth,))[0]):
      name = f"layers.2.NC.{index}"
      x = NormalCell(self.num_heads, self.mlp_ratio, self.groups, self.drop_rate, rate, name=name)(x, train)
    return dense(self.num_classes, "head")(global_pool(x))


_SIZES = {
  "tiny": ((64, 64, 128), (64, 64), 7, 4, 2.0, 64),
  "small": ((64, 64, 192), (96, 192), 14, 6, 3.0, 96),
}

for _size, _row in _SIZES.items():
  MODELS.register(f"vitae_{_size}")(
    imagenet_spec(
      functools.partial(ViTAE, *_row),
      f"ViTAE-{_size[0].upper()} (Xu et al. 2021)",
      crop_fraction=0.9,
      interpolation="bicubic",
    )
  )
