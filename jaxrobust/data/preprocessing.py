"""From a picture to the array a classifier sees: named, because the name belongs to the result.

All use Pillow's bilinear filter (which smooths when it shrinks) and give uint8 RGB.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from jaxrobust.core.errors import InputError
from jaxrobust.core.registry import Registry

if TYPE_CHECKING:
  from PIL.Image import Image

PREPROCESSINGS: Registry[Callable[[Image], np.ndarray]] = Registry("preprocessing")


@PREPROCESSINGS.register("resize256-crop224")
def resize256_crop224(image: Image) -> np.ndarray:
  """The shorter side to 256, then the middle 224x224: ImageNet's usual evaluation."""
  width, height = image.size
  short = min(width, height)
  size = (int(256 * width / short), int(256 * height / short))
  return center_crop(np.asarray(image.resize(size, _bilinear())), 224)


@PREPROCESSINGS.register("stretch224")
def stretch224(image: Image) -> np.ndarray:
  """Both sides to 224, whatever the proportions: OODRobustBench."""
  return np.asarray(image if image.size == (224, 224) else image.resize((224, 224), _bilinear()))


@PREPROCESSINGS.register("stretch32")
def stretch32(image: Image) -> np.ndarray:
  """Both sides to 32: for networks of CIFAR's size."""
  return np.asarray(image if image.size == (32, 32) else image.resize((32, 32), _bilinear()))


@PREPROCESSINGS.register("stretch256-crop224")
def stretch256_crop224(image: Image) -> np.ndarray:
  """Both sides to 256, then the middle 224x224: RobustART's ImageNet-S."""
  return center_crop(np.asarray(image.resize((256, 256), _bilinear())), 224)


@PREPROCESSINGS.register("crop224")
def crop224(image: Image) -> np.ndarray:
  """The middle 224x224 and no resizing: ImageNet-C's files already have that size and must not be resampled."""
  return center_crop(np.asarray(image), 224)


@PREPROCESSINGS.register("none")
def none(image: Image) -> np.ndarray:
  """As it is; all images of the set have one size."""
  return np.asarray(image)


def center_crop(image: np.ndarray, size: int) -> np.ndarray:
  """The middle size x size pixels; halves round to even, as torchvision's do.

  >>> center_crop(np.arange(25).reshape(5, 5, 1), 2)[..., 0].tolist()
  [[12, 13], [17, 18]]
  """
  height, width = image.shape[:2]
  if min(height, width) < size:
    raise InputError(f"an image of {width}x{height} has no middle of {size}x{size}")
  top, left = round((height - size) / 2), round((width - size) / 2)
  return image[top : top + size, left : left + size]


def _bilinear() -> int:
  from PIL import Image

  return Image.Resampling.BILINEAR
