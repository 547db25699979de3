"""SimMIM: hidden patches become one learned token, and a linear layer draws their pixels.

Xie et al. 2022 (arXiv:2111.09886): squares of 32 pixels are hidden until 60 % of the image is; the loss is the absolute
error on hidden pixels. Works with vision transformers and with Swin, which is what ARES-Bench pre-trains. What is
shown as accuracy is the part of the hidden pixels' variance that is explained.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn

from jaxrobust.core.errors import InputError
from jaxrobust.core.types import Array
from jaxrobust.models.families.swin import Swin
from jaxrobust.models.families.vit import ViT
from jaxrobust.models.layers.attention import dense
from jaxrobust.models.layers.patches import unpatchify
from jaxrobust.training.technique import TECHNIQUES, Batch, Context, Losses, Network, Objective


def random_squares(keys: Array, shape: tuple[int, ...], size: int, part: float) -> Array:
  """Returns (N, H, W), True in the hidden squares: the same number of them in every image."""
  rows, columns = shape[0] // size, shape[1] // size
  count = round(part * rows * columns)

  def one(key: Array) -> Array:
    rank = jnp.argsort(jnp.argsort(jax.random.uniform(jax.random.fold_in(key, 0x6D696D), (rows * columns,))))
    squares = (rank < count).reshape(rows, columns)
    return jnp.repeat(jnp.repeat(squares, size, axis=0), size, axis=1)

  return jax.vmap(one)(keys)


class Masked(nn.Module):
  """Pixels (N, H, W, C) drawn by a linear layer from the tokens of an image whose masked patches are blank."""

  backbone: Any
  patch_size: int

  @property
  def num_classes(self) -> int:
    return self.backbone.num_classes

  @nn.compact
  def __call__(self, x: Array, train: bool = False, mask: Array | None = None) -> Array:
    if self.is_initializing():
      self.backbone(x)  # The head belongs to the classifier that will be saved.
    blank = self.param("mask_token", nn.initializers.normal(0.02), (self.backbone.features,))
    if mask is None:
      mask = jnp.zeros(x.shape[:3], bool)
    patches_masked = mask[:, :: self.patch_size, :: self.patch_size]

    def hide(patches: Array, positions: Array) -> Array:
      masked = patches_masked.reshape(*patches.shape[:-1], 1)
      return jnp.where(masked, blank.astype(patches.dtype), patches) + positions

    tokens = self.backbone(x, train=train, hide=hide, tokens=True)
    if tokens.ndim == 3:  # A class token, then the patches in a row.
      tokens = tokens[:, 1:].reshape(*patches_masked.shape, -1)
    stride = x.shape[1] // tokens.shape[1]
    return unpatchify(dense(stride * stride * x.shape[-1], "decoder")(tokens), stride)


@TECHNIQUES.register("simmim")
@dataclass(frozen=True)
class SimMIM(Objective):
  """Masked image modeling with squares of `size` pixels."""

  hidden: float = 0.6
  size: int = 32

  def __post_init__(self) -> None:
    if not 0 < self.hidden < 1 or self.size < 1:
      raise InputError(f"simmim needs a hidden part in (0, 1) and squares of at least 1 pixel, got {self}")

  def wrap(self, module: nn.Module) -> nn.Module:
    if not isinstance(module, ViT | Swin):
      raise InputError(f"simmim needs a vision transformer or a Swin transformer, not {type(module).__name__}")
    patch = module.patch_size if isinstance(module, ViT) else 4
    if self.size % patch:
      raise InputError(f"squares of {self.size} pixels do not consist of whole patches of {patch}")
    return Masked(module, patch)

  def loss(self, network: Network, batch: Batch, context: Context) -> Losses:
    shape = batch.images.shape[1:]
    if shape[0] % self.size or shape[1] % self.size:
      raise InputError(f"images of {shape[0]}×{shape[1]} do not divide into squares of {self.size} pixels")
    mask = random_squares(batch.keys, shape, self.size, self.hidden)
    pixels, stats = network(batch.images, context.batch_stats, mask=mask)
    over = lambda errors: jnp.sum(jnp.mean(errors, -1) * mask, axis=(1, 2)) / jnp.sum(mask, axis=(1, 2))
    values = over(jnp.abs(pixels - batch.images))
    center = over(batch.images)[:, None, None, None]
    unexplained = over((pixels - batch.images) ** 2) / jnp.maximum(over((batch.images - center) ** 2), 1e-6)
    return Losses(values, pixels, stats, jnp.maximum(1 - unexplained, 0.0))
