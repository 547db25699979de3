"""Small convolutional networks without batch normalization, as used in certified and adversarial training.

CNN-A (Wong and Kolter 2018, arXiv:1711.00851, "small"): two 4×4 convolutions of stride 2, two dense layers; their
certified networks `kw-base` and `kw-wide` have the same form. ResNet-2B and ResNet-4B (VNN-COMP 2021,
arXiv:2109.00498): a strided stem, one or two stages of two blocks with biases, two dense layers. `convnet5` is the
five-layer CNN of DeepDefense (Yan et al. 2018, arXiv:1803.00404), which ARES evaluates.
"""

from __future__ import annotations

import functools
from typing import ClassVar

from flax import linen as nn

from jaxrobust.core.types import Array
from jaxrobust.models.layers.basic import avg_pool, flatten, max_pool
from jaxrobust.models.layers.conv import Conv
from jaxrobust.models.registry import IMAGENET_MEAN, MODELS, ModelSpec, cifar_spec


class CNN(nn.Module):
  """Strided 4×4 convolutions, then one hidden dense layer.

  Features are flattened channels first, the order in which published PyTorch weights expect them.
  """

  num_classes: int = 10
  features: tuple[int, ...] = (16, 32)
  hidden: int = 100
  sows_stages: ClassVar[bool] = True

  @nn.compact
  def __call__(self, x: Array, train: bool = False) -> Array:
    del train
    for index, features in enumerate(self.features):
      x = nn.relu(Conv(features, 4, 2, 1, name=f"conv{index + 1}")(x))
      self.sow("intermediates", "stages", x)
    x = nn.relu(nn.Dense(self.hidden, name="fc1")(flatten(x)))
    return nn.Dense(self.num_classes, name="fc2")(x)


class BiasedBlock(nn.Module):
  """Two 3×3 convolutions with biases and a 1×1 shortcut where the shape changes."""

  features: int
  stride: int = 1

  @nn.compact
  def __call__(self, x: Array) -> Array:
    y = nn.relu(Conv(self.features, 3, self.stride, 1, name="conv1")(x))
    y = Conv(self.features, 3, 1, 1, name="conv2")(y)
    if self.stride != 1 or x.shape[-1] != self.features:
      x = Conv(self.features, 1, self.stride, name="shortcut_0")(x)
    return nn.relu(x + y)


class ResNetB(nn.Module):
  """`stages` of two blocks after a strided stem of `features` channels."""

  features: int = 8
  stages: int = 1
  num_classes: int = 10
  sows_stages: ClassVar[bool] = True

  @nn.compact
  def __call__(self, x: Array, train: bool = False) -> Array:
    del train
    x = nn.relu(Conv(self.features, 3, 2, 1, name="conv1")(x))
    for stage in range(1, self.stages + 1):
      for block, stride in enumerate((2, 1)):
        x = BiasedBlock(2 * self.features, stride, name=f"layer{stage}_{block}")(x)
      self.sow("intermediates", "stages", x)
    x = nn.relu(nn.Dense(100, name="linear1")(flatten(x)))
    return nn.Dense(self.num_classes, name="linear2")(x)


class ConvNet5(nn.Module):
  """Five convolutions with pooling between; the first pooling comes before its ReLU."""

  num_classes: int = 10

  @nn.compact
  def __call__(self, x: Array, train: bool = False) -> Array:
    del train
    x = nn.relu(max_pool(Conv(32, 5, 1, 2, name="conv1")(x), 2, 2))
    x = avg_pool(nn.relu(Conv(32, 5, 1, 2, name="conv2")(x)), 2, 2)
    x = avg_pool(nn.relu(Conv(64, 5, 1, 2, name="conv3")(x)), 2, 2)
    x = nn.relu(Conv(64, 4, name="conv4")(x))
    return Conv(self.num_classes, 1, name="conv5")(x)[:, 0, 0]


_CIFAR_MEAN, _CIFAR_STD = (125.3 / 255, 123.0 / 255, 113.9 / 255), (63.0 / 255, 62.1 / 255, 66.7 / 255)

MODELS.register("cnn-a")(
  ModelSpec(CNN, (32, 32, 3), _CIFAR_MEAN, _CIFAR_STD, "CNN-A: 16 and 32 channels, hidden 100 (Wong and Kolter 2018)")
)
MODELS.register("cnn-tiny")(
  ModelSpec(
    functools.partial(CNN, features=(8, 16, 32), hidden=64),
    (32, 32, 3),
    (0.5, 0.5, 0.5),
    (0.5, 0.5, 0.5),
    "three small convolutions, for the embedded digits and for tests",
  )
)
for _name, _features in (("kw-base", (8, 16)), ("kw-wide", (16, 32))):
  MODELS.register(_name)(
    cifar_spec(
      functools.partial(CNN, features=_features),
      f"CNN of {_features[0]} and {_features[1]} channels with certified training (Wong and Kolter 2018)",
      mean=IMAGENET_MEAN,
      std=(0.225, 0.225, 0.225),
    )
  )
MODELS.register("resnet2b")(cifar_spec(ResNetB, "ResNet-2B without batch norm (VNN-COMP 2021)"))
MODELS.register("resnet4b")(
  cifar_spec(functools.partial(ResNetB, 16, 2), "ResNet-4B without batch norm (VNN-COMP 2021)")
)
MODELS.register("convnet5")(cifar_spec(ConvNet5, "the five-layer CNN of DeepDefense (Yan et al. 2018)"))
