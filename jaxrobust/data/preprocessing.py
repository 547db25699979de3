"""From a picture to the array a classifier sees: named, because the name belongs to the result.

  resize256-crop224           the shorter side to 256, then the middle 224x224: ImageNet's usual evaluation
  resize256-crop224-bicubic   with another filter: bilinear (unless said), bicubic, nearest, lanczos, box, hamming
  stretch224                  both sides to 224, whatever the proportions: RobustBench's for ImageNet-C
  stretch256-crop224          both sides to 256, then the middle 224x224: RobustART's ImageNet-S
  crop224                     the middle 224x224 and no resizing: ImageNet-C's files already have that size
  none                        as it is; all images of the set have one size
All give uint8 RGB and use Pillow's filters, which smooth when they shrink.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from jaxrobust.core.errors import InputError

if TYPE_CHECKING:
  from PIL.Image import Image

USUAL = "resize256-crop224"
FILTERS = ("bilinear", "bicubic", "nearest", "lanczos", "box", "hamming")
_NAME = re.compile(rf"(?:(resize|stretch)([1-9]\d*))?(?:(?:^|-)crop([1-9]\d*))?(?:-({'|'.join(FILTERS)}))?")


def preprocessing_name(size: int, crop_fraction: float = 0.875, interpolation: str = "bilinear") -> str:
  """Names what a network of that input size is evaluated with.

  >>> preprocessing_name(224), preprocessing_name(288, 0.95, "bicubic"), preprocessing_name(32, 1.0)
  ('resize256-crop224', 'resize303-crop288-bicubic', 'resize32-crop32')
  """
  name = f"resize{math.floor(size / crop_fraction)}-crop{size}"
  return name if interpolation == "bilinear" else f"{name}-{interpolation}"


@functools.cache
def make_preprocessing(name: str) -> Callable[[Image], np.ndarray]:
  """Returns the function that a name stands for.

  >>> from PIL import Image
  >>> make_preprocessing("resize20-crop16")(Image.new("RGB", (80, 40))).shape
  (16, 16, 3)
  """
  if name == "none":
    return np.asarray
  match = _NAME.fullmatch(name)
  if not name or match is None:
    raise InputError(f"unknown preprocessing {name!r}; write it like resize256-crop224-bicubic, stretch224 or none")
  how, size, crop, kind = match.groups()

  def preprocess(image: Image) -> np.ndarray:
    if how:
      image = _resized(image, how, int(size), kind or "bilinear")
    levels = np.asarray(image)
    return center_crop(levels, int(crop)) if crop else levels

  return preprocess


def crop_size(name: str) -> int | None:
  """Returns the side of what a preprocessing gives, where the name says it.

  >>> crop_size("resize256-crop224"), crop_size("stretch32"), crop_size("none")
  (224, 32, None)
  """
  match = _NAME.fullmatch(name)
  if match is None:
    return None
  how, size, crop, _ = match.groups()
  return int(crop) if crop else int(size) if how == "stretch" else None


def fitting(own: str, wanted: str) -> str:
  """Returns how files that a set reads by `own` are read for a network that wants another preprocessing.

  Files of any size follow the network. Those that have been cut to one size (`crop224`, `stretch32`) keep theirs, and
  are scaled as a whole where the network takes another one; files read as they are stay so.

  >>> fitting("resize256-crop224", "resize272-crop240"), fitting("crop224", "resize272-crop240")
  ('resize272-crop240', 'stretch240')
  >>> fitting("crop224", "resize256-crop224-bicubic"), fitting("none", "resize272-crop240")
  ('crop224', 'none')
  """
  if own.startswith("resize"):
    return wanted
  size = crop_size(wanted)
  return own if size in (None, crop_size(own)) or crop_size(own) is None else f"stretch{size}"


def center_crop(image: np.ndarray, size: int) -> np.ndarray:
  """Returns the middle size x size pixels; halves round to even, as torchvision's do.

  >>> center_crop(np.arange(25).reshape(5, 5, 1), 2)[..., 0].tolist()
  [[12, 13], [17, 18]]
  """
  height, width = image.shape[:2]
  if min(height, width) < size:
    raise InputError(f"an image of {width}x{height} has no middle of {size}x{size}")
  top, left = round((height - size) / 2), round((width - size) / 2)
  return image[top : top + size, left : left + size]


def _resized(image: Image, how: str, size: int, kind: str) -> Image:
  from PIL.Image import Resampling

  width, height = image.size
  short = min(width, height)
  new = (size, size) if how == "stretch" else (int(size * width / short), int(size * height / short))
  return image if how == "stretch" and image.size == new else image.resize(new, Resampling[kind.upper()])
