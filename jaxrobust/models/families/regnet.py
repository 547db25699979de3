"""RegNetX (Radosavovic et al. 2020, arXiv:2003.13678) with timm's names.

Widths follow the paper's quantized linear rule (equations 2 to 4), then are rounded to whole groups.
"""

from __future__ import annotations

import functools
from collections import Counter
from typing import NamedTuple

import numpy as np
from flax import linen as nn

from jaxrobust.core.types import Array
from jaxrobust.models.layers.basic import ConvNorm, global_pool
from jaxrobust.models.registry import MODELS, imagenet_spec


class Design(NamedTuple):
  """A point of the design space: slope, initial width, width multiplier, depth, group width (appendix D).

  torchvision rounds halves of a group up, timm to even numbers of groups.
  """

  slope: float
  initial: int
  multiplier: float
  depth: int
  group: int
  half_up: bool = False

  def stages(self) -> list[tuple[int, int, int]]:
    """Returns (width, blocks, group width) of each stage.

    >>> Design(24.48, 24, 2.54, 22, 16).stages()
    [(32, 1, 16), (64, 2, 16), (160, 7, 16), (384, 12, 16)]
    """
    linear = self.initial + self.slope * np.arange(self.depth, dtype=np.float32)
    powers = np.round(np.log(linear / self.initial) / np.log(self.multiplier))
    widths = np.round(self.initial * self.multiplier**powers / 8) * 8
    stages = []
    for width, blocks in sorted(Counter(widths.astype(int).tolist()).items()):
      group = min(self.group, width)
      groups = int(width / group + 0.5) if self.half_up else round(width / group)
      stages.append((groups * group, blocks, group))
    return stages


class XBlock(nn.Module):
  """A bottleneck without a neck: 1×1, grouped 3×3 and 1×1 convolutions of one width."""

  features: int
  stride: int
  group: int

  @nn.compact
  def __call__(self, x: Array, train: bool = False) -> Array:
    y = nn.relu(ConvNorm(self.features, name="conv1")(x, train))
    groups = self.features // self.group
    y = nn.relu(ConvNorm(self.features, 3, self.stride, groups=groups, name="conv2")(y, train))
    y = ConvNorm(self.features, name="conv3")(y, train)
    if self.stride != 1 or x.shape[-1] != self.features:
      x = ConvNorm(self.features, 1, self.stride, name="downsample")(x, train)
    return nn.relu(x + y)


class RegNetX(nn.Module):
  """Four stages, each beginning with stride 2."""

  design: Design
  num_classes: int = 1000

  @nn.compact
  def __call__(self, x: Array, train: bool = False) -> Array:
    x = nn.relu(ConvNorm(32, 3, 2, name="stem")(x, train))
    for stage, (width, blocks, group) in enumerate(self.design.stages(), 1):
      for block in range(1, blocks + 1):
        x = XBlock(width, 2 if block == 1 else 1, group, name=f"s{stage}.b{block}")(x, train)
    return nn.Dense(self.num_classes, name="head.fc")(global_pool(x))


for _name, _design in (
  ("004", Design(24.48, 24, 2.54, 22, 16)),
  ("008", Design(35.73, 56, 2.28, 16, 16)),
  ("016", Design(34.01, 80, 2.25, 18, 24)),
  ("032", Design(26.31, 88, 2.25, 25, 48)),
  ("064", Design(60.83, 184, 2.07, 17, 56)),
):
  MODELS.register(f"regnetx_{_name}")(
    imagenet_spec(
      functools.partial(RegNetX, _design),
      f"RegNetX-{int(_name) * 100}MF",
      f"timm:regnetx_{_name}",
      interpolation="bicubic",
    )
  )
  _theirs = {"004": "400mf", "008": "800mf", "016": "1_6gf", "032": "3_2gf"}.get(_name)
  if _theirs:
    MODELS.register(f"regnet_x_{_theirs}")(
      imagenet_spec(
        functools.partial(RegNetX, _design._replace(half_up=True)),
        f"RegNetX-{int(_name) * 100}MF of torchvision",
      )
    )
