"""System noise (ImageNet-S of RobustART, arXiv:2109.05211): the same file through another decoder and another resize.

Decoders Pillow, OpenCV and FFmpeg (through PyAV); resizes of Pillow and of OpenCV. Pillow and its bilinear filter are
the default and always there, the others come with the extra `jaxrobust[system]`. As in RobustART, pictures are
stretched to 8/7 of the size wanted and the middle is cut out. These are functions of a file's bytes, on the host.
"""

from __future__ import annotations

import importlib.util
import io
from collections.abc import Callable
from typing import Any

import numpy as np

from jaxrobust.core.errors import CorruptFileError, InputError
from jaxrobust.core.pictures import check_picture, open_picture
from jaxrobust.core.registry import Registry

DEFAULT_DECODER, DEFAULT_RESIZE = "pil", "pil-bilinear"
_PACKAGES = {"pil": "PIL", "opencv": "cv2", "ffmpeg": "av"}

DECODERS: Registry[Callable[[bytes], np.ndarray]] = Registry("decoder")
RESIZES: Registry[Callable[[np.ndarray, int, int], np.ndarray]] = Registry("resize")


@DECODERS.register("pil")
def decode_pil(data: bytes) -> np.ndarray:
  """Pillow (libjpeg-turbo)."""
  return np.asarray(open_picture(data))


@DECODERS.register("opencv")
def decode_opencv(data: bytes) -> np.ndarray:
  """OpenCV, BGR to RGB; a rotation stored in the file is not applied, as the others do not."""
  cv2 = _package("opencv")
  image = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION)
  if image is None:
    raise ValueError("OpenCV cannot decode it")
  return image[..., ::-1]


@DECODERS.register("ffmpeg")
def decode_ffmpeg(data: bytes) -> np.ndarray:
  """FFmpeg, whose own JPEG decoder and color conversion differ from libjpeg's."""
  av = _package("ffmpeg")
  with av.open(io.BytesIO(data)) as container:
    return next(container.decode(video=0)).to_ndarray(format="rgb24")


def _pil_resize(name: str) -> Callable[[np.ndarray, int, int], np.ndarray]:
  def resize(image: np.ndarray, height: int, width: int) -> np.ndarray:
    from PIL import Image

    return np.asarray(Image.fromarray(image).resize((width, height), getattr(Image.Resampling, name)))

  return resize


def _opencv_resize(name: str) -> Callable[[np.ndarray, int, int], np.ndarray]:
  def resize(image: np.ndarray, height: int, width: int) -> np.ndarray:
    cv2 = _package("opencv")
    return cv2.resize(np.ascontiguousarray(image), (width, height), interpolation=getattr(cv2, name))

  return resize


for _method, _flag in (
  ("nearest", "NEAREST"),
  ("bilinear", "BILINEAR"),
  ("cubic", "BICUBIC"),
  ("hamming", "HAMMING"),
  ("lanczos", "LANCZOS"),
  ("box", "BOX"),
):
  RESIZES.register(f"pil-{_method}")(_pil_resize(_flag))
for _method, _flag in (
  ("nearest", "INTER_NEAREST"),
  ("bilinear", "INTER_LINEAR"),
  ("area", "INTER_AREA"),
  ("cubic", "INTER_CUBIC"),
  ("lanczos", "INTER_LANCZOS4"),
):
  RESIZES.register(f"opencv-{_method}")(_opencv_resize(_flag))


def _package(tool: str) -> Any:
  try:
    return importlib.import_module(_PACKAGES[tool])
  except ImportError:
    raise InputError(f"{tool} is not installed: pip install 'jaxrobust[system]'") from None


def available() -> tuple[list[str], list[str]]:
  """Returns the decoders and resizes that can be used here."""
  there = {tool for tool, package in _PACKAGES.items() if importlib.util.find_spec(package) is not None}
  return [d for d in DECODERS if d in there], [r for r in RESIZES if r.split("-")[0] in there]


def missing() -> list[str]:
  """Returns the tools of the grid that are not installed, to be said wherever a grid is reported without them."""
  return [tool for tool, package in _PACKAGES.items() if importlib.util.find_spec(package) is None]


def read_image(
  data: bytes, decoder: str = DEFAULT_DECODER, resize: str = DEFAULT_RESIZE, size: int = 224
) -> np.ndarray:
  """Decodes a picture as uint8 (size, size, 3).

  >>> from PIL import Image
  >>> file = io.BytesIO(); Image.new("RGB", (40, 30), (9, 8, 7)).save(file, "PNG")
  >>> read_image(file.getvalue(), size=32)[0, 0].tolist()
  [9, 8, 7]
  """
  decode, scale = DECODERS[decoder], RESIZES[resize]
  try:
    check_picture(data)
    image = decode(data)
  except InputError:
    raise
  except Exception as error:  # Three libraries, three kinds of errors.
    raise CorruptFileError(f"{decoder} cannot decode an image of {len(data)} bytes: {error}") from None
  wide = size * 8 // 7
  image = scale(image, wide, wide)
  start = (wide - size) // 2
  return image[start : start + size, start : start + size]
