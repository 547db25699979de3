"""EfficientNet (Tan and Le 2019, arXiv:1905.11946) and MobileNetV2 (Sandler et al. 2018, arXiv:1801.04381).

Names, layers and rounding are timm's. The `tf_` networks pad like TensorFlow and use its batch-norm epsilon, which is
what weights ported from Google's checkpoints need. EfficientNet-Lite has no squeeze and excitation, ReLU6, and a stem
and head that do not scale.
"""

from __future__ import annotations

import functools
import math

from flax import linen as nn

from jaxrobust.core.types import Array
from jaxrobust.models.layers.basic import batch_norm, conv_norm, dropout, global_pool
from jaxrobust.models.layers.conv import Conv
from jaxrobust.models.layers.inverted_residual import InvertedResidual, StageSpec, round_channels, same_padding
from jaxrobust.models.registry import INCEPTION_MEAN, INCEPTION_STD, MODELS, imagenet_spec

# Table 1 of the EfficientNet paper; squeeze layers have a quarter of the block's input channels.
EFFICIENTNET = (
  StageSpec(1, 3, 1, 1, 16),
  StageSpec(2, 3, 2, 6, 24),
  StageSpec(2, 5, 2, 6, 40),
  StageSpec(3, 3, 2, 6, 80),
  StageSpec(3, 5, 1, 6, 112),
  StageSpec(4, 5, 2, 6, 192),
  StageSpec(1, 3, 1, 6, 320),
)
# Table 2 of the MobileNetV2 paper.
MOBILENET_V2 = (
  StageSpec(1, 3, 1, 1, 16),
  StageSpec(2, 3, 2, 6, 24),
  StageSpec(3, 3, 2, 6, 32),
  StageSpec(4, 3, 2, 6, 64),
  StageSpec(3, 3, 1, 6, 96),
  StageSpec(3, 3, 2, 6, 160),
  StageSpec(1, 3, 1, 6, 320),
)


class EfficientNet(nn.Module):
  """Stages of inverted residuals between a stem and a 1×1 head.

  Attributes:
    stages: the table before scaling.
    width, depth: multipliers.
    squeeze: width of squeeze layers over the input of their block; 0 for none.
    relu6: ReLU6 instead of swish.
    fixed_ends: stem, head and the depth of the first and last stage do not scale.
    same: padding and batch-norm epsilon of TensorFlow.
    drop_rate, drop_path_rate: dropout before the classifier; stochastic depth of the last block.
  """

  stages: tuple[StageSpec, ...] = EFFICIENTNET
  width: float = 1.0
  depth: float = 1.0
  squeeze: float = 0.25
  relu6: bool = False
  fixed_ends: bool = False
  narrow_head: bool = True
  same: bool = False
  num_classes: int = 1000
  drop_rate: float = 0.0
  drop_path_rate: float = 0.0

  @nn.compact
  def __call__(self, x: Array, train: bool = False) -> Array:
    activation = nn.relu6 if self.relu6 else nn.swish
    epsilon = 1e-3 if self.same else 1e-5
    stem = 32 if self.fixed_ends else round_channels(32, self.width)
    padding = same_padding(x.shape, 3, 2) if self.same else 1
    x = Conv(stem, 3, 2, padding, use_bias=False, name="conv_stem")(x)
    x = activation(batch_norm(train, "bn1", epsilon)(x))
    repeats = [self._repeats(index) for index in range(len(self.stages))]
    done = 0
    for index, stage in enumerate(self.stages):
      for block in range(repeats[index]):
        x = InvertedResidual(
          round_channels(stage.features, self.width),
          stage.kernel,
          stage.stride if block == 0 else 1,
          stage.expand,
          activation,
          round(x.shape[-1] * self.squeeze),
          activation,
          same=self.same,
          epsilon=epsilon,
          drop_path=self.drop_path_rate * done / sum(repeats),
          name=f"blocks.{index}.{block}",
        )(x, train)
        done += 1
    head = 1280 if self.fixed_ends else round_channels(1280, self.width)
    head = head if self.narrow_head else max(1280, head)
    x = activation(conv_norm(x, train, ("conv_head", "bn2"), head, epsilon=epsilon))
    return nn.Dense(self.num_classes, name="classifier")(dropout(global_pool(x), self.drop_rate, train))

  def _repeats(self, index: int) -> int:
    if self.fixed_ends and index in (0, len(self.stages) - 1):
      return self.stages[index].repeats
    return math.ceil(self.stages[index].repeats * self.depth)


# Name, width, depth, input size, crop fraction.
_EFFICIENTNETS = (
  ("b0", 1.0, 1.0, 224, 0.875),
  ("b1", 1.0, 1.1, 240, 0.882),
  ("b2", 1.1, 1.2, 256, 0.89),
  ("b3", 1.2, 1.4, 288, 0.904),
  ("b4", 1.4, 1.8, 320, 0.922),
)
for _name, _width, _depth, _size, _crop in _EFFICIENTNETS:
  _build = functools.partial(EfficientNet, EFFICIENTNET, _width, _depth)
  MODELS.register(f"efficientnet_{_name}")(
    imagenet_spec(
      _build,
      f"EfficientNet-{_name.upper()}",
      f"timm:efficientnet_{_name}",
      size=_size,
      crop_fraction=_crop,
      interpolation="bicubic",
    )
  )

_LITE = functools.partial(EfficientNet, squeeze=0.0, relu6=True, fixed_ends=True)
MODELS.register("efficientnet_lite0")(
  imagenet_spec(_LITE, "EfficientNet-Lite0", "timm:efficientnet_lite0", interpolation="bicubic")
)
MODELS.register("tf_efficientnet_lite0")(
  imagenet_spec(
    functools.partial(_LITE, same=True),
    "EfficientNet-Lite0 with TensorFlow's padding, for Google's weights",
    "timm:tf_efficientnet_lite0",
    mean=INCEPTION_MEAN,
    std=INCEPTION_STD,
    interpolation="bicubic",
  )
)
MODELS.register("tf_efficientnet_b0")(
  imagenet_spec(
    functools.partial(EfficientNet, same=True),
    "EfficientNet-B0 with TensorFlow's padding, for Google's weights",
    "timm:tf_efficientnet_b0",
    interpolation="bicubic",
  )
)
for _name, _width in (("050", 0.5), ("075", 0.75), ("100", 1.0), ("140", 1.4)):
  _build = functools.partial(EfficientNet, MOBILENET_V2, _width, squeeze=0.0, relu6=True, narrow_head=False)
  MODELS.register(f"mobilenetv2_{_name}")(
    imagenet_spec(_build, f"MobileNetV2 ×{_width}", f"timm:mobilenetv2_{_name}", interpolation="bicubic")
  )
