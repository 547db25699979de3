"""VGG (Simonyan and Zisserman 2015, arXiv:1409.1556) and AlexNet (Krizhevsky 2014, arXiv:1404.5997).

ImageNet networks have torchvision's names (layers numbered through) and take any image size through adaptive pooling.
The `cifar-` networks follow kuangliu/pytorch-cifar: five poolings take 32 pixels to one, a single dense layer follows.
`noise` turns a CIFAR VGG into random self-ensemble (RSE, Liu et al. 2018, arXiv:1712.00673): Gaussian noise of these
standard deviations before the first and before every other convolution, in training and in evaluation, drawn from the
rng collection "noise".
"""

from __future__ import annotations

import functools
from typing import ClassVar

import jax
from flax import linen as nn

from jaxrobust.core.types import Array
from jaxrobust.models.layers.basic import adaptive_avg_pool, batch_norm, dropout, flatten, max_pool
from jaxrobust.models.layers.conv import Conv
from jaxrobust.models.registry import IMAGENET_MEAN, IMAGENET_STD, MODELS, cifar_spec, imagenet_spec

# Convolutions per stage of 64, 128, 256, 512 and 512 channels (table 1 of the paper).
DEPTHS = {"vgg11": (1, 1, 2, 2, 2), "vgg13": (2, 2, 2, 2, 2), "vgg16": (2, 2, 3, 3, 3), "vgg19": (2, 2, 4, 4, 4)}


class VGG(nn.Module):
  """Stages of 3×3 convolutions; `cifar` has one dense layer instead of three. `width` multiplies their channels."""

  depths: tuple[int, ...]
  norm: bool = False
  cifar: bool = False
  num_classes: int = 1000
  drop_rate: float = 0.5
  noise: tuple[float, float] = (0.0, 0.0)
  width: float = 1.0
  sows_stages: ClassVar[bool] = True

  @property
  def evaluation_rngs(self) -> tuple[str, ...]:
    """Returns the streams that it draws from in evaluation too."""
    return ("noise",) if any(self.noise) else ()

  @nn.compact
  def __call__(self, x: Array, train: bool = False) -> Array:
    number = 0
    for depth, features in zip(self.depths, (64, 128, 256, 512, 512), strict=True):
      for _ in range(depth):
        x = self._noisy(x, self.noise[0 if number == 0 else 1])
        x = Conv(round(self.width * features), 3, 1, 1, name=f"features_{number}")(x)
        if self.norm:
          x = batch_norm(train, f"features_{number + 1}")(x)
        x = nn.relu(x)
        number += 3 if self.norm else 2
      self.sow("intermediates", "stages", x)
      x = max_pool(x, 2, 2)
      number += 1
    if self.cifar:
      return nn.Dense(self.num_classes, name="classifier")(flatten(x))
    x = flatten(adaptive_avg_pool(x, 7))
    for layer in (0, 3):
      x = dropout(nn.relu(nn.Dense(4096, name=f"classifier_{layer}")(x)), self.drop_rate, train)
    return nn.Dense(self.num_classes, name="classifier_6")(x)

  def _noisy(self, x: Array, scale: float) -> Array:
    if scale == 0.0:
      return x
    return x + scale * jax.random.normal(self.make_rng("noise"), x.shape, x.dtype)


class AlexNet(nn.Module):
  """The one-column AlexNet of torchvision, the yardstick of mCE."""

  num_classes: int = 1000
  drop_rate: float = 0.5
  sows_stages: ClassVar[bool] = True

  @nn.compact
  def __call__(self, x: Array, train: bool = False) -> Array:
    sizes = ((0, 64, 11, 4, 2), (3, 192, 5, 1, 2), (6, 384, 3, 1, 1), (8, 256, 3, 1, 1), (10, 256, 3, 1, 1))
    for number, features, size, stride, padding in sizes:
      x = nn.relu(Conv(features, size, stride, padding, name=f"features_{number}")(x))
      self.sow("intermediates", "stages", x)
      x = max_pool(x, 3, 2) if number < 6 else x
    x = flatten(adaptive_avg_pool(max_pool(x, 3, 2), 6))
    for layer in (1, 4):
      x = nn.relu(nn.Dense(4096, name=f"classifier_{layer}")(dropout(x, self.drop_rate, train)))
    return nn.Dense(self.num_classes, name="classifier_6")(x)


class AlexNetCIFAR(nn.Module):
  """AlexNet for 32 pixels, as Laidlaw et al. 2021 (arXiv:2006.12655) measure perceptual distances on CIFAR-10.

  A first convolution of 3 pixels and stride 2, poolings of 2, and dense layers of `hidden` features. `width` multiplies
  the channels.
  """

  num_classes: int = 10
  width: float = 1.0
  hidden: int = 4096
  drop_rate: float = 0.5
  sows_stages: ClassVar[bool] = True

  @nn.compact
  def __call__(self, x: Array, train: bool = False) -> Array:
    number = 0
    for features, stride, pooled in ((64, 2, True), (192, 1, True), (384, 1, False), (256, 1, False), (256, 1, True)):
      x = nn.relu(Conv(round(self.width * features), 3, stride, 1, name=f"features_{number}")(x))
      self.sow("intermediates", "stages", x)
      x = max_pool(x, 2, 2) if pooled else x
      number += 3 if pooled else 2
    x = flatten(x)
    for layer in (1, 4):
      x = nn.relu(nn.Dense(self.hidden, name=f"classifier_{layer}")(dropout(x, self.drop_rate, train)))
    return nn.Dense(self.num_classes, name="classifier_6")(x)


for _name, _depths in DEPTHS.items():
  _text = _name.upper().replace("VGG", "VGG-")
  for _suffix, _norm in (("", False), ("_bn", True)):
    _build = functools.partial(VGG, _depths, _norm)
    _words = f"{_text}{' with batch normalization' if _norm else ''}"
    MODELS.register(_name + _suffix)(imagenet_spec(_build, _words, f"torchvision:{_name}{_suffix}"))
  MODELS.register(f"cifar-{_name}_bn")(
    cifar_spec(functools.partial(_build, cifar=True), f"{_text} with batch normalization for 32 pixels (pytorch-cifar)")
  )
MODELS.register("rse-vgg16")(
  cifar_spec(
    functools.partial(VGG, DEPTHS["vgg16"], True, True, noise=(0.2, 0.1)),
    "VGG-16 with noise before every convolution, in evaluation too (RSE)",
  )
)
MODELS.register("alexnet")(imagenet_spec(AlexNet, "AlexNet, one column", "torchvision:alexnet"))
for _name, _width, _hidden in (("cifar-alexnet", 1.0, 4096), ("cifar-alexnet-half", 0.5, 512)):
  _build = functools.partial(AlexNetCIFAR, width=_width, hidden=_hidden)
  _words = "AlexNet for 32 pixels" + ("" if _width == 1 else ", half as wide")
  MODELS.register(_name)(cifar_spec(_build, _words, mean=IMAGENET_MEAN, std=IMAGENET_STD))
