"""The building block of MobileNets and EfficientNets, with timm's layer names.

Inverted residual (Sandler et al. 2018, arXiv:1801.04381): expand by a 1×1 convolution, filter each channel, optionally
reweight channels (squeeze and excitation, arXiv:1709.01507), project back. Without expansion timm calls it a depthwise
separable convolution and numbers its layers differently.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from flax import linen as nn

from jaxrobust.core.types import Array
from jaxrobust.models.layers.basic import DropPath, batch_norm, conv_norm
from jaxrobust.models.layers.conv import Conv, Padding

Activation = Callable[[Array], Array]


class StageSpec(NamedTuple):
  """A row of an architecture's table: blocks of one kernel size, expansion and width.

  `squeeze` is the width of the squeeze layer over that of the expanded block; `relu` replaces the activation.
  """

  repeats: int
  kernel: int
  stride: int
  expand: float
  features: int
  squeeze: float = 0.0
  relu: bool = False


def round_channels(channels: float, multiplier: float = 1.0) -> int:
  """Returns the nearest multiple of 8 that is no more than a tenth smaller.

  >>> round_channels(24, 0.35), round_channels(32, 1.4)
  (8, 48)
  """
  scaled = channels * multiplier
  rounded = max(8, int(scaled + 4) // 8 * 8)
  return rounded + 8 if rounded < 0.9 * scaled else rounded


def same_padding(shape: tuple[int, ...], size: int, stride: int) -> Padding:
  """Pads as TensorFlow does, with the odd pixel at the far side."""
  total = [max((-(-length // stride) - 1) * stride + size - length, 0) for length in shape[1:3]]
  rows, columns = ((side // 2, side - side // 2) for side in total)
  return rows, columns


class SqueezeExcite(nn.Module):
  """Scales channels by a function of their means."""

  squeezed: int
  activation: Activation
  gate: Activation

  @nn.compact
  def __call__(self, x: Array) -> Array:
    y = x.mean(axis=(1, 2), keepdims=True)
    y = self.activation(Conv(self.squeezed, 1, name="conv_reduce")(y))
    return x * self.gate(Conv(x.shape[-1], 1, name="conv_expand")(y))


class InvertedResidual(nn.Module):
  """One block; `expand` 1 leaves out the expansion."""

  features: int
  kernel: int
  stride: int
  expand: float
  activation: Activation
  squeezed: int = 0
  squeeze_activation: Activation = nn.relu
  gate: Activation = nn.sigmoid
  same: bool = False
  epsilon: float = 1e-5
  drop_path: float = 0.0

  @nn.compact
  def __call__(self, x: Array, train: bool = False) -> Array:
    padding = same_padding(x.shape, self.kernel, self.stride) if self.same else None
    y, number = x, 1
    if self.expand != 1:
      middle = round_channels(x.shape[-1] * self.expand)
      y = self.activation(conv_norm(y, train, ("conv_pw", "bn1"), middle, epsilon=self.epsilon))
      number = 2
    names, width = ("conv_dw", f"bn{number}"), y.shape[-1]
    y = conv_norm(y, train, names, width, self.kernel, self.stride, padding, width, epsilon=self.epsilon)
    y = self.activation(y)
    if self.squeezed:
      y = SqueezeExcite(self.squeezed, self.squeeze_activation, self.gate, name="se")(y)
    y = Conv(self.features, 1, use_bias=False, name="conv_pwl" if number == 2 else "conv_pw")(y)
    y = batch_norm(train, f"bn{number + 1}", self.epsilon)(y)
    if self.stride == 1 and x.shape[-1] == self.features:
      y = x + DropPath(self.drop_path)(y, train)
    return y
