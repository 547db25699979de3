"""Deep layer aggregation (Yu et al. 2018, arXiv:1707.06484) for CIFAR, as in kuangliu/pytorch-cifar."""

from __future__ import annotations

import jax.numpy as jnp
from flax import linen as nn

from jaxrobust.core.types import Array
from jaxrobust.models.families.resnet import ResidualBlock
from jaxrobust.models.layers.basic import ConvNorm, conv_norm, global_pool
from jaxrobust.models.registry import MODELS, cifar_spec


class Tree(nn.Module):
  """Aggregates the blocks of a binary tree by one 1×1 convolution."""

  features: int
  level: int = 1
  stride: int = 1

  @nn.compact
  def __call__(self, x: Array, train: bool = False) -> Array:
    block = lambda name, stride=1: ResidualBlock(self.features, stride, shortcut="shortcut", name=name)
    outputs, stride = [], self.stride
    if self.level > 1:
      outputs.append(block("prev_root", self.stride)(x, train))
    for level in reversed(range(1, self.level)):
      x = Tree(self.features, level, stride, name=f"level__{level}")(x, train)
      outputs.append(x)
      stride = 1
    x = block("left_node", stride)(x, train)
    y = block("right_node")(x, train)
    joined = jnp.concatenate([*outputs, x, y], axis=-1)
    return nn.relu(ConvNorm(self.features, name="root")(joined, train))


class DLA(nn.Module):
  """Three plain convolutions and four trees."""

  num_classes: int = 10

  @nn.compact
  def __call__(self, x: Array, train: bool = False) -> Array:
    for name, features in (("base", 16), ("layer1", 16), ("layer2", 32)):
      x = nn.relu(conv_norm(x, train, (f"{name}_0", f"{name}_1"), features, 3))
    for number, (features, level, stride) in enumerate(((64, 1, 1), (128, 2, 2), (256, 2, 2), (512, 1, 2)), 3):
      x = Tree(features, level, stride, name=f"layer{number}")(x, train)
    return nn.Dense(self.num_classes, name="linear")(global_pool(x))


MODELS.register("cifar-dla")(cifar_spec(DLA, "deep layer aggregation for 32 pixels (pytorch-cifar)"))
