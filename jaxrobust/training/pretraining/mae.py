"""Masked autoencoders: a vision transformer sees a quarter of the patches, a small decoder draws the others.

He et al. 2022 (arXiv:2111.06377): 75 % of the patches are hidden, the decoder has 8 blocks of 512 (16 heads) and fixed
sine-cosine positions, the loss is the squared error on hidden patches, of pixels normalized within each patch if
`normalize` (the authors' better setting). What is shown as accuracy is the part of the hidden pixels' variance that is
explained. Fine-tuning keeps the encoder. Known deviation: the encoder's positions start as sines and
cosines, but are learned.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn

from jaxrobust.core.errors import InputError
from jaxrobust.core.types import Array
from jaxrobust.models.families.vit import ViT
from jaxrobust.models.layers.attention import TransformerBlock, dense
from jaxrobust.models.layers.basic import layer_norm
from jaxrobust.models.layers.patches import patchify, sine_positions
from jaxrobust.training.pretraining.backbone import transformer_start
from jaxrobust.training.technique import TECHNIQUES, Batch, Context, Losses, Network, Objective


def patch_order(keys: Array, count: int) -> Array:
  """Returns (N, count): a random order of the patches of each image; the first ones are seen."""
  return jax.vmap(lambda key: jnp.argsort(jax.random.uniform(jax.random.fold_in(key, 0x6D6165), (count,))))(keys)


class Autoencoder(nn.Module):
  """Pixels of all patches, (N, P, size² · channels), from `visible` of them."""

  backbone: ViT
  visible: float
  features: int
  depth: int
  num_heads: int

  @property
  def num_classes(self) -> int:
    return self.backbone.num_classes

  def init(self, rngs: Any, *inputs: Any, **options: Any) -> Any:
    variables = super().init(rngs, *inputs, **options)
    return {**variables, "params": transformer_start(variables["params"], rngs["params"])}

  @nn.compact
  def __call__(self, x: Array, train: bool = False, order: Array | None = None) -> Array:
    size = self.backbone.patch_size
    rows, columns = x.shape[1] // size, x.shape[2] // size
    count = rows * columns
    if self.is_initializing():
      self.backbone(x)  # The head belongs to the classifier that will be saved.
    if order is None:
      order = jnp.broadcast_to(jnp.arange(count), (len(x), count))
    seen = order[:, : visible_patches(self.visible, count), None]
    hide = lambda patches, positions: jnp.take_along_axis(patches + positions, seen, axis=1)
    encoded = dense(self.features, "decoder_embed")(self.backbone(x, train=train, hide=hide, tokens=True))
    blank = self.param("mask_token", nn.initializers.normal(0.02), (1, 1, self.features)).astype(encoded.dtype)
    blanks = jnp.broadcast_to(blank, (len(x), count - seen.shape[1], self.features))
    patches = jnp.concatenate([encoded[:, 1:], blanks], axis=1)
    patches = jnp.take_along_axis(patches, jnp.argsort(order, axis=1)[..., None], axis=1)
    patches = patches + jnp.asarray(sine_positions(rows, columns, self.features), encoded.dtype)
    y = jnp.concatenate([encoded[:, :1], patches], axis=1)
    for index in range(self.depth):
      y = TransformerBlock(self.num_heads, name=f"decoder_blocks_{index}")(y, train)
    return dense(size * size * x.shape[-1], "decoder_pred")(layer_norm("decoder_norm")(y))[:, 1:]


def visible_patches(part: float, count: int) -> int:
  return max(1, int(part * count))


@TECHNIQUES.register("mae")
@dataclass(frozen=True)
class MAE(Objective):
  """Masked autoencoding; the decoder's size is `features`, `depth` and `num_heads`."""

  hidden: float = 0.75
  features: int = 512
  depth: int = 8
  num_heads: int = 16
  normalize: bool = False

  def __post_init__(self) -> None:
    if not 0 < self.hidden < 1:
      raise InputError(f"the hidden part must be in (0, 1), got {self.hidden}")
    if self.features % 4 or self.features % self.num_heads:
      raise InputError(f"the decoder's {self.features} features must divide by 4 and by its {self.num_heads} heads")

  def wrap(self, module: nn.Module) -> nn.Module:
    if not isinstance(module, ViT):
      raise InputError(f"mae needs a plain vision transformer (vit_…, deit_…), not {type(module).__name__}")
    return Autoencoder(module, 1 - self.hidden, self.features, self.depth, self.num_heads)

  def loss(self, network: Network, batch: Batch, context: Context) -> Losses:
    size = context.classifier.apply.module.backbone.patch_size  # type: ignore[attr-defined]
    targets = patchify(batch.images, size)
    targets = targets.reshape(len(targets), -1, targets.shape[-1])
    if self.normalize:
      targets = (targets - targets.mean(-1, keepdims=True)) / jnp.sqrt(targets.var(-1, ddof=1, keepdims=True) + 1e-6)
    count = targets.shape[1]
    order = patch_order(batch.keys, count)
    pixels, stats = network(batch.images, context.batch_stats, order=order)
    hidden = jnp.argsort(order, axis=1) >= visible_patches(1 - self.hidden, count)
    over = lambda errors: jnp.sum(jnp.mean(errors, -1) * hidden, axis=1) / jnp.sum(hidden, axis=1)
    values = over((pixels - targets) ** 2)
    center = over(targets)[:, None, None]
    explained = 1 - values / jnp.maximum(over((targets - center) ** 2), 1e-6)
    return Losses(values, pixels, stats, jnp.maximum(explained, 0.0))
