"""Wide residual networks for CIFAR (Zagoruyko and Komodakis 2016, arXiv:1605.07146) and pre-activation ResNets.

`wrn-D-W` has the layers and names of TRADES and RobustBench. `dm-wrn-D-W` has those of DeepMind's networks (Gowal et
al. 2020, arXiv:2010.03593): swish, and strided convolutions padded on the far side only, as TensorFlow does.
"""

from __future__ import annotations

import functools
from typing import ClassVar

import jax.numpy as jnp
from flax import linen as nn

from jaxrobust.core.types import Array
from jaxrobust.models.layers.basic import batch_norm, dropout, global_pool
from jaxrobust.models.layers.conv import Conv
from jaxrobust.models.registry import MODELS, cifar_spec


class WideBlock(nn.Module):
  """Pre-activation block; where the width changes, the shortcut starts from the activation.

  `deepmind` chooses names, activation and padding.
  """

  features: int
  stride: int = 1
  drop_rate: float = 0.0
  deepmind: bool = False

  @nn.compact
  def __call__(self, x: Array, train: bool = False) -> Array:
    activation = nn.swish if self.deepmind else nn.relu
    # PyTorch names that end in _0 and _1 are written with two underscores.
    norms = ("batchnorm__0", "batchnorm__1") if self.deepmind else ("bn1", "bn2")
    convs = ("conv__0", "conv__1", "shortcut") if self.deepmind else ("conv1", "conv2", "convShortcut")
    padding = ((0, 1), (0, 1)) if self.deepmind and self.stride == 2 else 1
    active = activation(batch_norm(train, norms[0])(x))
    y = Conv(self.features, 3, self.stride, padding, use_bias=False, name=convs[0])(active)
    y = dropout(activation(batch_norm(train, norms[1])(y)), self.drop_rate, train)
    y = Conv(self.features, 3, 1, 1, use_bias=False, name=convs[1])(y)
    if x.shape[-1] != self.features:
      x = Conv(self.features, 1, self.stride, use_bias=False, name=convs[2])(active)
    return x + y


class WideResNet(nn.Module):
  """Three stages of (depth - 4) / 6 blocks with 16, 32 and 64 times `width` channels."""

  depth: int = 28
  width: int = 10
  deepmind: bool = False
  num_classes: int = 10
  drop_rate: float = 0.0
  sows_stages: ClassVar[bool] = True

  @nn.compact
  def __call__(self, x: Array, train: bool = False) -> Array:
    x = Conv(16, 3, 1, 1, use_bias=False, name="init_conv" if self.deepmind else "conv1")(x)
    for stage in range(3):
      for block in range((self.depth - 4) // 6):
        name = f"layer.{stage}.block.{block}" if self.deepmind else f"block{stage + 1}.layer.{block}"
        stride = 2 if stage > 0 and block == 0 else 1
        x = WideBlock(16 * 2**stage * self.width, stride, self.drop_rate, self.deepmind, name=name)(x, train)
      self.sow("intermediates", "stages", x)
    activation, norm, head = (nn.swish, "batchnorm", "logits") if self.deepmind else (nn.relu, "bn1", "fc")
    x = activation(batch_norm(train, norm)(x))
    return nn.Dense(self.num_classes, name=head)(global_pool(x))


class PreActBlock(nn.Module):
  """Pre-activation residual block, optionally with squeeze and excitation (arXiv:1709.01507)."""

  features: int
  stride: int = 1
  squeeze: bool = False
  shortcut_after: bool = True

  @nn.compact
  def __call__(self, x: Array, train: bool = False) -> Array:
    active = nn.relu(batch_norm(train, "bn1")(x))
    y = Conv(self.features, 3, self.stride, 1, use_bias=False, name="conv1")(active)
    y = nn.relu(batch_norm(train, "bn2")(y))
    y = Conv(self.features, 3, 1, 1, use_bias=False, name="conv2")(y)
    if self.squeeze:
      weights = jnp.mean(y, axis=(1, 2), keepdims=True)
      weights = nn.relu(Conv(self.features // 16, 1, name="fc1")(weights))
      y = y * nn.sigmoid(Conv(self.features, 1, name="fc2")(weights))
    if self.stride != 1 or x.shape[-1] != self.features:
      start = active if self.shortcut_after else x
      x = Conv(self.features, 1, self.stride, use_bias=False, name="shortcut_0")(start)
    return x + y


class PreActResNet(nn.Module):
  """Pre-activation ResNet (He et al. 2016, arXiv:1603.05027) and SENet as in kuangliu/pytorch-cifar.

  Attributes:
    depths: blocks per stage.
    squeeze: squeeze and excitation, and a batch norm after the stem: SENet.
    final_norm: batch norm and ReLU before pooling, as in Rice et al. 2020 and RobustBench's `bn_before_fc`.
    shortcut_after: projections start after the first activation; RobustBench's `out_shortcut`.
  """

  depths: tuple[int, ...] = (2, 2, 2, 2)
  squeeze: bool = False
  final_norm: bool = False
  shortcut_after: bool = True
  num_classes: int = 10
  sows_stages: ClassVar[bool] = True

  @nn.compact
  def __call__(self, x: Array, train: bool = False) -> Array:
    x = Conv(64, 3, 1, 1, use_bias=False, name="conv1")(x)
    if self.squeeze:
      x = nn.relu(batch_norm(train, "bn1")(x))
    for stage, depth in enumerate(self.depths):
      for block in range(depth):
        sizes = (64 * 2**stage, 2 if stage > 0 and block == 0 else 1, self.squeeze, self.shortcut_after)
        x = PreActBlock(*sizes, name=f"layer{stage + 1}_{block}")(x, train)
      self.sow("intermediates", "stages", x)
    if self.final_norm:
      x = nn.relu(batch_norm(train, "bn")(x))
    return nn.Dense(self.num_classes, name="linear")(global_pool(x))


for _depth, _width in ((28, 4), (28, 10), (34, 10), (34, 20), (70, 16), (106, 16)):
  MODELS.register(f"wrn-{_depth}-{_width}")(
    cifar_spec(
      functools.partial(WideResNet, _depth, _width),
      f"wide ResNet-{_depth}-{_width} (RobustBench's layers, no normalization)",
      mean=(0.0, 0.0, 0.0),
      std=(1.0, 1.0, 1.0),
    )
  )
  MODELS.register(f"dm-wrn-{_depth}-{_width}")(
    cifar_spec(
      functools.partial(WideResNet, _depth, _width, True),
      f"wide ResNet-{_depth}-{_width} with swish (DeepMind's layers)",
    )
  )
MODELS.register("preactresnet18")(cifar_spec(PreActResNet, "pre-activation ResNet-18 (pytorch-cifar)"))
MODELS.register("cifar-senet18")(
  cifar_spec(functools.partial(PreActResNet, squeeze=True), "pre-activation SENet-18 (pytorch-cifar)")
)
