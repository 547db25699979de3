"""Cutout and random erasing: a box of each image is hidden."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from jaxrobust.core.errors import InputError
from jaxrobust.core.types import Array
from jaxrobust.training.technique import TECHNIQUES, Augmentation

# Boxes drawn until one fits into the image, as torchvision does.
ATTEMPTS = 10
Side = Array | int


def box(shape: tuple[int, ...], top: Side, left: Side, height: Side, width: Side) -> Array:
  """Returns (H, W, 1), True inside the box, which may reach over the border.

  >>> int(box((4, 4, 3), -1, 2, 3, 1).sum())
  2
  """
  rows, columns = jnp.arange(shape[0])[:, None], jnp.arange(shape[1])[None, :]
  inside = (rows >= top) & (rows < top + height) & (columns >= left) & (columns < left + width)
  return inside[..., None]


@TECHNIQUES.register("cutout")
@dataclass(frozen=True)
class Cutout(Augmentation):
  """A gray square at a random place, partly outside if it falls so; DeVries and Taylor 2017 (arXiv:1708.04552).

  16 pixels on CIFAR-10. `fill` is the authors' zero after normalization, the mean color: about 0.5.
  """

  size: int = 16
  fill: float = 0.5

  def __post_init__(self) -> None:
    if self.size < 1 or not 0 <= self.fill <= 1:
      raise InputError(f"cutout needs a size of at least 1 and a fill in [0, 1], got {self.size} and {self.fill}")

  def augment(self, image: Array, key: Array) -> Array:
    center = jax.random.uniform(key, (2,)) * jnp.asarray(image.shape[:2])
    top, left = jnp.floor(center) - self.size // 2
    return jnp.where(box(image.shape, top, left, self.size, self.size), self.fill, image)


@TECHNIQUES.register("random-erasing")
@dataclass(frozen=True)
class RandomErasing(Augmentation):
  """A box of random area and aspect, black or noise; Zhong et al. 2020 (arXiv:1708.04896), torchvision's numbers.

  ARES-Bench erases a quarter of its images (probability 0.25, noise).
  """

  probability: float = 0.5
  smallest: float = 0.02
  largest: float = 0.33
  narrowest: float = 0.3
  widest: float = 3.3
  noise: bool = False

  def __post_init__(self) -> None:
    if not 0 < self.smallest <= self.largest < 1 or not 0 < self.narrowest <= self.widest:
      raise InputError(f"random erasing needs 0 < smallest <= largest < 1 and 0 < narrowest <= widest, got {self}")
    if not 0 <= self.probability <= 1:
      raise InputError(f"the probability must be in [0, 1], got {self.probability}")

  def augment(self, image: Array, key: Array) -> Array:
    area_key, aspect_key, place_key, apply_key, noise_key = jax.random.split(key, 5)
    size = jnp.asarray(image.shape[:2], jnp.float32)
    area = jax.random.uniform(area_key, (ATTEMPTS,), minval=self.smallest, maxval=self.largest) * size[0] * size[1]
    low, high = jnp.log(self.narrowest), jnp.log(self.widest)
    ratio = jnp.exp(jax.random.uniform(aspect_key, (ATTEMPTS,), minval=low, maxval=high))
    sides = jnp.round(jnp.sqrt(area[:, None] * jnp.stack([ratio, 1 / ratio], -1)))
    fits = jnp.all(sides < size, axis=-1)
    sides = sides[jnp.argmax(fits)]
    start = jnp.floor(jax.random.uniform(place_key, (2,)) * (size - sides + 1))
    hidden = box(image.shape, start[0], start[1], sides[0], sides[1])
    fill = jax.random.uniform(noise_key, image.shape) if self.noise else jnp.zeros_like(image)
    apply = jax.random.bernoulli(apply_key, self.probability) & jnp.any(fits)
    return jnp.where(hidden & apply, fill, image)
