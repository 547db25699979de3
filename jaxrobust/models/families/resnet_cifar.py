"""The CIFAR ResNets of He et al. 2016 (arXiv:1512.03385 §4.2): 6n+2 layers of 16, 32 and 64 channels.

Shortcuts are option A (stride, then zero channels), so they hold no parameters.
"""

from __future__ import annotations

import functools
from typing import ClassVar

import jax.numpy as jnp
from flax import linen as nn

from jaxrobust.core.types import Array
from jaxrobust.models.layers.basic import batch_norm
from jaxrobust.models.layers.conv import Conv
from jaxrobust.models.registry import IMAGENET_MEAN, IMAGENET_STD, MODELS, ModelSpec


class BasicBlock(nn.Module):
  """Two 3×3 convolutions and a parameter-free shortcut."""

  features: int
  stride: int = 1

  @nn.compact
  def __call__(self, x: Array, train: bool = False) -> Array:
    y = Conv(self.features, 3, self.stride, 1, use_bias=False, name="conv1")(x)
    y = nn.relu(batch_norm(train, "bn1")(y))
    y = Conv(self.features, 3, 1, 1, use_bias=False, name="conv2")(y)
    y = batch_norm(train, "bn2")(y)
    extra = self.features - x.shape[-1]
    if self.stride != 1 or extra:
      x = jnp.pad(x[:, :: self.stride, :: self.stride], ((0, 0), (0, 0), (0, 0), (extra // 2, extra - extra // 2)))
    return nn.relu(y + x)


class ResNetCIFAR(nn.Module):
  """A CIFAR ResNet; `depth` is 6n + 2."""

  depth: int = 20
  num_classes: int = 10
  sows_stages: ClassVar[bool] = True

  @nn.compact
  def __call__(self, x: Array, train: bool = False) -> Array:
    x = Conv(16, 3, 1, 1, use_bias=False, name="conv1")(x)
    x = nn.relu(batch_norm(train, "bn1")(x))
    for stage, features in enumerate((16, 32, 64)):
      for block in range((self.depth - 2) // 6):
        stride = 2 if stage > 0 and block == 0 else 1
        x = BasicBlock(features, stride, name=f"layer{stage + 1}_{block}")(x, train)
      self.sow("intermediates", "stages", x)
    return nn.Dense(self.num_classes, name="linear")(jnp.mean(x, axis=(1, 2)))


for _depth in (20, 32, 44, 56, 110):
  MODELS.register(f"resnet{_depth}")(
    ModelSpec(
      functools.partial(ResNetCIFAR, _depth),
      (32, 32, 3),
      IMAGENET_MEAN,
      IMAGENET_STD,
      f"CIFAR ResNet-{_depth}, option-A shortcuts (He et al. 2016)",
    )
  )
