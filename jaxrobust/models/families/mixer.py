"""MLP-Mixer (Tolstikhin et al. 2021, arXiv:2105.01601): one MLP over tokens and one over channels per block."""

from __future__ import annotations

import functools

import jax.numpy as jnp
from flax import linen as nn

from jaxrobust.core.types import Array
from jaxrobust.models.layers.attention import Mlp, dense
from jaxrobust.models.layers.basic import DropPath, layer_norm
from jaxrobust.models.layers.patches import PatchConv
from jaxrobust.models.registry import INCEPTION_MEAN, INCEPTION_STD, MODELS, imagenet_spec


class MixerBlock(nn.Module):
  """Mixes tokens, then channels; the hidden widths are half and four times the channels."""

  drop_rate: float = 0.0
  drop_path: float = 0.0

  @nn.compact
  def __call__(self, x: Array, train: bool = False) -> Array:
    features = x.shape[-1]
    y = layer_norm("norm1")(x).swapaxes(1, 2)
    y = Mlp(features // 2, self.drop_rate, name="mlp_tokens")(y, train).swapaxes(1, 2)
    x = x + DropPath(self.drop_path)(y, train)
    y = Mlp(4 * features, self.drop_rate, name="mlp_channels")(layer_norm("norm2")(x), train)
    return x + DropPath(self.drop_path)(y, train)


class Mixer(nn.Module):
  """Patches, mixer blocks, the mean over tokens; the drop-path rate is the same in all blocks, as in timm."""

  patch_size: int
  features: int
  depth: int
  num_classes: int = 1000
  drop_rate: float = 0.0
  drop_path_rate: float = 0.0

  @nn.compact
  def __call__(self, x: Array, train: bool = False) -> Array:
    x = PatchConv(self.features, self.patch_size, name="stem.proj")(x)
    x = x.reshape(x.shape[0], -1, self.features)
    for index in range(self.depth):
      x = MixerBlock(self.drop_rate, self.drop_path_rate, name=f"blocks_{index}")(x, train)
    return dense(self.num_classes, "head")(jnp.mean(layer_norm("norm")(x), axis=1))


for _size, _features, _depth in (("b", 768, 12), ("l", 1024, 24)):
  MODELS.register(f"mixer_{_size}16_224")(
    imagenet_spec(
      functools.partial(Mixer, 16, _features, _depth),
      f"MLP-Mixer-{_size.upper()}/16 (Tolstikhin et al. 2021)",
      f"timm:mixer_{_size}16_224",
      mean=INCEPTION_MEAN,
      std=INCEPTION_STD,
      interpolation="bicubic",
    )
  )
