"""Random crops of whole pictures, for training: cut while a picture is decoded, at no more than the scale needed.

Area and aspect are drawn as torchvision's RandomResizedCrop draws them (Szegedy et al. 2015, arXiv:1409.4842): ten
tries, then the largest middle crop whose aspect is allowed. A JPEG is decoded at a half, a quarter or an eighth of
its size where the crop has still enough pixels there. The draw belongs to (seed, example, step): it is the same for
any number of readers, processes and stops.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from jaxrobust.core.keys import item_key_data
from jaxrobust.core.pictures import opened

# Beside the stages of attacks, which are hashes below 2**30.
CROP_STAGE = 0x7FFFFFFC
_TRIES = 10


class Crop(NamedTuple):
  """Says how crops are drawn: shares of the area, and the largest ratio of the sides."""

  smallest: float = 0.08
  largest: float = 1.0
  aspect: float = 4 / 3


def crop_box(crop: Crop, width: int, height: int, seed: int, example: int, step: int) -> tuple[int, int, int, int]:
  """Returns left, top, right and bottom of a crop of a picture.

  >>> left, top, right, bottom = crop_box(Crop(0.25, 0.25, 1.0), 100, 80, 0, 7, 3)
  >>> right - left == bottom - top == 45, 0 <= left <= 55, 0 <= top <= 35
  (True, True, True)
  """
  rng = np.random.Generator(np.random.PCG64(item_key_data(seed, example, CROP_STAGE, step).tolist()))
  spread = math.log(crop.aspect)
  for _ in range(_TRIES):
    area, ratio = rng.uniform(crop.smallest, crop.largest) * width * height, math.exp(rng.uniform(-spread, spread))
    across, down = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
    if 0 < across <= width and 0 < down <= height:
      left, top = int(rng.integers(width - across + 1)), int(rng.integers(height - down + 1))
      return left, top, left + across, top + down
  across = min(width, round(height * crop.aspect))
  down = min(height, round(width * crop.aspect))
  left, top = (width - across) // 2, (height - down) // 2
  return left, top, left + across, top + down


def cropped(data: bytes, crop: Crop, size: int, seed: int, example: int, step: int) -> np.ndarray:
  """Returns a random crop of an encoded picture as (size, size, 3) bytes."""
  from PIL import Image

  with opened(data) as picture:
    width, height = picture.size
    box = crop_box(crop, width, height, seed, example, step)
    across, down = box[2] - box[0], box[3] - box[1]
    # Only of JPEGs, and only by halves: the crop keeps at least `size` pixels on either side.
    picture.draft("RGB", (math.ceil(width * size / across), math.ceil(height * size / down)))
    x, y = picture.size[0] / width, picture.size[1] / height
    scaled = (box[0] * x, box[1] * y, min(box[2] * x, picture.size[0]), min(box[3] * y, picture.size[1]))
    return np.asarray(picture.convert("RGB").resize((size, size), Image.Resampling.BILINEAR, box=scaled))
