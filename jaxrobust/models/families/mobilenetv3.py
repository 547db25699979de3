"""MobileNetV3, large and small (Howard et al. 2019, arXiv:1905.02244) with timm's names, layers and rounding.

The last 1×1 convolution comes after pooling and does not scale; below ×0.75 neither does the stem. The networks of
torchvision are those of timm but for batch norm, whose epsilon is 0.001 there.
"""

from __future__ import annotations

import functools

from flax import linen as nn

from jaxrobust.core.types import Array
from jaxrobust.models.layers.basic import conv_norm, dropout, hard_sigmoid, hard_swish
from jaxrobust.models.layers.conv import Conv
from jaxrobust.models.layers.inverted_residual import InvertedResidual, StageSpec, round_channels
from jaxrobust.models.registry import MODELS, imagenet_spec

# Tables 1 and 2 of the paper; an inner tuple is one of timm's stages.
LARGE = (
  (StageSpec(1, 3, 1, 1, 16, relu=True),),
  (StageSpec(1, 3, 2, 4, 24, relu=True), StageSpec(1, 3, 1, 3, 24, relu=True)),
  (StageSpec(3, 5, 2, 3, 40, 0.25, relu=True),),
  (StageSpec(1, 3, 2, 6, 80), StageSpec(1, 3, 1, 2.5, 80), StageSpec(2, 3, 1, 2.3, 80)),
  (StageSpec(2, 3, 1, 6, 112, 0.25),),
  (StageSpec(3, 5, 2, 6, 160, 0.25),),
)
SMALL = (
  (StageSpec(1, 3, 2, 1, 16, 0.25, relu=True),),
  (StageSpec(1, 3, 2, 4.5, 24, relu=True), StageSpec(1, 3, 1, 3.67, 24, relu=True)),
  (StageSpec(1, 5, 2, 4, 40, 0.25), StageSpec(2, 5, 1, 6, 40, 0.25)),
  (StageSpec(2, 5, 1, 3, 48, 0.25),),
  (StageSpec(3, 5, 2, 6, 96, 0.25),),
)


class ConvHead(nn.Module):
  """The 1×1 convolution that timm counts as the last stage."""

  features: int
  epsilon: float = 1e-5

  @nn.compact
  def __call__(self, x: Array, train: bool = False) -> Array:
    return hard_swish(conv_norm(x, train, ("conv", "bn1"), self.features, epsilon=self.epsilon))


class MobileNetV3(nn.Module):
  """MobileNetV3; `width` multiplies the channels, `epsilon` is that of batch norm."""

  width: float = 1.0
  num_classes: int = 1000
  drop_rate: float = 0.0
  small: bool = False
  epsilon: float = 1e-5

  @nn.compact
  def __call__(self, x: Array, train: bool = False) -> Array:
    stem = 16 if self.width < 0.75 else round_channels(16, self.width)
    x = hard_swish(conv_norm(x, train, ("conv_stem", "bn1"), stem, 3, 2, epsilon=self.epsilon))
    stages = SMALL if self.small else LARGE
    for index, rows in enumerate(stages):
      blocks = [(row, row.stride if repeat == 0 else 1) for row in rows for repeat in range(row.repeats)]
      for block, (row, stride) in enumerate(blocks):
        middle = round_channels(x.shape[-1] * row.expand)
        x = InvertedResidual(
          round_channels(row.features, self.width),
          row.kernel,
          stride,
          row.expand,
          nn.relu if row.relu else hard_swish,
          round_channels(middle * row.squeeze) if row.squeeze else 0,
          gate=hard_sigmoid,
          epsilon=self.epsilon,
          name=f"blocks.{index}.{block}",
        )(x, train)
    last = round_channels(576 if self.small else 960, self.width)
    x = ConvHead(last, self.epsilon, name=f"blocks.{len(stages)}.0")(x, train)
    x = x.mean(axis=(1, 2), keepdims=True)
    x = hard_swish(Conv(1024 if self.small else 1280, 1, name="conv_head")(x))[:, 0, 0]
    return nn.Dense(self.num_classes, name="classifier")(dropout(x, self.drop_rate, train))


for _name, _width in (("035", 0.35), ("050", 0.5), ("075", 0.75), ("100", 1.0), ("140", 1.4)):
  _known = f"timm:mobilenetv3_large_{_name}" if _name in ("075", "100") else ""
  MODELS.register(f"mobilenetv3_large_{_name}")(
    imagenet_spec(
      functools.partial(MobileNetV3, _width), f"MobileNetV3-large ×{_width}", _known, interpolation="bicubic"
    )
  )

for _name, _width in (("050", 0.5), ("075", 0.75), ("100", 1.0)):
  MODELS.register(f"mobilenetv3_small_{_name}")(
    imagenet_spec(
      functools.partial(MobileNetV3, _width, small=True),
      f"MobileNetV3-small ×{_width}",
      f"timm:mobilenetv3_small_{_name}",
      interpolation="bicubic",
    )
  )

for _name in ("large", "small"):
  MODELS.register(f"mobilenet_v3_{_name}")(
    imagenet_spec(
      functools.partial(MobileNetV3, small=_name == "small", epsilon=1e-3),
      f"MobileNetV3-{_name} of torchvision",
    )
  )
