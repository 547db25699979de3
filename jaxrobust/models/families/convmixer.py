"""ConvMixer (Trockman and Kolter 2022, arXiv:2201.09792): depthwise and pointwise convolutions on patches.

The CIFAR size follows the authors' locuslab/convmixer-cifar10, under timm's layer names; other depths, kernels and
patches are options: `make_model("cifar-convmixer_256_8", depth=16)`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from flax import linen as nn

from jaxrobust.core.types import Array
from jaxrobust.models.layers.attention import dense
from jaxrobust.models.layers.basic import batch_norm, gelu, global_pool
from jaxrobust.models.layers.conv import Conv
from jaxrobust.models.layers.patches import PatchConv
from jaxrobust.models.registry import MODELS, cifar_spec, imagenet_spec


class ConvMixer(nn.Module):
  """Every convolution is followed by an activation, then batch norm; depthwise ones have a shortcut."""

  features: int
  depth: int
  kernel_size: int
  patch_size: int
  relu: bool = False
  num_classes: int = 1000

  @nn.compact
  def __call__(self, x: Array, train: bool = False) -> Array:
    size, features = self.kernel_size, self.features
    act = nn.relu if self.relu else gelu
    x = batch_norm(train, "stem.2")(act(PatchConv(features, self.patch_size, name="stem.0")(x)))
    for index in range(self.depth):
      block = f"blocks.{index}"
      y = Conv(features, size, 1, size // 2, groups=features, name=f"{block}.0.fn.0")(x)
      x = x + batch_norm(train, f"{block}.0.fn.2")(act(y))
      y = Conv(features, 1, name=f"{block}.1")(x)
      x = batch_norm(train, f"{block}.3")(act(y))
    return dense(self.num_classes, "head")(global_pool(x))


def _build(
  features: int, depth: int, kernel_size: int, patch_size: int, relu: bool = False
) -> Callable[..., nn.Module]:
  return functools.partial(
    ConvMixer, features=features, depth=depth, kernel_size=kernel_size, patch_size=patch_size, relu=relu
  )


# The published 768/32 weights were trained with ReLU.
for _features, _depth, _size, _relu in ((1536, 20, 9, False), (768, 32, 7, True)):
  MODELS.register(f"convmixer_{_features}_{_depth}")(
    imagenet_spec(
      _build(_features, _depth, _size, 7, _relu),
      f"ConvMixer-{_features}/{_depth} (Trockman and Kolter 2022)",
      f"timm:convmixer_{_features}_{_depth}",
      crop_fraction=0.96,
      interpolation="bicubic",
    )
  )

MODELS.register("cifar-convmixer_256_8")(
  cifar_spec(_build(256, 8, 5, 2), "ConvMixer-256/8 for 32 pixels, 2-pixel patches, 5×5 kernels")
)
