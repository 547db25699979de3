"""ResNeXt-29, MobileNetV2 and EfficientNet-B0 for CIFAR, with the layers and names of kuangliu/pytorch-cifar.

ResNeXt: arXiv:1611.05431 (three stages, 1×1 stem, expansion 2); MobileNetV2: arXiv:1801.04381 (ReLU, 1×1 shortcuts
where widths differ); EfficientNet: arXiv:1905.11946 (no head convolution; the first block holds an expansion that is
never applied, in its checkpoints and so in ours).
"""

from __future__ import annotations

import functools

import jax.numpy as jnp
from flax import linen as nn

from jaxrobust.core.types import Array
from jaxrobust.models.families.efficientnet import EFFICIENTNET
from jaxrobust.models.layers.basic import DropPath, conv_norm, dropout, global_pool
from jaxrobust.models.layers.conv import Conv
from jaxrobust.models.registry import MODELS, cifar_spec


class GroupedBlock(nn.Module):
  """A bottleneck with grouped 3×3 convolution and expansion 2."""

  width: int
  groups: int
  stride: int

  @nn.compact
  def __call__(self, x: Array, train: bool = False) -> Array:
    y = nn.relu(conv_norm(x, train, ("conv1", "bn1"), self.width))
    y = nn.relu(conv_norm(y, train, ("conv2", "bn2"), self.width, 3, self.stride, groups=self.groups))
    y = conv_norm(y, train, ("conv3", "bn3"), 2 * self.width)
    if self.stride != 1 or x.shape[-1] != 2 * self.width:
      x = conv_norm(x, train, ("shortcut_0", "shortcut_1"), 2 * self.width, 1, self.stride)
    return nn.relu(x + y)


class ResNeXt29(nn.Module):
  """Three stages of three blocks."""

  groups: int
  base_width: int
  num_classes: int = 10

  @nn.compact
  def __call__(self, x: Array, train: bool = False) -> Array:
    x = nn.relu(conv_norm(x, train, ("conv1", "bn1"), 64))
    for stage in range(3):
      for block in range(3):
        stride = 2 if stage > 0 and block == 0 else 1
        width = self.groups * self.base_width * 2**stage
        x = GroupedBlock(width, self.groups, stride, name=f"layer{stage + 1}_{block}")(x, train)
    return nn.Dense(self.num_classes, name="linear")(global_pool(x))


class LinearBottleneck(nn.Module):
  """MobileNetV2's block with a projected shortcut."""

  features: int
  stride: int
  expand: int

  @nn.compact
  def __call__(self, x: Array, train: bool = False) -> Array:
    width = self.expand * x.shape[-1]
    y = nn.relu(conv_norm(x, train, ("conv1", "bn1"), width))
    y = nn.relu(conv_norm(y, train, ("conv2", "bn2"), width, 3, self.stride, groups=width))
    y = conv_norm(y, train, ("conv3", "bn3"), self.features)
    if self.stride != 1:
      return y
    if x.shape[-1] != self.features:
      x = conv_norm(x, train, ("shortcut_0", "shortcut_1"), self.features)
    return x + y


class MobileNetV2CIFAR(nn.Module):
  """Stem and second stage without stride."""

  num_classes: int = 10

  @nn.compact
  def __call__(self, x: Array, train: bool = False) -> Array:
    x = nn.relu(conv_norm(x, train, ("conv1", "bn1"), 32, 3))
    number = 0
    # Expansion, channels, blocks, stride.
    rows = ((1, 16, 1, 1), (6, 24, 2, 1), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
    for expand, features, blocks, stride in rows:
      for block in range(blocks):
        sizes = (features, stride if block == 0 else 1, expand)
        x = LinearBottleneck(*sizes, name=f"layers_{number}")(x, train)
        number += 1
    x = nn.relu(conv_norm(x, train, ("conv2", "bn2"), 1280))
    return nn.Dense(self.num_classes, name="linear")(global_pool(x))


class SwishBlock(nn.Module):
  """EfficientNet's block."""

  features: int
  kernel: int
  stride: int
  expand: int
  drop_path: float = 0.0

  @nn.compact
  def __call__(self, x: Array, train: bool = False) -> Array:
    width = self.expand * x.shape[-1]
    expanded = nn.swish(conv_norm(x, train, ("conv1", "bn1"), width))
    y = x if self.expand == 1 else expanded
    y = nn.swish(conv_norm(y, train, ("conv2", "bn2"), width, self.kernel, self.stride, groups=width))
    weights = jnp.mean(y, axis=(1, 2), keepdims=True)
    weights = nn.swish(Conv(x.shape[-1] // 4, 1, name="se.se1")(weights))
    y = y * nn.sigmoid(Conv(width, 1, name="se.se2")(weights))
    y = conv_norm(y, train, ("conv3", "bn3"), self.features)
    if self.stride == 1 and x.shape[-1] == self.features:
      y = x + DropPath(self.drop_path)(y, train)
    return y


class EfficientNetCIFAR(nn.Module):
  """EfficientNet-B0 with a stem without stride and no head."""

  num_classes: int = 10
  drop_rate: float = 0.2
  drop_path_rate: float = 0.0

  @nn.compact
  def __call__(self, x: Array, train: bool = False) -> Array:
    x = nn.swish(conv_norm(x, train, ("conv1", "bn1"), 32, 3))
    number, total = 0, sum(stage.repeats for stage in EFFICIENTNET)
    for stage in EFFICIENTNET:
      for block in range(stage.repeats):
        sizes = (stage.features, stage.kernel, stage.stride if block == 0 else 1, int(stage.expand))
        x = SwishBlock(*sizes, self.drop_path_rate * number / total, name=f"layers_{number}")(x, train)
        number += 1
    return nn.Dense(self.num_classes, name="linear")(dropout(global_pool(x), self.drop_rate, train))


for _groups, _width in ((2, 64), (4, 64), (8, 64), (32, 4)):
  MODELS.register(f"cifar-resnext29_{_groups}x{_width}d")(
    cifar_spec(functools.partial(ResNeXt29, _groups, _width), f"ResNeXt-29 {_groups}×{_width}d (pytorch-cifar)")
  )
MODELS.register("cifar-mobilenetv2")(cifar_spec(MobileNetV2CIFAR, "MobileNetV2 for 32 pixels (pytorch-cifar)"))
MODELS.register("cifar-efficientnet_b0")(cifar_spec(EfficientNetCIFAR, "EfficientNet-B0 for 32 pixels (pytorch-cifar)"))
