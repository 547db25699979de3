"""ConvNeXt (Liu et al. 2022, arXiv:2201.03545), its ConvStem variants (Singh et al. 2023, arXiv:2303.01870) and V2 (Woo
et al. 2023, arXiv:2301.00808), whose blocks have global response normalization in place of the learned factor.

Layer names are timm's. Blocks are a 7×7 depthwise convolution, layer norm, an MLP over channels and a learned factor
per channel. Stages after the first begin with a layer norm and a 2×2 convolution of stride 2.
"""

from __future__ import annotations

import functools
from typing import Any

import jax.numpy as jnp
from flax import linen as nn

from jaxrobust.core.types import Array
from jaxrobust.models.layers.attention import Mlp, dense, depth_rates
from jaxrobust.models.layers.basic import DropPath, dropout, gelu, global_pool, layer_norm
from jaxrobust.models.layers.conv import Conv
from jaxrobust.models.layers.patches import ConvStem, PatchConv
from jaxrobust.models.registry import MODELS, imagenet_spec


class GlobalResponse(nn.Module):
  """Global response normalization: x + b + w x n, n the norm of a channel's map over the mean of all such norms."""

  @nn.compact
  def __call__(self, x: Array) -> Array:
    shape = (x.shape[-1],)
    weight, bias = (self.param(name, nn.initializers.zeros, shape) for name in ("weight", "bias"))
    # The gradient of a root has no value at 0, which dead channels reach.
    squares = jnp.sum(jnp.square(x), (1, 2), keepdims=True)
    norm = jnp.where(squares > 0, jnp.sqrt(jnp.where(squares > 0, squares, 1.0)), 0.0)
    return x + bias + weight * x * (norm / (norm.mean(-1, keepdims=True) + 1e-6))


class ConvNeXtBlock(nn.Module):
  """A residual block; its factors start at 1e-6. `responses` makes it one of V2."""

  drop_path: float = 0.0
  responses: bool = False

  @nn.compact
  def __call__(self, x: Array, train: bool = False) -> Array:
    features = x.shape[-1]
    y = layer_norm("norm")(Conv(features, 7, 1, 3, groups=features, name="conv_dw")(x))
    if self.responses:
      y = GlobalResponse(name="mlp.grn")(gelu(dense(4 * features, "mlp.fc1")(y)))
      y = dense(features, "mlp.fc2")(y)
    else:
      y = Mlp(4 * features, name="mlp")(y) * self.param("gamma", nn.initializers.constant(1e-6), (features,))
    return x + DropPath(self.drop_path)(y, train)


class ConvNeXt(nn.Module):
  """Four stages; `stem_widths` replaces the patch embedding by 3×3 convolutions, the first two of stride 2."""

  depths: tuple[int, ...]
  widths: tuple[int, ...]
  num_classes: int = 1000
  stem_widths: tuple[int, ...] | None = None
  drop_rate: float = 0.0
  drop_path_rate: float = 0.0
  responses: bool = False

  @nn.compact
  def __call__(self, x: Array, train: bool = False) -> Array:
    if self.stem_widths is None:
      x = layer_norm("stem.1")(PatchConv(self.widths[0], 4, name="stem.0")(x))
    else:
      x = ConvStem(self.stem_widths, (2, 2, 1)[: len(self.stem_widths)], name="stem.stem")(x)
    for stage, rates in enumerate(depth_rates(self.drop_path_rate, self.depths)):
      if stage > 0:
        x = layer_norm(f"stages.{stage}.downsample.0")(x)
        x = PatchConv(self.widths[stage], 2, name=f"stages.{stage}.downsample.1")(x)
      for index, rate in enumerate(rates):
        x = ConvNeXtBlock(rate, self.responses, name=f"stages.{stage}.blocks.{index}")(x, train)
    x = layer_norm("head.norm")(global_pool(x))
    return dense(self.num_classes, "head.fc")(dropout(x, self.drop_rate, train))


# Depths, widths, widths of the convolutional stem, crop fraction of timm's default weights.
_SIZES: dict[str, tuple[Any, ...]] = {
  "tiny": ((3, 3, 9, 3), (96, 192, 384, 768), (48, 96), 0.95),
  "small": ((3, 3, 27, 3), (96, 192, 384, 768), (48, 96), 0.95),
  "base": ((3, 3, 27, 3), (128, 256, 512, 1024), (64, 96, 128), 0.95),
  "large": ((3, 3, 27, 3), (192, 384, 768, 1536), (96, 144, 192), 0.875),
}

for _size, (_depths, _widths, _stem, _crop) in _SIZES.items():
  MODELS.register(f"convnext_{_size}")(
    imagenet_spec(
      functools.partial(ConvNeXt, _depths, _widths),
      f"ConvNeXt-{_size[0].upper()} (Liu et al. 2022)",
      f"timm:convnext_{_size}",
      crop_fraction=_crop,
      interpolation="bicubic",
    )
  )
  # The published weights take images in [0, 1] as they are.
  MODELS.register(f"convnext_{_size}_cvst")(
    imagenet_spec(
      functools.partial(ConvNeXt, _depths, _widths, stem_widths=_stem),
      f"ConvNeXt-{_size[0].upper()} with a convolutional stem (Singh et al. 2023)",
      mean=(0.0, 0.0, 0.0),
      std=(1.0, 1.0, 1.0),
      interpolation="bicubic",
    )
  )

# Depths and widths of V2, table 11 of its paper.
_V2: dict[str, tuple[Any, ...]] = {
  "atto": ((2, 2, 6, 2), (40, 80, 160, 320)),
  "femto": ((2, 2, 6, 2), (48, 96, 192, 384)),
  "pico": ((2, 2, 6, 2), (64, 128, 256, 512)),
  "nano": ((2, 2, 8, 2), (80, 160, 320, 640)),
  "tiny": _SIZES["tiny"][:2],
  "base": _SIZES["base"][:2],
  "large": _SIZES["large"][:2],
}

for _size, _sizes in _V2.items():
  MODELS.register(f"convnextv2_{_size}")(
    imagenet_spec(
      functools.partial(ConvNeXt, *_sizes, responses=True),
      f"ConvNeXt V2-{_size} (Woo et al. 2023)",
      f"timm:convnextv2_{_size}",
      interpolation="bicubic",
    )
  )
