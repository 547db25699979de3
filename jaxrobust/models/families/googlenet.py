"""GoogLeNet (Szegedy et al. 2015, arXiv:1409.4842), with batch normalization.

The ImageNet network has torchvision's names, its 3×3 kernels in place of 5×5, and its pooling by rounding up; the
auxiliary heads, which only training uses, are left out. The CIFAR network follows kuangliu/pytorch-cifar: a 3×3 stem,
two 3×3 convolutions in place of a 5×5, biases before batch normalization.
"""

from __future__ import annotations

import functools

import jax.numpy as jnp
from flax import linen as nn

from jaxrobust.core.types import Array
from jaxrobust.models.layers.basic import ConvNorm, conv_norm, dropout, global_pool, max_pool
from jaxrobust.models.registry import MODELS, cifar_spec, imagenet_spec

# Channels of the branches (1×1; reduced, 3×3; reduced, 5×5; pooled): table 1 of the paper.
STAGES = (
  ((64, 96, 128, 16, 32, 32), (128, 128, 192, 32, 96, 64)),
  (
    (192, 96, 208, 16, 48, 64),
    (160, 112, 224, 24, 64, 64),
    (128, 128, 256, 24, 64, 64),
    (112, 144, 288, 32, 64, 64),
    (256, 160, 320, 32, 128, 128),
  ),
  ((256, 160, 320, 32, 128, 128), (384, 192, 384, 48, 128, 128)),
)


class Inception(nn.Module):
  """Four branches with torchvision's names."""

  widths: tuple[int, ...]

  @nn.compact
  def __call__(self, x: Array, train: bool = False) -> Array:
    conv = lambda y, name, features, size=1: nn.relu(ConvNorm(features, size, epsilon=1e-3, name=name)(y, train))
    one, reduced3, three, reduced5, five, pooled = self.widths
    outputs = [
      conv(x, "branch1", one),
      conv(conv(x, "branch2_0", reduced3), "branch2_1", three, 3),
      conv(conv(x, "branch3_0", reduced5), "branch3_1", five, 3),
      conv(max_pool(x, 3, 1, 1), "branch4_1", pooled),
    ]
    return jnp.concatenate(outputs, axis=-1)


class GoogLeNet(nn.Module):
  """The ImageNet network."""

  num_classes: int = 1000
  drop_rate: float = 0.2

  @nn.compact
  def __call__(self, x: Array, train: bool = False) -> Array:
    conv = lambda y, name, features, size, stride=1: nn.relu(
      ConvNorm(features, size, stride, epsilon=1e-3, name=name)(y, train)
    )
    x = max_pool(conv(x, "conv1", 64, 7, 2), 3, 2, ceil_mode=True)
    x = conv(conv(x, "conv2", 64, 1), "conv3", 192, 3)
    for stage, rows in enumerate(STAGES, 3):
      # The last pooling has a smaller window in the reference, and no pooling follows the last stage.
      x = max_pool(x, 3 if stage < 5 else 2, 2, ceil_mode=True)
      for letter, widths in zip("abcde", rows, strict=False):
        x = Inception(widths, name=f"inception{stage}{letter}")(x, train)
    return nn.Dense(self.num_classes, name="fc")(dropout(global_pool(x), self.drop_rate, train))


class InceptionCIFAR(nn.Module):
  """Four branches with the layers and names of pytorch-cifar."""

  widths: tuple[int, ...]

  @nn.compact
  def __call__(self, x: Array, train: bool = False) -> Array:
    conv = lambda y, branch, number, features, size=1: nn.relu(
      conv_norm(y, train, (f"{branch}.{number}", f"{branch}.{number + 1}"), features, size, use_bias=True)
    )
    one, reduced3, three, reduced5, five, pooled = self.widths
    double = conv(conv(x, "b3", 0, reduced5), "b3", 3, five, 3)
    outputs = [
      conv(x, "b1", 0, one),
      conv(conv(x, "b2", 0, reduced3), "b2", 3, three, 3),
      conv(double, "b3", 6, five, 3),
      conv(max_pool(x, 3, 1, 1), "b4", 1, pooled),
    ]
    return jnp.concatenate(outputs, axis=-1)


class GoogLeNetCIFAR(nn.Module):
  """The CIFAR network."""

  num_classes: int = 10

  @nn.compact
  def __call__(self, x: Array, train: bool = False) -> Array:
    x = nn.relu(conv_norm(x, train, ("pre_layers_0", "pre_layers_1"), 192, 3, use_bias=True))
    for stage, rows in enumerate(STAGES, 3):
      x = max_pool(x, 3, 2, 1) if stage > 3 else x
      for letter, widths in zip("abcde", rows, strict=False):
        x = InceptionCIFAR(widths, name=f"{letter}{stage}")(x, train)
    return nn.Dense(self.num_classes, name="linear")(global_pool(x))


MODELS.register("googlenet")(imagenet_spec(GoogLeNet, "GoogLeNet with batch norm", "torchvision:googlenet"))
MODELS.register("cifar-googlenet")(
  cifar_spec(functools.partial(GoogLeNetCIFAR), "GoogLeNet with a 3×3 stem for 32 pixels (pytorch-cifar)")
)
