"""XCiT (El-Nouby et al. 2021, arXiv:2106.09681): attention between channels instead of tokens.

Layer names are timm's. Sizes S, M and L in depths 12 and 24 with 16-pixel patches, and the 32-pixel networks of
Debenedetti et al. 2022 (arXiv:2209.07399), in which the first two patch convolutions have stride 1 (4-pixel patches).
"""

from __future__ import annotations

import functools

import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from jax import lax

from jaxrobust.core.types import Array
from jaxrobust.models.layers.attention import Mlp, attend, dense, merge_heads, split_heads
from jaxrobust.models.layers.basic import DropPath, batch_norm, dropout, gelu, layer_norm
from jaxrobust.models.layers.conv import Conv
from jaxrobust.models.registry import MODELS, cifar_spec, imagenet_spec


def fourier_positions(height: int, width: int, features: int = 32) -> np.ndarray:
  """Returns sines and cosines of the row and of the column, (1, height, width, 2 · features)."""
  period = 10000.0 ** (2 * (np.arange(features) // 2) / features)

  def waves(length: int) -> np.ndarray:
    angle = np.arange(1, length + 1)[:, None] / (length + 1e-6) * 2 * np.pi / period
    return np.where(np.arange(features) % 2 == 0, np.sin(angle), np.cos(angle))

  rows = np.broadcast_to(waves(height)[:, None], (height, width, features))
  columns = np.broadcast_to(waves(width)[None], (height, width, features))
  return np.concatenate([rows, columns], axis=-1)[None].astype(np.float32)


def _unit(x: Array) -> Array:
  """Scales tokens to unit length, in float32, with a length below 1e-12 left as it is."""
  square = jnp.sum(jnp.square(x.astype(jnp.float32)), axis=-1, keepdims=True)
  return (x * lax.rsqrt(jnp.maximum(square, 1e-24))).astype(x.dtype)


class CrossCovarianceAttention(nn.Module):
  """softmax(temperature · k̂ᵀq̂) over channels, per head."""

  num_heads: int

  @nn.compact
  def __call__(self, x: Array) -> Array:
    features = x.shape[-1]
    temperature = self.param("temperature", nn.initializers.ones_init(), (self.num_heads, 1, 1))
    query, key, value = split_heads(dense(3 * features, "qkv")(x), 3, self.num_heads).swapaxes(-1, -2)
    y = attend(_unit(query) * temperature.astype(x.dtype), _unit(key), value, 1.0)
    return dense(features, "proj")(merge_heads(y.swapaxes(-1, -2)))


class LocalPatchInteraction(nn.Module):
  """Two depthwise 3×3 convolutions over the grid of tokens."""

  @nn.compact
  def __call__(self, x: Array, grid: tuple[int, int], train: bool) -> Array:
    features = x.shape[-1]
    y = x.reshape(x.shape[0], *grid, features)
    y = gelu(Conv(features, 3, 1, 1, groups=features, name="conv1")(y))
    y = Conv(features, 3, 1, 1, groups=features, name="conv2")(batch_norm(train, "bn")(y))
    return y.reshape(x.shape)


class XCABlock(nn.Module):
  """Channel attention, local interaction and an MLP, each with a learned factor per channel."""

  num_heads: int
  layer_scale: float = 1.0
  drop_rate: float = 0.0
  drop_path: float = 0.0

  @nn.compact
  def __call__(self, x: Array, grid: tuple[int, int], train: bool = False) -> Array:
    features = x.shape[-1]

    def add(x: Array, y: Array, gamma: str) -> Array:
      y = y * self.param(gamma, nn.initializers.constant(self.layer_scale), (features,))
      return x + DropPath(self.drop_path, name=f"drop_{gamma}")(y, train)

    y = CrossCovarianceAttention(self.num_heads, name="attn")(layer_norm("norm1")(x))
    x = add(x, dropout(y, self.drop_rate, train), "gamma1")
    x = add(x, LocalPatchInteraction(name="local_mp")(layer_norm("norm3")(x), grid, train), "gamma3")
    return add(x, Mlp(4 * features, self.drop_rate, name="mlp")(layer_norm("norm2")(x), train), "gamma2")


class ClassAttention(nn.Module):
  """The class token, first, looks at all tokens (CaiT, arXiv:2103.17239)."""

  num_heads: int

  @nn.compact
  def __call__(self, x: Array) -> Array:
    features = x.shape[-1]
    query = split_heads(dense(features, "q")(x[:, :1]), 1, self.num_heads)[0]
    key, value = (split_heads(dense(features, name)(x), 1, self.num_heads)[0] for name in "kv")
    y = merge_heads(attend(query, key, value, (features // self.num_heads) ** -0.5))
    return dense(features, "proj")(y)


class ClassAttentionBlock(nn.Module):
  """As in the official code: normalized patch tokens pass through the first branch, and are doubled by the second."""

  num_heads: int
  layer_scale: float = 1.0
  drop_rate: float = 0.0

  @nn.compact
  def __call__(self, x: Array, train: bool = False) -> Array:
    features = x.shape[-1]
    gamma1, gamma2 = (
      self.param(f"gamma{index}", nn.initializers.constant(self.layer_scale), (features,)) for index in (1, 2)
    )
    y = layer_norm("norm1")(x)
    token = dropout(ClassAttention(self.num_heads, name="attn")(y), self.drop_rate, train)
    y = gamma1 * jnp.concatenate([token, y[:, 1:]], axis=1)
    x = layer_norm("norm2")(x + y)
    token = gamma2 * Mlp(4 * features, self.drop_rate, name="mlp")(x[:, :1], train)
    return x + jnp.concatenate([token, x[:, 1:]], axis=1)


class XCiT(nn.Module):
  """Four patch convolutions, channel-attention blocks, then two class-attention blocks."""

  features: int
  depth: int
  num_heads: int
  num_classes: int = 1000
  patch_strides: tuple[int, ...] = (2, 2, 2, 2)
  layer_scale: float = 1.0
  drop_rate: float = 0.0
  drop_path_rate: float = 0.0

  @nn.compact
  def __call__(self, x: Array, train: bool = False) -> Array:
    x = self._embed(x, train)
    grid = x.shape[1:3]
    x = dropout(x.reshape(x.shape[0], -1, self.features), self.drop_rate, train)
    options = (self.num_heads, self.layer_scale, self.drop_rate, self.drop_path_rate)
    for index in range(self.depth):
      x = XCABlock(*options, name=f"blocks_{index}")(x, grid, train)
    token = self.param("cls_token", nn.initializers.normal(0.02), (1, 1, self.features)).astype(x.dtype)
    x = jnp.concatenate([jnp.broadcast_to(token, (x.shape[0], 1, self.features)), x], axis=1)
    for index in range(2):
      x = ClassAttentionBlock(*options[:3], name=f"cls_attn_blocks_{index}")(x, train)
    return dense(self.num_classes, "head")(layer_norm("norm")(x[:, 0]))

  def _embed(self, x: Array, train: bool) -> Array:
    for index, stride in enumerate(self.patch_strides):
      name, last = f"patch_embed.proj.{2 * index}", len(self.patch_strides) - 1
      x = Conv(self.features >> (last - index), 3, stride, 1, use_bias=False, name=f"{name}.0")(x)
      x = batch_norm(train, f"{name}.1")(x)
      x = gelu(x) if index < last else x
    positions = jnp.asarray(fourier_positions(*x.shape[1:3]), x.dtype)
    return x + Conv(self.features, 1, name="pos_embed.token_projection")(positions)


# Features, heads.
_SIZES = {"small": (384, 8), "medium": (512, 8), "large": (768, 16)}

for _size, (_features, _heads) in _SIZES.items():
  for _depth in (12, 24):
    _name = f"xcit_{_size}_{_depth}_p16_224"
    # timm has only the published sizes; the others are those of Debenedetti et al. 2022.
    _known = _size == "small" or _depth == 24
    MODELS.register(_name)(
      imagenet_spec(
        functools.partial(XCiT, _features, _depth, _heads, layer_scale=1.0 if _depth == 12 else 1e-5),
        f"XCiT-{_size[0].upper()}{_depth}, 16-pixel patches (El-Nouby et al. 2021)",
        f"timm:{_name}" if _known else "",
        crop_fraction=1.0,
        interpolation="bicubic",
      )
    )
  MODELS.register(f"cifar-xcit_{_size}_12_p4")(
    cifar_spec(
      functools.partial(XCiT, _features, 12, _heads, patch_strides=(1, 1, 2, 2)),
      f"XCiT-{_size[0].upper()}12 for 32 pixels, 4-pixel patches (Debenedetti et al. 2022)",
    )
  )
