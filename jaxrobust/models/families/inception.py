"""Inception-v3 (Szegedy et al. 2016, arXiv:1512.00567) with torchvision's and timm's names.

The auxiliary head, used only in training by its authors, is left out. The CIFAR form (huyvnphan/PyTorch_CIFAR10)
replaces the stem by one 3×3 convolution of 192 channels.
"""

from __future__ import annotations

import functools

import jax.numpy as jnp
from flax import linen as nn

from jaxrobust.core.types import Array
from jaxrobust.models.layers.basic import ConvNorm, Pair, avg_pool, dropout, global_pool, max_pool
from jaxrobust.models.registry import INCEPTION_MEAN, INCEPTION_STD, MODELS, cifar_spec, imagenet_spec

# Name, channels, kernel, stride; kernels are padded by half unless they have a stride.
Layer = tuple[str, int, Pair, int]


def _conv(x: Array, train: bool, layer: Layer) -> Array:
  name, features, size, stride = layer
  padding = 0 if stride > 1 else None
  return nn.relu(ConvNorm(features, size, stride, padding, epsilon=1e-3, name=name)(x, train))


class Mixed(nn.Module):
  """Parallel branches, concatenated.

  Attributes:
    branches: chains of layers; a tuple in place of the last layer splits the branch in two.
    pool: channels after average pooling; 0 for plain max pooling with stride 2.
  """

  branches: tuple[tuple, ...]
  pool: int = 0

  @nn.compact
  def __call__(self, x: Array, train: bool = False) -> Array:
    outputs = []
    for branch in self.branches:
      y = x
      for layer in branch:
        if isinstance(layer[0], str):
          y = _conv(y, train, layer)
        else:
          y = jnp.concatenate([_conv(y, train, half) for half in layer], axis=-1)
      outputs.append(y)
    if self.pool:
      outputs.append(_conv(avg_pool(x, 3, 1, 1), train, ("branch_pool", self.pool, 1, 1)))
    else:
      outputs.append(max_pool(x, 3, 2))
    return jnp.concatenate(outputs, axis=-1)


def _chain(prefix: str, *layers: tuple[int, Pair, int]) -> tuple[Layer, ...]:
  """Applies layers called PREFIX_1, PREFIX_2, …"""
  return tuple((f"{prefix}__{number}", *layer) for number, layer in enumerate(layers, 1))


_ROW, _COLUMN = (1, 7), (7, 1)


def _a(pool: int) -> Mixed:
  double = _chain("branch3x3dbl", (64, 1, 1), (96, 3, 1), (96, 3, 1))
  return Mixed(((("branch1x1", 64, 1, 1),), _chain("branch5x5", (48, 1, 1), (64, 5, 1)), double), pool)


def _b() -> Mixed:
  double = _chain("branch3x3dbl", (64, 1, 1), (96, 3, 1), (96, 3, 2))
  return Mixed(((("branch3x3", 384, 3, 2),), double))


def _c(width: int) -> Mixed:
  single = _chain("branch7x7", (width, 1, 1), (width, _ROW, 1), (192, _COLUMN, 1))
  rest = ((width, _COLUMN, 1), (width, _ROW, 1), (width, _COLUMN, 1), (192, _ROW, 1))
  double = _chain("branch7x7dbl", (width, 1, 1), *rest)
  return Mixed(((("branch1x1", 192, 1, 1),), single, double), 192)


def _d() -> Mixed:
  long = _chain("branch7x7x3", (192, 1, 1), (192, _ROW, 1), (192, _COLUMN, 1), (192, 3, 2))
  return Mixed((_chain("branch3x3", (192, 1, 1), (320, 3, 2)), long))


def _e() -> Mixed:
  halves = lambda prefix: ((f"{prefix}a", 384, (1, 3), 1), (f"{prefix}b", 384, (3, 1), 1))
  single = (*_chain("branch3x3", (384, 1, 1)), halves("branch3x3_2"))
  double = (*_chain("branch3x3dbl", (448, 1, 1), (384, 3, 1)), halves("branch3x3dbl_3"))
  return Mixed(((("branch1x1", 320, 1, 1),), single, double), 192)


_BLOCKS = {
  "Mixed_5b": _a(32),
  "Mixed_5c": _a(64),
  "Mixed_5d": _a(64),
  "Mixed_6a": _b(),
  "Mixed_6b": _c(128),
  "Mixed_6c": _c(160),
  "Mixed_6d": _c(160),
  "Mixed_6e": _c(192),
  "Mixed_7a": _d(),
  "Mixed_7b": _e(),
  "Mixed_7c": _e(),
}


class InceptionV3(nn.Module):
  """Inception-v3 without its auxiliary head."""

  cifar: bool = False
  num_classes: int = 1000
  drop_rate: float = 0.0

  @nn.compact
  def __call__(self, x: Array, train: bool = False) -> Array:
    if self.cifar:
      x = _conv(x, train, ("Conv2d_1a_3x3", 192, 3, 1))
    else:
      x = _conv(x, train, ("Conv2d_1a_3x3", 32, 3, 2))
      x = nn.relu(ConvNorm(32, 3, 1, 0, epsilon=1e-3, name="Conv2d_2a_3x3")(x, train))
      x = max_pool(_conv(x, train, ("Conv2d_2b_3x3", 64, 3, 1)), 3, 2)
      x = _conv(x, train, ("Conv2d_3b_1x1", 80, 1, 1))
      x = max_pool(nn.relu(ConvNorm(192, 3, 1, 0, epsilon=1e-3, name="Conv2d_4a_3x3")(x, train)), 3, 2)
    for name, block in _BLOCKS.items():
      x = Mixed(block.branches, block.pool, name=name)(x, train)
    return nn.Dense(self.num_classes, name="fc")(dropout(global_pool(x), self.drop_rate, train))


MODELS.register("inception_v3")(
  imagenet_spec(
    InceptionV3,
    "Inception-v3",
    "timm:inception_v3",
    size=299,
    mean=INCEPTION_MEAN,
    std=INCEPTION_STD,
    interpolation="bicubic",
  )
)
MODELS.register("cifar-inception_v3")(
  cifar_spec(functools.partial(InceptionV3, True), "Inception-v3 with a 3×3 stem for 32 pixels (PyTorch_CIFAR10)")
)
