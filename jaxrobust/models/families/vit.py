"""Vision transformers: ViT (arXiv:2010.11929), DeiT (arXiv:2012.12877) and the ConvStem variants of arXiv:2303.01870.

Layer names and evaluation settings are timm's. The class token is read out after a last layer norm; networks that MAE
was fine-tuned into (arXiv:2111.06377) read the mean of all others and normalize that. CLIP's image encoder
(arXiv:2103.00020) normalizes before the first block too, has patches without bias and QuickGELU. Drop rates are
zero unless asked for, as in timm. Dropout follows the ViT paper: after the position embedding and after every linear
layer except those of queries, keys and values.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from flax import linen as nn

from jaxrobust.core.types import Array
from jaxrobust.models.layers.attention import TransformerBlock, dense, depth_rates
from jaxrobust.models.layers.basic import dropout, layer_norm
from jaxrobust.models.layers.patches import ConvStem, Hide, PatchConv
from jaxrobust.models.registry import (
  IMAGENET_MEAN,
  IMAGENET_STD,
  INCEPTION_MEAN,
  INCEPTION_STD,
  MODELS,
  ModelSpec,
  cifar_spec,
  imagenet_spec,
)


class ViT(nn.Module):
  """Patches, a class token, pre-norm transformer blocks.

  Attributes:
    conv_stem: whether four strided convolutions replace the patch embedding (patches of 16 pixels then).
    layer_scale: initial value of the learned factors on the branches (DeiT III); None has none.
    embed_class: whether the class token gets a position embedding of its own.
    pooled: whether the mean of the patches' tokens is read out instead of the class token (MAE's fine-tuned networks).
    clip: whether it is built as CLIP's image encoder.
    distilled: whether a second token, which learned from a teacher, has a head of its own; logits are the mean of both.
  """

  patch_size: int
  features: int
  depth: int
  num_heads: int
  num_classes: int = 1000
  conv_stem: bool = False
  layer_scale: float | None = None
  embed_class: bool = True
  drop_rate: float = 0.0
  drop_path_rate: float = 0.0
  pooled: bool = False
  clip: bool = False
  distilled: bool = False

  @nn.compact
  def __call__(self, x: Array, train: bool = False, hide: Hide = jnp.add, tokens: bool = False) -> Array:
    """Returns logits, or the normalized `tokens` of the last block, class token first; `hide` says what blocks see."""
    if self.conv_stem:
      x = ConvStem((48, 96, 192, 384), (2, 2, 2, 2), self.features, name="patch_embed.proj.stem")(x)
    else:
      x = PatchConv(self.features, self.patch_size, not self.clip, name="patch_embed.proj")(x)
    x = x.reshape(x.shape[0], -1, self.features)
    x = dropout(self._embed_position(x, hide), self.drop_rate, train)
    epsilon = 1e-5 if self.clip else 1e-6
    if self.clip:
      x = layer_norm("norm_pre", epsilon)(x)
    for index, rate in enumerate(depth_rates(self.drop_path_rate, (self.depth,))[0]):
      block = TransformerBlock(
        self.num_heads,
        epsilon=epsilon,
        layer_scale=self.layer_scale,
        drop_rate=self.drop_rate,
        drop_path=rate,
        quick=self.clip,
        name=f"blocks_{index}",
      )
      x = block(x, train)
    norm = layer_norm("fc_norm" if self.pooled else "norm", epsilon)
    if tokens:
      return norm(x)
    if self.distilled:
      x = norm(x)
      return (dense(self.num_classes, "head")(x[:, 0]) + dense(self.num_classes, "head_dist")(x[:, 1])) / 2
    return dense(self.num_classes, "head")(norm(x[:, 1:].mean(1) if self.pooled else x[:, 0]))

  def _embed_position(self, x: Array, hide: Hide) -> Array:
    names = ("cls_token", "dist_token") if self.distilled else ("cls_token",)
    tokens = [self.param(name, nn.initializers.normal(1e-6), (1, 1, self.features)) for name in names]
    token = jnp.concatenate(tokens, axis=1).astype(x.dtype) if self.distilled else tokens[0].astype(x.dtype)
    token, count = jnp.broadcast_to(token, (x.shape[0], len(names), self.features)), len(names)
    shape = (1, x.shape[1] + count * self.embed_class, self.features)
    position = self.param("pos_embed", nn.initializers.normal(0.02), shape).astype(x.dtype)
    if self.embed_class:
      token, position = token + position[:, :count], position[:, count:]
    return jnp.concatenate([token, hide(x, position)], axis=1)


# Features, depth, heads.
_SIZES = {
  "tiny": (192, 12, 3),
  "small": (384, 12, 6),
  "medium": (512, 12, 8),
  "base": (768, 12, 12),
  "large": (1024, 24, 16),
}
_imagenet = functools.partial(imagenet_spec, crop_fraction=0.9, interpolation="bicubic")


def _build(size: str, patch_size: int, **options: Any) -> Callable[..., nn.Module]:
  return functools.partial(ViT, patch_size, *_SIZES[size], **options)


for _size, _patch in (("small", 16), ("base", 16), ("base", 32), ("large", 16)):
  _name = f"vit_{_size}_patch{_patch}_224"
  _text = f"ViT-{_size[0].upper()}/{_patch} (Dosovitskiy et al. 2021)"
  MODELS.register(_name)(
    _imagenet(_build(_size, _patch), _text, f"timm:{_name}", mean=INCEPTION_MEAN, std=INCEPTION_STD)
  )

for _size in ("base", "large"):
  _name = f"vit_{_size}_patch16_224"
  MODELS.register(f"{_name}_mae")(
    _imagenet(_build(_size, 16, pooled=True), f"ViT-{_size[0].upper()}/16 as MAE is fine-tuned (He et al. 2022)")
  )

# OpenAI's normalization; its networks resize with bicubic interpolation and cut nothing off.
_CLIP_MEAN, _CLIP_STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
for _size, _patch in (("base", 16), ("base", 32), ("large", 14)):
  _name = f"vit_{_size}_patch{_patch}_clip_quickgelu_224"
  _text = f"ViT-{_size[0].upper()}/{_patch}, CLIP's image encoder (Radford et al. 2021)"
  MODELS.register(_name)(
    imagenet_spec(
      _build(_size, _patch, clip=True),
      _text,
      mean=_CLIP_MEAN,
      std=_CLIP_STD,
      crop_fraction=1.0,
      interpolation="bicubic",
    )
  )

for _size in ("tiny", "small", "base"):
  _name = f"deit_{_size}_patch16_224"
  MODELS.register(_name)(
    _imagenet(_build(_size, 16), f"DeiT-{_size}, no distillation token (Touvron et al. 2021)", f"timm:{_name}")
  )

  _name = f"deit_{_size}_distilled_patch16_224"
  MODELS.register(_name)(
    _imagenet(_build(_size, 16, distilled=True), f"DeiT-{_size}, distilled (Touvron et al. 2021)", f"timm:{_name}")
  )

for _size in ("small", "medium", "base"):
  _name = f"deit3_{_size}_patch16_224"
  _three = _build(_size, 16, layer_scale=1e-6, embed_class=False)
  MODELS.register(_name)(_imagenet(_three, f"DeiT III-{_size} (Touvron et al. 2022)", f"timm:{_name}"))

# torchvision's own names: the same layers, ImageNet's normalization.
for _short, _size, _patch in (("b_16", "base", 16), ("b_32", "base", 32), ("l_16", "large", 16)):
  _text = f"ViT-{_size[0].upper()}/{_patch} of torchvision"
  MODELS.register(f"vit_{_short}")(imagenet_spec(_build(_size, _patch), _text))

# The medium size builds on DeiT III. Of the published weights only the small ones expect normalized images.
_CVST: dict[str, dict[str, Any]] = {"small": {}, "medium": {"layer_scale": 1e-6, "embed_class": False}, "base": {}}
for _size, _options in _CVST.items():
  _mean, _std = (IMAGENET_MEAN, IMAGENET_STD) if _size == "small" else ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0))
  MODELS.register(f"vit_{_size}_patch16_224_cvst")(
    imagenet_spec(
      _build(_size, 16, conv_stem=True, **_options),
      f"ViT-{_size[0].upper()} with a convolutional stem (Singh et al. 2023)",
      mean=_mean,
      std=_std,
      interpolation="bicubic",
    )
  )

MODELS.register("cifar-vit_base_patch4")(
  cifar_spec(_build("base", 4), "ViT-B for 32 pixels, 4-pixel patches (OODRobustBench's CIFAR zoo)")
)

MODELS.register("vit-micro")(
  ModelSpec(
    functools.partial(ViT, patch_size=4, features=64, depth=2, num_heads=4),
    (32, 32, 3),
    INCEPTION_MEAN,
    INCEPTION_STD,
    "two small transformer blocks on 4-pixel patches, for the embedded digits and for tests",
  )
)
