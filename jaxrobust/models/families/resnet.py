"""Residual networks for ImageNet and, with another stem, for CIFAR.

ResNet (He et al. 2016, arXiv:1512.03385), with the stride of a bottleneck on its 3×3 convolution as in timm and
torchvision; ResNeXt (arXiv:1611.05431); wide ResNet (arXiv:1605.07146); ResNet-D (arXiv:1812.01187), with three 3×3
convolutions as its stem and shortcuts that average before they project. The `cifar-` networks follow
kuangliu/pytorch-cifar: a 3×3 stem without pooling, first stage at 32 pixels.
"""

from __future__ import annotations

import functools
from typing import ClassVar

from flax import linen as nn

from jaxrobust.core.types import Array
from jaxrobust.models.layers.basic import batch_norm, gelu, global_pool, max_pool
from jaxrobust.models.layers.conv import Conv
from jaxrobust.models.registry import MODELS, cifar_spec, imagenet_spec


class ResidualBlock(nn.Module):
  """Two 3×3 convolutions, or a bottleneck of 1×1, 3×3 and 1×1, beside a shortcut.

  Attributes:
    features: width before the expansion.
    stride: of the first 3×3 convolution.
    bottleneck: three convolutions, the last four times as wide, instead of two.
    groups, base_width: cardinality, and the width of a group where features is 64.
    shortcut: name of the projection ("downsample" or "shortcut").
    smooth: GELU instead of ReLU, throughout.
    averaged: the shortcut takes the mean of 2×2 pixels instead of one of them.
  """

  features: int
  stride: int = 1
  bottleneck: bool = False
  groups: int = 1
  base_width: int = 64
  shortcut: str = "downsample"
  smooth: bool = False
  averaged: bool = False

  @nn.compact
  def __call__(self, x: Array, train: bool = False) -> Array:
    out = self.features * (4 if self.bottleneck else 1)
    width = self.features * self.base_width // 64 * self.groups
    sizes = [(out, 3, self.stride, 1), (out, 3, 1, 1)]
    if self.bottleneck:
      sizes = [(width, 1, 1, 1), (width, 3, self.stride, self.groups), (out, 1, 1, 1)]
    y, act = x, gelu if self.smooth else nn.relu
    for index, (features, size, stride, groups) in enumerate(sizes, 1):
      y = Conv(features, size, stride, size // 2, groups=groups, use_bias=False, name=f"conv{index}")(y)
      y = batch_norm(train, f"bn{index}")(y)
      y = act(y) if index < len(sizes) else y
    if self.stride != 1 or x.shape[-1] != out:
      x = nn.avg_pool(x, (2, 2), (2, 2)) if self.averaged and self.stride > 1 else x
      stride, first = (1, 1) if self.averaged else (self.stride, 0)
      x = Conv(out, 1, stride, use_bias=False, name=f"{self.shortcut}_{first}")(x)
      x = batch_norm(train, f"{self.shortcut}_{first + 1}")(x)
    return act(y + x)


class ResNet(nn.Module):
  """Four stages of blocks; `cifar` takes the stem and the names of pytorch-cifar, `smooth` has GELU instead of ReLU.

  `deep` has the stem and the shortcuts of ResNet-D.
  """

  depths: tuple[int, ...]
  bottleneck: bool = True
  groups: int = 1
  base_width: int = 64
  cifar: bool = False
  num_classes: int = 1000
  smooth: bool = False
  deep: bool = False
  sows_stages: ClassVar[bool] = True

  @nn.compact
  def __call__(self, x: Array, train: bool = False) -> Array:
    if self.deep:
      for index, stride in ((0, 2), (3, 1)):
        x = Conv(32, 3, stride, 1, use_bias=False, name=f"conv1.{index}")(x)
        x = nn.relu(batch_norm(train, f"conv1.{index + 1}")(x))
    size, stride, name = (3, 1, "conv1.6") if self.deep else (3, 1, "conv1") if self.cifar else (7, 2, "conv1")
    x = Conv(64, size, stride, size // 2, use_bias=False, name=name)(x)
    x = (gelu if self.smooth else nn.relu)(batch_norm(train, "bn1")(x))
    if not self.cifar:
      x = max_pool(x, 3, 2, 1)
    shortcut = "shortcut" if self.cifar else "downsample"
    for stage, depth in enumerate(self.depths):
      for index in range(depth):
        stride = 2 if stage > 0 and index == 0 else 1
        sizes = (64 * 2**stage, stride, self.bottleneck, self.groups, self.base_width, shortcut, self.smooth, self.deep)
        x = ResidualBlock(*sizes, name=f"layer{stage + 1}_{index}")(x, train)
      self.sow("intermediates", "stages", x)
    return nn.Dense(self.num_classes, name="linear" if self.cifar else "fc")(global_pool(x))


# Name, blocks per stage, bottleneck, groups, width of a group.
_SIZES = (
  ("resnet18", (2, 2, 2, 2), False, 1, 64),
  ("resnet34", (3, 4, 6, 3), False, 1, 64),
  ("resnet50", (3, 4, 6, 3), True, 1, 64),
  ("resnet101", (3, 4, 23, 3), True, 1, 64),
  ("resnet152", (3, 8, 36, 3), True, 1, 64),
  ("resnext50_32x4d", (3, 4, 6, 3), True, 32, 4),
  ("resnext101_32x8d", (3, 4, 23, 3), True, 32, 8),
  ("wide_resnet50_2", (3, 4, 6, 3), True, 1, 128),
  ("wide_resnet101_2", (3, 4, 23, 3), True, 1, 128),
)

for _name, *_options in _SIZES:
  _build = functools.partial(ResNet, *_options)
  MODELS.register(_name)(imagenet_spec(_build, f"{_name}, stride on the 3×3 convolution", f"timm:{_name}"))
  if _name in ("resnet50", "resnet152", "wide_resnet50_2"):
    # ARES-Bench trained two of its networks so; their tensors have the names of the others'.
    MODELS.register(f"{_name}_gelu")(
      imagenet_spec(functools.partial(_build, smooth=True), f"{_name} with GELU (ARES-Bench, Liu et al. 2023)")
    )
  if _name.startswith("resnet"):
    MODELS.register(f"cifar-{_name}")(
      cifar_spec(functools.partial(_build, cifar=True), f"{_name} with a 3×3 stem for 32 pixels (pytorch-cifar)")
    )

for _name, _depths, _bottleneck in (
  ("resnet18d", (2, 2, 2, 2), False),
  ("resnet34d", (3, 4, 6, 3), False),
  ("resnet50d", (3, 4, 6, 3), True),
  ("resnet101d", (3, 4, 23, 3), True),
):
  MODELS.register(_name)(
    imagenet_spec(
      functools.partial(ResNet, _depths, _bottleneck, deep=True),
      f"{_name[:-1]}, variant D (He et al. 2019)",
      f"timm:{_name}",
      interpolation="bicubic",
    )
  )
