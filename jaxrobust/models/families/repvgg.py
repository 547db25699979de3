"""RepVGG (Ding et al. 2021, arXiv:2101.03697): three branches in training, one 3×3 convolution after.

Names are timm's (`conv_kxk`, `conv_1x1`, `identity` in the train form, `reparam_conv` in the fused form). `fuse` turns
the variables of one into those of the other, exactly up to rounding: batch normalization in evaluation is affine, a 1×1
kernel is a 3×3 kernel with one entry, and the identity is a 1×1 kernel.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np
from flax import linen as nn

from jaxrobust.core.types import Array
from jaxrobust.models.layers.basic import ConvNorm, batch_norm, global_pool
from jaxrobust.models.layers.conv import Conv
from jaxrobust.models.registry import MODELS, cifar_spec, imagenet_spec

_EPSILON = 1e-5


class RepBlock(nn.Module):
  """3×3, 1×1 and identity branches, or their sum as one convolution."""

  features: int
  stride: int
  fused: bool = False

  @nn.compact
  def __call__(self, x: Array, train: bool = False) -> Array:
    if self.fused:
      return nn.relu(Conv(self.features, 3, self.stride, 1, name="reparam_conv")(x))
    y = ConvNorm(self.features, 1, self.stride, epsilon=_EPSILON, name="conv_1x1")(x, train)
    y += ConvNorm(self.features, 3, self.stride, epsilon=_EPSILON, name="conv_kxk")(x, train)
    if self.stride == 1 and x.shape[-1] == self.features:
      y += batch_norm(train, "identity", _EPSILON)(x)
    return nn.relu(y)


class RepVGG(nn.Module):
  """Five stages without shortcuts; `widths` includes the stem."""

  depths: tuple[int, ...]
  widths: tuple[int, ...]
  fused: bool = False
  num_classes: int = 1000

  @nn.compact
  def __call__(self, x: Array, train: bool = False) -> Array:
    x = RepBlock(self.widths[0], 2, self.fused, name="stem")(x, train)
    for stage, (depth, width) in enumerate(zip(self.depths, self.widths[1:], strict=True)):
      for block in range(depth):
        x = RepBlock(width, 2 if block == 0 else 1, self.fused, name=f"stages.{stage}.{block}")(x, train)
    return nn.Dense(self.num_classes, name="head.fc")(global_pool(x))


def fuse(variables: Mapping[str, Any]) -> dict[str, Any]:
  """Returns variables of the fused form from those of the train form."""
  params, stats = variables["params"], variables["batch_stats"]
  fused = {name: dict(layer) for name, layer in params.items() if name not in stats}
  for name in stats:
    layer, statistics = params[name], stats[name]
    kernel, bias = _affine(layer["conv_kxk"]["conv"]["kernel"], layer["conv_kxk"]["bn"], statistics["conv_kxk"]["bn"])
    small = np.asarray(layer["conv_1x1"]["conv"]["kernel"], np.float64)
    branches = [_affine(small, layer["conv_1x1"]["bn"], statistics["conv_1x1"]["bn"])]
    if "identity" in layer:
      branches.append(_affine(np.eye(small.shape[-1])[None, None], layer["identity"], statistics["identity"]))
    for point, shift in branches:
      kernel[1, 1] += point[0, 0]
      bias = bias + shift
    fused[name] = {"reparam_conv": {"kernel": kernel.astype(np.float32), "bias": bias.astype(np.float32)}}
  return {"params": fused}


def _affine(kernel: Any, norm: Mapping[str, Any], statistics: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
  """Returns kernel and bias of a convolution followed by a batch normalization."""
  scale = np.asarray(norm["scale"], np.float64) / np.sqrt(np.asarray(statistics["var"], np.float64) + _EPSILON)
  return np.asarray(kernel, np.float64) * scale, np.asarray(norm["bias"]) - np.asarray(statistics["mean"]) * scale


for _name, _depths, _widths in (
  ("repvgg_a0", (2, 4, 14, 1), (48, 48, 96, 192, 1280)),
  ("repvgg_b3", (4, 6, 16, 1), (64, 192, 384, 768, 2560)),
):
  _build = functools.partial(RepVGG, _depths, _widths)
  _text = _name.upper().replace("REPVGG_", "RepVGG-")
  MODELS.register(_name)(imagenet_spec(_build, f"{_text}, train form (fused=True for the fused form)", f"timm:{_name}"))
MODELS.register("repvgg_tiny")(
  cifar_spec(
    functools.partial(RepVGG, (1, 2), (8, 8, 16)),
    "RepVGG of two small stages, train form, for the embedded digits and for tests",
  )
)
