"""ResNet with feature-denoising blocks (Xie et al. 2019, arXiv:1812.03411), the FD defense of ARES.

After the last block of each of the four stages, features are averaged over all positions with weights from a softmax
over embedded similarities (the "Gaussian" non-local mean of §4.2), passed through a 1×1 convolution with batch norm
and added. The batch norm starts at zero, so that training starts from a plain ResNet. Known deviation: padding is
PyTorch's, symmetric, as in the backbone; the authors' TensorFlow code pads the far side of strided convolutions.
"""

from __future__ import annotations

import functools

import jax.numpy as jnp
from flax import linen as nn

from jaxrobust.core.types import Array
from jaxrobust.models.families.resnet import ResidualBlock
from jaxrobust.models.layers.basic import conv_norm, global_pool, max_pool
from jaxrobust.models.layers.conv import Conv
from jaxrobust.models.registry import MODELS, imagenet_spec


class Denoise(nn.Module):
  """x + BN(conv(non-local mean of x))."""

  @nn.compact
  def __call__(self, x: Array, train: bool = False) -> Array:
    batch, height, width, channels = x.shape
    half = channels // 2
    values = x.reshape(batch, height * width, channels)
    theta = Conv(half, 1, use_bias=False, name="embedding_theta")(x).reshape(batch, -1, half)
    phi = Conv(half, 1, use_bias=False, name="embedding_phi")(x).reshape(batch, -1, half)
    weights = nn.softmax(jnp.einsum("npc,nqc->npq", theta, phi) / half**0.5, axis=-1)
    mean = jnp.einsum("npq,nqc->npc", weights, values).reshape(x.shape)
    y = Conv(channels, 1, use_bias=False, name="conv")(mean)
    zero = nn.initializers.zeros_init()
    return x + nn.BatchNorm(use_running_average=not train, momentum=0.9, epsilon=1e-5, scale_init=zero, name="bn")(y)


class ResNetDenoise(nn.Module):
  """A bottleneck ResNet with a denoising block after each stage."""

  depths: tuple[int, ...] = (3, 8, 36, 3)
  num_classes: int = 1000

  @nn.compact
  def __call__(self, x: Array, train: bool = False) -> Array:
    x = max_pool(nn.relu(conv_norm(x, train, ("conv1", "bn1"), 64, 7, 2)), 3, 2, 1)
    for stage, depth in enumerate(self.depths):
      for index in range(depth):
        stride = 2 if stage > 0 and index == 0 else 1
        x = ResidualBlock(64 * 2**stage, stride, True, name=f"layer{stage + 1}_{index}")(x, train)
      x = Denoise(name=f"denoise{stage + 1}")(x, train)
    return nn.Dense(self.num_classes, name="fc")(global_pool(x))


MODELS.register("resnet152-denoise")(
  imagenet_spec(functools.partial(ResNetDenoise), "ResNet-152 with feature-denoising blocks (Xie et al. 2019)")
)
