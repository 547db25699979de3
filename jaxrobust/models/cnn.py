"""Small convolutional networks without batch normalisation, as used in certified and adversarial training.

CNN-A (Wong and Kolter 2018, arXiv:1711.00851, "small"): two 4×4 convolutions of stride 2, two dense layers.
"""

from __future__ import annotations

import functools

from flax import linen as nn

from jaxrobust.core.types import Array
from jaxrobust.models.conv import Conv
from jaxrobust.models.registry import MODELS, ModelSpec


class CNN(nn.Module):
  """Strided 4×4 convolutions, then one hidden dense layer.

  Features are flattened channels first, the order in which published PyTorch weights expect them.
  """

  num_classes: int = 10
  features: tuple[int, ...] = (16, 32)
  hidden: int = 100

  @nn.compact
  def __call__(self, x: Array, train: bool = False) -> Array:
    del train
    for index, features in enumerate(self.features):
      x = nn.relu(Conv(features, 4, 2, 1, name=f"conv{index + 1}")(x))
    x = x.transpose(0, 3, 1, 2).reshape(x.shape[0], -1)
    x = nn.relu(nn.Dense(self.hidden, name="fc1")(x))
    return nn.Dense(self.num_classes, name="fc2")(x)


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
