"""Swin transformers (Liu et al. 2021, arXiv:2103.14030): attention inside windows of 7×7 tokens, shifted every
second block.

Layer names are timm's. Windows, shifts and masks are constants of the feature map's size; maps no larger than a window
are not shifted. Feature maps must be multiples of the window (224 pixels are).
"""

from __future__ import annotations

import functools

import jax.numpy as jnp
import numpy as np
from flax import linen as nn

from jaxrobust.core.errors import InputError
from jaxrobust.core.types import Array
from jaxrobust.models.layers.attention import Mlp, attend, dense, depth_rates, merge_heads, split_heads
from jaxrobust.models.layers.basic import DropPath, dropout, global_pool, layer_norm
from jaxrobust.models.layers.patches import Hide, PatchConv, patchify
from jaxrobust.models.registry import MODELS, imagenet_spec

_norm = functools.partial(layer_norm, epsilon=1e-5)


def relative_positions(window: int) -> np.ndarray:
  """Returns, for each pair of tokens in a window, the row of the bias table that belongs to their offset.

  >>> relative_positions(2)[0]
  array([4, 3, 1, 0])
  """
  rows, columns = np.divmod(np.arange(window * window), window)
  offsets = [axis[:, None] - axis[None, :] + window - 1 for axis in (rows, columns)]
  return offsets[0] * (2 * window - 1) + offsets[1]


def shift_mask(height: int, width: int, window: int, shift: int) -> np.ndarray:
  """Returns (windows, tokens, tokens): −100 between tokens that only the cyclic shift made neighbors, else 0.

  >>> shift_mask(4, 4, 2, 1)[:, 0].min(-1)
  array([   0., -100., -100., -100.], dtype=float32)
  """

  def regions(length: int) -> np.ndarray:
    place = np.arange(length)
    return (place >= length - window).astype(int) + (place >= length - shift)

  region = 3 * regions(height)[:, None] + regions(width)[None, :]
  tokens = region.reshape(height // window, window, width // window, window).transpose(0, 2, 1, 3)
  tokens = tokens.reshape(-1, window * window)
  return np.where(tokens[:, :, None] == tokens[:, None, :], np.float32(0), np.float32(-100))


class WindowAttention(nn.Module):
  """Self-attention within each window of a (batch, height, width, channels) map, with relative position biases."""

  num_heads: int
  window: int
  shift: int

  @nn.compact
  def __call__(self, x: Array) -> Array:
    batch, height, width, features = x.shape
    window, tokens = self.window, self.window**2
    table_shape = ((2 * window - 1) ** 2, self.num_heads)
    table = self.param("relative_position_bias_table", nn.initializers.normal(0.02), table_shape)
    bias = table[relative_positions(window)].transpose(2, 0, 1).astype(jnp.float32)[None]
    if self.shift:
      x = jnp.roll(x, (-self.shift, -self.shift), (1, 2))
      bias = bias + shift_mask(height, width, window, self.shift)[:, None]
    windows = patchify(x, window).reshape(-1, tokens, features)
    query, key, value = split_heads(dense(3 * features, "qkv")(windows), 3, self.num_heads)
    y = merge_heads(attend(query, key, value, (features // self.num_heads) ** -0.5, bias))
    y = dense(features, "proj")(y).reshape(batch, height // window, width // window, window, window, features)
    y = y.transpose(0, 1, 3, 2, 4, 5).reshape(x.shape)
    return jnp.roll(y, (self.shift, self.shift), (1, 2)) if self.shift else y


class SwinBlock(nn.Module):
  """Window attention and an MLP, pre-norm."""

  num_heads: int
  window: int
  shifted: bool
  drop_rate: float = 0.0
  drop_path: float = 0.0

  @nn.compact
  def __call__(self, x: Array, train: bool = False) -> Array:
    side = min(x.shape[1:3])
    window = min(self.window, side)
    if x.shape[1] % window or x.shape[2] % window:
      raise InputError(f"a feature map of {x.shape[1]}×{x.shape[2]} does not divide into windows of {window}×{window}")
    shift = self.window // 2 if self.shifted and side > self.window else 0
    y = dropout(WindowAttention(self.num_heads, window, shift, name="attn")(_norm("norm1")(x)), self.drop_rate, train)
    x = x + DropPath(self.drop_path)(y, train)
    y = Mlp(4 * x.shape[-1], self.drop_rate, name="mlp")(_norm("norm2")(x), train)
    return x + DropPath(self.drop_path)(y, train)


def merge_patches(x: Array) -> Array:
  """Puts 2×2 neighbors side by side in the channels, columns before rows."""
  batch, height, width, features = x.shape
  grid = x.reshape(batch, height // 2, 2, width // 2, 2, features)
  return grid.transpose(0, 1, 3, 4, 2, 5).reshape(batch, height // 2, width // 2, 4 * features)


class Swin(nn.Module):
  """Four stages of 1, 2, 4 and 8 times the features; the authors train with drop-path rates of 0.2 to 0.5."""

  features: int
  depths: tuple[int, ...]
  num_heads: tuple[int, ...]
  num_classes: int = 1000
  window: int = 7
  drop_rate: float = 0.0
  drop_path_rate: float = 0.0

  @nn.compact
  def __call__(self, x: Array, train: bool = False, hide: Hide = jnp.add, tokens: bool = False) -> Array:
    """Returns logits, or the normalized map of `tokens` behind the last stage; `hide` says what the blocks see."""
    x = _norm("patch_embed.norm")(PatchConv(self.features, 4, name="patch_embed.proj")(x))
    # Positions come in with the attention only.
    x = dropout(hide(x, jnp.zeros((), x.dtype)), self.drop_rate, train)
    for stage, rates in enumerate(depth_rates(self.drop_path_rate, self.depths)):
      layer = f"layers.{stage}"
      if stage > 0:
        x = _norm(f"{layer}.downsample.norm")(merge_patches(x))
        x = dense(self.features * 2**stage, f"{layer}.downsample.reduction", use_bias=False)(x)
      for index, rate in enumerate(rates):
        name = f"{layer}.blocks.{index}"
        x = SwinBlock(self.num_heads[stage], self.window, index % 2 == 1, self.drop_rate, rate, name=name)(x, train)
    x = _norm("norm")(x)
    return x if tokens else dense(self.num_classes, "head.fc")(global_pool(x))


_SIZES = {
  "tiny": (96, (2, 2, 6, 2), (3, 6, 12, 24)),
  "small": (96, (2, 2, 18, 2), (3, 6, 12, 24)),
  "base": (128, (2, 2, 18, 2), (4, 8, 16, 32)),
  "large": (192, (2, 2, 18, 2), (6, 12, 24, 48)),
}

for _size, _row in _SIZES.items():
  _name = f"swin_{_size}_patch4_window7_224"
  MODELS.register(_name)(
    imagenet_spec(
      functools.partial(Swin, *_row),
      f"Swin-{_size[0].upper()}, windows of 7 (Liu et al. 2021)",
      f"timm:{_name}",
      crop_fraction=0.9,
      interpolation="bicubic",
    )
  )
  if _size != "large":
    MODELS.register(f"swin_{_size[0]}")(
      imagenet_spec(
        functools.partial(Swin, *_row),
        f"Swin-{_size[0].upper()} of torchvision",
        interpolation="bicubic",
      )
    )
