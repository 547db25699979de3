"""Corruptions by name. A new one is a function of (image, key, rows, severity) with its rows, and one line here.

noise = make_noise("fog", severity=3, table=32)
foggy = noise(image, key)                       # one image (H, W, 3) in [0, 1]
foggy = noise.batch(images, seed=0, ids=ids)    # many; the same noise for example i in any batch
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxrobust.core.errors import InputError
from jaxrobust.core.keys import item_key_data
from jaxrobust.core.mesh import map_rows
from jaxrobust.core.registry import Registry
from jaxrobust.noises import blur, color, frost, geometry, jpeg, motion, pixels, spatter, tables, weather

SMALLEST = 32
SEVERITIES = 5


@dataclass(frozen=True)
class Corruption:
  """A registry entry.

  Attributes:
    apply: (image, key, rows of all severities, severity from 0) -> image, not clipped.
    static: whether shapes depend on the severity, so that each has a program of its own.
    random: whether the key matters.
    rows: by table, 224 and 32, the rows of the five severities; None for those of `tables`, the official ones.
  """

  apply: Callable[..., Array]
  static: bool = False
  random: bool = True
  rows: Mapping[int, tables.Rows] | None = None


NOISES: Registry[Corruption] = Registry("corruption")
NOISES.register("gaussian_noise")(Corruption(pixels.gaussian_noise))
NOISES.register("shot_noise")(Corruption(pixels.shot_noise))
NOISES.register("impulse_noise")(Corruption(pixels.impulse_noise))
NOISES.register("speckle_noise")(Corruption(pixels.speckle_noise))
NOISES.register("defocus_blur")(Corruption(blur.defocus_blur, random=False))
NOISES.register("glass_blur")(Corruption(blur.glass_blur))
NOISES.register("motion_blur")(Corruption(motion.motion_blur))
NOISES.register("zoom_blur")(Corruption(blur.zoom_blur, static=True, random=False))
NOISES.register("gaussian_blur")(Corruption(blur.gaussian_blur, random=False))
NOISES.register("snow")(Corruption(motion.snow))
NOISES.register("frost")(Corruption(frost.frost))
NOISES.register("fog")(Corruption(weather.fog))
NOISES.register("spatter")(Corruption(spatter.spatter))
NOISES.register("brightness")(Corruption(color.brightness, random=False))
NOISES.register("contrast")(Corruption(color.contrast, random=False))
NOISES.register("saturate")(Corruption(color.saturate, random=False))
NOISES.register("jpeg_compression")(Corruption(jpeg.jpeg_compression, random=False))
NOISES.register("pixelate")(Corruption(geometry.pixelate, random=False))
NOISES.register("elastic_transform")(Corruption(geometry.elastic_transform))


@dataclass(frozen=True)
class Noise:
  """A corruption at a severity.

  Attributes:
    name: one of `NOISES`.
    severity: 1 … 5.
    table: which severity table, 224 (ImageNet-C) or 32 (CIFAR-C).
    jpeg_quality: of a last compression of the result; the official ImageNet-C files were saved with 85.
    frost_folder: where the authors' pictures of frost are; procedural textures without.
  """

  name: str
  severity: int
  table: int = 224
  jpeg_quality: int | None = None
  frost_folder: str | None = None

  def __call__(self, image: Array, key: Array) -> Array:
    """Returns one corrupted image (H, W, 3), in the 256 gray levels of a file."""
    return self._corrupt(image, key, self.severity - 1)

  def batch(self, images: np.ndarray, seed: int, ids: np.ndarray, rows: int | None = None) -> np.ndarray:
    """Returns corrupted images (N, H, W, 3); the noise belongs to (seed, corruption, id), whatever the batch.

    Args:
      rows: images per device at once, on all devices; all of them on one by default.
    """
    check_size(images.shape[1:])
    words = np.stack([noise_key_data(self.name, seed, int(example)) for example in ids])
    # Severities share a program, unless their shapes differ.
    shared = self if NOISES[self.name].static else replace(self, severity=1)
    return map_rows(_program(shared), rows or len(images), (images, words), self.severity - 1)

  @property
  def id(self) -> str:
    """As cells name it: 'fog-3'; other tables than 224 and a last compression are said."""
    text = f"{self.name}-{self.severity}" + ("" if self.table == 224 else f"-t{self.table}")
    text += "" if self.jpeg_quality is None else f"-q{self.jpeg_quality}"
    return text if self.frost_folder is None else f"{text}-files"

  def _corrupt(self, image: Array, key: Array, severity: Array | int) -> Array:
    extra = {"folder": self.frost_folder} if self.name == "frost" else {}
    image = NOISES[self.name].apply(image, key, rows_of(self.name, self.table), severity, **extra)
    # The authors cut off decimals where they make files; the small number undoes rounding in float32.
    image = jnp.floor(jnp.clip(image, 0, 1) * 255 + 1e-3) / 255
    return image if self.jpeg_quality is None else jpeg.through_jpeg(image, self.jpeg_quality)


def make_noise(
  name: str, severity: int, table: int = 224, jpeg_quality: int | None = None, frost_folder: str | None = None
) -> Noise:
  """Returns the corruption of that name and severity.

  >>> make_noise("fog", 3).id
  'fog-3'
  >>> make_noise("fogg", 3)
  Traceback (most recent call last):
  jaxrobust.core.errors.UnknownNameError: unknown corruption 'fogg'; did you mean 'fog'?
  """
  rows_of(name, table)  # Unknown names raise UnknownNameError with the nearest ones.
  if severity not in range(1, SEVERITIES + 1):
    raise InputError(f"severity must be an integer from 1 to {SEVERITIES}, got {severity!r}")
  if jpeg_quality is not None and not 1 <= jpeg_quality <= 100:
    raise InputError(f"a JPEG quality is a number from 1 to 100, got {jpeg_quality!r}")
  return Noise(name, severity, table, jpeg_quality, frost_folder if name == "frost" else None)


def rows_of(name: str, table: int) -> tables.Rows:
  """Returns the five rows of a corruption: its own, or those of the official tables."""
  found = NOISES[name].rows
  if found is None or table not in found:
    return tables.rows(name, table)
  return found[table]


def check_size(shape: tuple[int, ...]) -> None:
  """Raises InputError for images that are not RGB or too small for the corruptions to make sense."""
  if len(shape) != 3 or shape[2] != 3 or min(shape[:2]) < SMALLEST:
    raise InputError(f"corruptions need RGB images of at least {SMALLEST}x{SMALLEST}, got {shape}")


def noise_key_data(name: str, seed: int, example: int) -> np.ndarray:
  """Returns the words of an example's key: shared by all severities, so that curves over severity are smooth."""
  return item_key_data(seed, example, zlib.crc32(name.encode()), 0)


@functools.cache
def _program(noise: Noise) -> Callable[..., Array]:
  """Returns the program for batches; the severity is traced unless shapes depend on it."""

  def run(images: Array, words: Array, severity: Array) -> Array:
    index = noise.severity - 1 if NOISES[noise.name].static else severity
    one = lambda image, word: noise._corrupt(image, jax.random.wrap_key_data(word), index)
    return jax.vmap(one)(images, words)

  return run
