"""One encoded picture as pixels, within bounds: known formats, sizes that fit, every level where it belongs.

Pillow reads dozens of formats, and some (EPS) start other programs. Here only those that data sets are made of are
read, and a picture's header is looked at before its pixels are.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from jaxrobust.core.errors import CorruptFileError
from jaxrobust.core.reading import reading

if TYPE_CHECKING:
  from PIL.Image import Image

FORMATS = ("JPEG", "PNG", "BMP", "WEBP")
# Four times a photograph of 16 megapixels.
MOST_PIXELS = 2**26
# Preprocessings enlarge the short side to 256 pixels: beyond this the long one takes gigabytes.
LONGEST_SIDES = 64
# 16 bits of gray, as Pillow calls them on either kind of machine; from PNG files the levels are 0 … 65535.
_SIXTEEN_BITS = ("I;16", "I;16B", "I;16L", "I;16N", "I")
_KNOWN = ("1", "L", "P", "RGB", "RGBA", "LA", "PA", "CMYK", "YCbCr", *_SIXTEEN_BITS)
_ROWS = 64


def load_formats() -> None:
  """Loads Pillow's formats; left to threads, the second one to meet a rarer format would not find it."""
  from PIL import Image

  Image.init()


def open_picture(data: bytes, alpha: str = "drop") -> Image:
  """Returns a picture in RGB, 8 bits a color; raises CorruptFileError, without the file's name, for anything else.

  Gray levels of 16 bits become the nearest of 8 bits (65535 is 255), where Pillow alone would cut them off at 255.

  Args:
    alpha: what to do with pictures that have transparent pixels: `refuse` them, or `drop` the transparency as
      torchvision's loader does, with which numbers on published sets are made.
  """
  with opened(data) as picture:
    return _to_rgb(picture, alpha)


def check_picture(data: bytes) -> None:
  """Raises CorruptFileError for what `open_picture` would not open, for decoders other than Pillow."""
  with opened(data):
    pass


@contextlib.contextmanager
def opened(data: bytes) -> Iterator[Image]:
  """Opens the context of a picture as Pillow has it, its header checked and its pixels not yet read."""
  from PIL import Image, UnidentifiedImageError

  with reading("damaged"):
    try:
      picture = Image.open(io.BytesIO(data), formats=FORMATS)
    except UnidentifiedImageError:  # Pillow names the buffer it was given, which says nothing.
      raise CorruptFileError("not a picture of a known format") from None
    with picture:
      _check_header(picture)
      yield picture


def _check_header(picture: Image) -> None:
  width, height = picture.size
  if width * height > MOST_PIXELS:
    raise CorruptFileError(f"a picture of {width}x{height}, more than {MOST_PIXELS} pixels")
  if max(width, height) > LONGEST_SIDES * min(width, height):
    raise CorruptFileError(f"a picture of {width}x{height}, longer than {LONGEST_SIDES} times its width")
  # Gray levels are rounded below; of colors Pillow keeps the high byte.
  tiles = vars(picture).get("tile", ())
  if picture.mode not in _SIXTEEN_BITS and any(";16" in str(tile[-1]) for tile in tiles):
    raise CorruptFileError("a picture of several channels of 16 bits, which would be cut to 8: convert it first")
  if picture.mode not in _KNOWN:
    raise CorruptFileError(f"a picture in Pillow's mode {picture.mode}, which is not read")


def _to_rgb(picture: Image, alpha: str) -> Image:
  from PIL import Image

  if alpha == "refuse" and _is_transparent(picture):
    raise CorruptFileError("it has transparent pixels; put it on a background of your choice")
  if picture.mode in _SIXTEEN_BITS:
    return Image.fromarray(_eight_bits(np.asarray(picture))).convert("RGB")
  return picture.convert("RGB")


def _eight_bits(levels: np.ndarray) -> np.ndarray:
  """Returns the nearest of 256 levels, a few rows at a time: whole pictures of wider integers take gigabytes."""
  if levels.min() < 0 or levels.max() > 65535:
    raise CorruptFileError("gray levels beyond 16 bits")
  nearest, found = ((np.arange(2**16) + 128) // 257).astype(np.uint8), np.empty(levels.shape, np.uint8)
  for row in range(0, len(levels), _ROWS):
    found[row : row + _ROWS] = nearest[levels[row : row + _ROWS]]
  return found


def _is_transparent(picture: Image) -> bool:
  if not picture.mode.endswith("A") and "transparency" not in picture.info:
    return False
  if picture.mode in _SIXTEEN_BITS:
    return bool(np.any(np.asarray(picture) == picture.info["transparency"]))
  lowest, _ = picture.convert("RGBA").getchannel("A").getextrema()
  return lowest < 255  # type: ignore[operator]
