"""ShuffleNetV2 (Ma et al. 2018, arXiv:1807.11164) with torchvision's names."""

from __future__ import annotations

import functools

import jax.numpy as jnp
from flax import linen as nn

from jaxrobust.core.types import Array
from jaxrobust.models.layers.basic import conv_norm, global_pool, max_pool
from jaxrobust.models.registry import MODELS, imagenet_spec


def shuffle(x: Array) -> Array:
  """Interleaves the two halves of the channels."""
  batch, height, width, channels = x.shape
  return x.reshape(batch, height, width, 2, channels // 2).swapaxes(3, 4).reshape(x.shape)


class Unit(nn.Module):
  """Half of the channels pass, the other half are filtered; with stride 2 all are filtered twice."""

  features: int
  stride: int

  @nn.compact
  def __call__(self, x: Array, train: bool = False) -> Array:
    half = self.features // 2
    if self.stride == 1:
      passed, x = jnp.split(x, 2, axis=-1)
    else:
      names = ("branch1_0", "branch1_1")
      passed = conv_norm(x, train, names, x.shape[-1], 3, self.stride, groups=x.shape[-1])
      passed = nn.relu(conv_norm(passed, train, ("branch1_2", "branch1_3"), half))
    y = nn.relu(conv_norm(x, train, ("branch2_0", "branch2_1"), half))
    y = conv_norm(y, train, ("branch2_3", "branch2_4"), half, 3, self.stride, groups=half)
    y = nn.relu(conv_norm(y, train, ("branch2_5", "branch2_6"), half))
    return shuffle(jnp.concatenate([passed, y], axis=-1))


class ShuffleNetV2(nn.Module):
  """`widths` are the channels of the three stages and of the last convolution."""

  widths: tuple[int, ...]
  num_classes: int = 1000

  @nn.compact
  def __call__(self, x: Array, train: bool = False) -> Array:
    x = max_pool(nn.relu(conv_norm(x, train, ("conv1_0", "conv1_1"), 24, 3, 2)), 3, 2, 1)
    for stage, (width, depth) in enumerate(zip(self.widths[:3], (4, 8, 4), strict=True), 2):
      for unit in range(depth):
        x = Unit(width, 2 if unit == 0 else 1, name=f"stage{stage}_{unit}")(x, train)
    x = nn.relu(conv_norm(x, train, ("conv5_0", "conv5_1"), self.widths[3]))
    return nn.Dense(self.num_classes, name="fc")(global_pool(x))


for _name, _widths in (
  ("x0_5", (48, 96, 192, 1024)),
  ("x1_0", (116, 232, 464, 1024)),
  ("x1_5", (176, 352, 704, 1024)),
  ("x2_0", (244, 488, 976, 2048)),
):
  _text = f"ShuffleNetV2 ×{_name[1:].replace('_', '.')}"
  MODELS.register(f"shufflenet_v2_{_name}")(
    imagenet_spec(functools.partial(ShuffleNetV2, _widths), _text, f"torchvision:shufflenet_v2_{_name}")
  )
