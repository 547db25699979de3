"""Augmentations of one image, on device, with the example's own key."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from jaxrobust.core.errors import InputError
from jaxrobust.core.types import Array
from jaxrobust.training.technique import TECHNIQUES, Augmentation

# ITU-R 601 luma, the gray of Pillow and torchvision.
LUMA = (0.299, 0.587, 0.114)


@TECHNIQUES.register("flip")
@dataclass(frozen=True)
class Flip(Augmentation):
  """Left and right exchanged for half of the images."""

  def augment(self, image: Array, key: Array) -> Array:
    return jnp.where(jax.random.bernoulli(key), image[:, ::-1], image)


@TECHNIQUES.register("pad-crop-flip")
@dataclass(frozen=True)
class PadCropFlip(Augmentation):
  """Zero padding, a random crop of the old size, then `flip`: the CIFAR recipe of He et al. 2016 (padding 4)."""

  padding: int = 4
  flip: bool = True

  def __post_init__(self) -> None:
    if self.padding < 0:
      raise InputError(f"padding must not be negative, got {self.padding}")

  def augment(self, image: Array, key: Array) -> Array:
    crop, flip = jax.random.split(key)
    height, width, channels = image.shape
    padded = jnp.pad(image, ((self.padding, self.padding), (self.padding, self.padding), (0, 0)))
    top, left = jax.random.randint(crop, (2,), 0, 2 * self.padding + 1)
    image = jax.lax.dynamic_slice(padded, (top, left, 0), (height, width, channels))
    return Flip().augment(image, flip) if self.flip else image


@TECHNIQUES.register("random-resized-crop")
@dataclass(frozen=True)
class RandomResizedCrop(Augmentation):
  """A crop of random area and aspect, resized back; Szegedy et al. 2015 (arXiv:1409.4842), torchvision's numbers.

  Known deviation: an area and aspect that do not fit are clipped to the image instead of being drawn again.
  """

  smallest: float = 0.08
  largest: float = 1.0
  aspect: float = 4 / 3

  def __post_init__(self) -> None:
    if not 0 < self.smallest <= self.largest <= 1:
      raise InputError(f"the area must satisfy 0 < smallest <= largest <= 1, got {self.smallest}, {self.largest}")
    if self.aspect < 1:
      raise InputError(f"the aspect must be at least 1, got {self.aspect}")

  def augment(self, image: Array, key: Array) -> Array:
    area_key, aspect_key, place_key = jax.random.split(key, 3)
    size = jnp.asarray(image.shape[:2], jnp.float32)
    area = jax.random.uniform(area_key, (), minval=self.smallest, maxval=self.largest)
    spread = jnp.log(self.aspect)
    ratio = jnp.exp(jax.random.uniform(aspect_key, (), minval=-1.0, maxval=1.0) * spread)
    # Of a unit square: height sqrt(area / ratio), width sqrt(area * ratio).
    share = jnp.minimum(jnp.sqrt(area * jnp.stack([1 / ratio, ratio])), 1.0)
    start = jax.random.uniform(place_key, (2,)) * (1 - share) * size
    scale = 1 / share
    resized = jax.image.scale_and_translate(
      image, image.shape, (0, 1), scale, -start * scale, method="linear", antialias=True
    )
    return jnp.clip(resized, 0.0, 1.0)


@TECHNIQUES.register("color-jitter")
@dataclass(frozen=True)
class ColorJitter(Augmentation):
  """Brightness, contrast and saturation scaled by factors in [1 - s, 1 + s]; hue turned by up to h of a circle.

  RobustART uses 0.4, 0.4, 0.4 and no hue (ARES-Bench alike). Known deviation from torchvision: the order is fixed.
  """

  brightness: float = 0.4
  contrast: float = 0.4
  saturation: float = 0.4
  hue: float = 0.0

  def __post_init__(self) -> None:
    if min(self.brightness, self.contrast, self.saturation, self.hue) < 0 or self.hue > 0.5:
      raise InputError(f"strengths of a jitter are not negative, and hue at most half a circle, got {self}")

  def augment(self, image: Array, key: Array) -> Array:
    keys = jax.random.split(key, 4)
    strengths = (self.brightness, self.contrast, self.saturation)
    low_high = [(max(0.0, 1 - strength), 1 + strength) for strength in strengths]
    factors = [jax.random.uniform(k, (), minval=a, maxval=b) for k, (a, b) in zip(keys, low_high, strict=False)]
    image = adjust_brightness(image, factors[0])
    image = adjust_contrast(image, factors[1])
    image = adjust_saturation(image, factors[2])
    if self.hue:
      image = rotate_hue(image, jax.random.uniform(keys[3], (), minval=-self.hue, maxval=self.hue))
    return image


def gray(image: Array) -> Array:
  """Returns (H, W, 1): the luma of an RGB image; the mean of other channels."""
  channels = image.shape[-1]
  weights = LUMA if channels == 3 else (1 / channels,) * channels
  # A sum over so short an axis is slower than its terms one by one.
  return sum((weight * image[..., c : c + 1] for c, weight in enumerate(weights)), jnp.zeros(()))


def _blend(other: Array, image: Array, factor: Array) -> Array:
  return jnp.clip(other + factor * (image - other), 0.0, 1.0)


def adjust_brightness(image: Array, factor: Array) -> Array:
  """Moves toward (or away from) black."""
  return _blend(jnp.zeros_like(image), image, factor)


def adjust_contrast(image: Array, factor: Array) -> Array:
  """Moves toward (or away from) the mean gray."""
  return _blend(jnp.full_like(image, jnp.mean(gray(image))), image, factor)


def adjust_saturation(image: Array, factor: Array) -> Array:
  """Moves toward (or away from) the gray image."""
  return _blend(gray(image), image, factor)


def rotate_hue(image: Array, turn: Array) -> Array:
  """Turns chroma by `turn` of a circle around the gray axis, in YIQ; three channels only."""
  if image.shape[-1] != 3:
    return image
  to_yiq = jnp.array([[0.299, 0.587, 0.114], [0.5959, -0.2746, -0.3213], [0.2115, -0.5227, 0.3112]])
  angle = 2 * jnp.pi * turn
  cos, sin = jnp.cos(angle), jnp.sin(angle)
  spin = (
    jnp.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]).at[1:, 1:].set(jnp.array([[cos, -sin], [sin, cos]]))
  )
  return jnp.clip(image @ (jnp.linalg.inv(to_yiq) @ spin @ to_yiq).T, 0.0, 1.0)
