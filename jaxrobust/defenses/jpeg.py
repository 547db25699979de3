"""JPEG compression of what the classifier sees (Dziugaite et al. 2016, arXiv:1608.00853; Das et al. 2017).

The codec is that of libjpeg up to entropy coding (`noises.jpeg`), on the device. Adaptive: BPDA by the identity, since
levels, chroma and coefficients are rounded and the true gradient is zero wherever it exists.
Defaults: quality 75 (ARES on ImageNet; 95 on CIFAR-10). Deviation: ARES truncates pixels to bytes, this rounds them.
"""

from __future__ import annotations

import dataclasses

from jaxrobust.core.defense import ImageDefense
from jaxrobust.core.errors import InputError
from jaxrobust.core.types import Array
from jaxrobust.defenses.registry import DEFENSES
from jaxrobust.noises.jpeg import through_jpeg


@DEFENSES.register("jpeg")
@dataclasses.dataclass(frozen=True)
class JPEG(ImageDefense):
  """JPEG compression with a quality from 1 to 100.

  >>> import jax.numpy as jnp
  >>> bool(JPEG(quality=10).transform(jnp.full((16, 16, 3), 0.5), None).std() < 1e-6)
  True
  """

  name = "jpeg"
  quality: int = 75

  def __post_init__(self) -> None:
    if not 1 <= self.quality <= 100:
      raise InputError(f"the quality of a JPEG is from 1 to 100, got {self.quality}")

  def transform(self, image: Array, key: Array | None) -> Array:
    del key
    if image.shape[-1] != 3:
      raise InputError(f"the defense jpeg compresses images of 3 channels, not of {image.shape[-1]}")
    return through_jpeg(image, float(self.quality))
