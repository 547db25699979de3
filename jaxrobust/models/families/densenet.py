"""DenseNet (Huang et al. 2017, arXiv:1608.06993): every layer sees the features of all layers before it in its block.

ImageNet networks have torchvision's names and order of concatenation; the CIFAR one follows kuangliu/pytorch-cifar,
which puts new features first.
"""

from __future__ import annotations

import functools

import jax.numpy as jnp
from flax import linen as nn

from jaxrobust.core.types import Array
from jaxrobust.models.layers.basic import avg_pool, batch_norm, conv_norm, global_pool, max_pool
from jaxrobust.models.layers.conv import Conv
from jaxrobust.models.registry import MODELS, cifar_spec, imagenet_spec


class DenseLayer(nn.Module):
  """New features from all features so far, through a bottleneck four times their number."""

  growth: int
  norm: str = "norm"

  @nn.compact
  def __call__(self, x: Array, train: bool = False) -> Array:
    y = nn.relu(batch_norm(train, f"{self.norm}1")(x))
    y = Conv(4 * self.growth, 1, use_bias=False, name="conv1")(y)
    y = nn.relu(batch_norm(train, f"{self.norm}2")(y))
    return Conv(self.growth, 3, 1, 1, use_bias=False, name="conv2")(y)


class Transition(nn.Module):
  """Halves channels and sides."""

  norm: str = "norm"

  @nn.compact
  def __call__(self, x: Array, train: bool = False) -> Array:
    y = nn.relu(batch_norm(train, self.norm)(x))
    return avg_pool(Conv(x.shape[-1] // 2, 1, use_bias=False, name="conv")(y), 2, 2)


class DenseNet(nn.Module):
  """Four dense blocks with transitions between them."""

  depths: tuple[int, ...]
  growth: int = 32
  num_classes: int = 1000

  @nn.compact
  def __call__(self, x: Array, train: bool = False) -> Array:
    x = nn.relu(conv_norm(x, train, ("features.conv0", "features.norm0"), 2 * self.growth, 7, 2))
    x = max_pool(x, 3, 2, 1)
    for block, depth in enumerate(self.depths, 1):
      for layer in range(1, depth + 1):
        name = f"features.denseblock{block}.denselayer{layer}"
        x = jnp.concatenate([x, DenseLayer(self.growth, name=name)(x, train)], axis=-1)
      if block < len(self.depths):
        x = Transition(name=f"features.transition{block}")(x, train)
    x = nn.relu(batch_norm(train, "features.norm5")(x))
    return nn.Dense(self.num_classes, name="classifier")(global_pool(x))


class DenseNetCIFAR(nn.Module):
  """The same with a 3×3 stem."""

  depths: tuple[int, ...]
  growth: int = 32
  num_classes: int = 10

  @nn.compact
  def __call__(self, x: Array, train: bool = False) -> Array:
    x = Conv(2 * self.growth, 3, 1, 1, use_bias=False, name="conv1")(x)
    for block, depth in enumerate(self.depths, 1):
      for layer in range(depth):
        new = DenseLayer(self.growth, "bn", name=f"dense{block}.{layer}")(x, train)
        x = jnp.concatenate([new, x], axis=-1)
      if block < len(self.depths):
        x = Transition("bn", name=f"trans{block}")(x, train)
    return nn.Dense(self.num_classes, name="linear")(global_pool(nn.relu(batch_norm(train, "bn")(x))))


for _name, _depths, _growth in (
  ("densenet121", (6, 12, 24, 16), 32),
  ("densenet161", (6, 12, 36, 24), 48),
  ("densenet169", (6, 12, 32, 32), 32),
  ("densenet201", (6, 12, 48, 32), 32),
):
  _build = functools.partial(DenseNet, _depths, _growth)
  _text = f"DenseNet-{_name.removeprefix('densenet')}, growth {_growth}"
  MODELS.register(_name)(imagenet_spec(_build, _text, f"timm:{_name}", interpolation="bicubic"))

MODELS.register("cifar-densenet121")(
  cifar_spec(functools.partial(DenseNetCIFAR, (6, 12, 24, 16)), "DenseNet-121 with a 3×3 stem (pytorch-cifar)")
)
