"""The convolutional stem of Singh, Croce and Hein 2023 (arXiv:2303.01870), in place of a patch embedding.

3×3 convolutions, each followed by layer normalisation over channels and GELU; ViTs add a 1×1 projection. Layers are
numbered as in the authors' `nn.Sequential`.
"""

from __future__ import annotations

from flax import linen as nn

from jaxrobust.core.types import Array
from jaxrobust.models.conv import Conv
from jaxrobust.models.layers import gelu, layer_norm


class ConvStem(nn.Module):
  """Convolutions of the given widths and strides; `project` is the width of the last 1×1 one, or None for none."""

  widths: tuple[int, ...]
  strides: tuple[int, ...]
  project: int | None = None

  @nn.compact
  def __call__(self, x: Array) -> Array:
    for index, (width, stride) in enumerate(zip(self.widths, self.strides, strict=True)):
      x = Conv(width, 3, stride, 1, name=str(3 * index))(x)
      x = gelu(layer_norm(str(3 * index + 1))(x))
    if self.project is None:
      return x
    return Conv(self.project, 1, name=str(3 * len(self.widths)))(x)
