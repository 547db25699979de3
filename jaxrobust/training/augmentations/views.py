"""The augmentation that contrastive learning takes its views from, as in MoCo v2 (arXiv:2003.04297).

A random resized crop of at least a fifth, color jitter (0.4, 0.4, 0.4, hue 0.1) with probability 0.8, gray with 0.2, a
Gaussian blur of sigma 0.1 to 2 (pixels of a 224-pixel image) with 0.5, a flip.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from jaxrobust.core.errors import InputError
from jaxrobust.core.types import Array
from jaxrobust.training.augmentations.augment import ColorJitter, Flip, RandomResizedCrop, gray
from jaxrobust.training.technique import TECHNIQUES, Augmentation

_SIDE = 224
_SIGMAS = (0.1, 2.0)


def blur(image: Array, sigma: Array, radius: int) -> Array:
  """Blurs with a Gaussian cut off at `radius`, edges repeated.

  >>> bool(jnp.allclose(blur(jnp.full((6, 6, 3), 0.3), jnp.float32(1.0), 2), 0.3))
  True
  """
  taps = jnp.exp(-0.5 * (jnp.arange(-radius, radius + 1) / sigma) ** 2)
  taps = taps / jnp.sum(taps)
  for axis in (0, 1):
    padding = [(radius, radius) if i == axis else (0, 0) for i in range(3)]
    padded = jnp.pad(image, padding, mode="edge")
    length = image.shape[axis]
    shifted = [jax.lax.slice_in_dim(padded, i, i + length, axis=axis) for i in range(2 * radius + 1)]
    image = jnp.tensordot(taps, jnp.stack(shifted), 1)
  return image


@TECHNIQUES.register("contrastive-views")
@dataclass(frozen=True)
class ContrastiveViews(Augmentation):
  """One view of an image; the probabilities are those of jitter, gray and blur."""

  smallest: float = 0.2
  jitter: float = 0.8
  gray: float = 0.2
  blur: float = 0.5

  def __post_init__(self) -> None:
    for name in ("jitter", "gray", "blur"):
      if not 0 <= vars(self)[name] <= 1:
        raise InputError(f"the probability of {name} must be in [0, 1], got {vars(self)[name]}")
    RandomResizedCrop(self.smallest)

  def augment(self, image: Array, key: Array) -> Array:
    crop, jitter, colors, shade, soften, sigma_key, flip = jax.random.split(key, 7)
    image = RandomResizedCrop(self.smallest).augment(image, crop)
    colored = ColorJitter(0.4, 0.4, 0.4, 0.1).augment(image, colors)
    image = jnp.where(jax.random.bernoulli(jitter, self.jitter), colored, image)
    shaded = jnp.broadcast_to(gray(image), image.shape)
    image = jnp.where(jax.random.bernoulli(shade, self.gray), shaded, image)
    scale = max(image.shape[:2]) / _SIDE
    sigma = jax.random.uniform(sigma_key, minval=_SIGMAS[0], maxval=_SIGMAS[1]) * scale
    blurred = blur(image, sigma, max(1, math.ceil(3 * _SIGMAS[1] * scale)))
    image = jnp.where(jax.random.bernoulli(soften, self.blur), blurred, image)
    return Flip().augment(image, flip)


def two_views(augmentation: ContrastiveViews, images: Array, keys: Array) -> tuple[Array, Array]:
  """Returns two independent views of each image."""
  pairs = jax.vmap(jax.random.split)(keys)
  one, two = (jax.vmap(augmentation.augment)(images, pairs[:, number]) for number in (0, 1))
  return one, two
