"""Stand-ins: `digits32` under distribution shift, so that every suite runs without a download.

Each stands for a kind of shift, not for a data set: `v2` other framing, `r` renditions (color, inversion, textured
ground), `sketch` edges, `a` the hard ones, `o` no digits at all (for outlier detection; labels mean nothing), `s`
encoded files (for system noise). `c` and `p` need no data of their own: they are `digits32` under the corruptions and
sequences of `jaxrobust.noises`. All are made from ids by fixed rules and rounded to 8 bits.
"""

from __future__ import annotations

import functools
import io
import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from jaxrobust.data.digits32 import CLASSES, SIZE, TEST, load_test
from jaxrobust.data.encoded import EncodedSource
from jaxrobust.data.judging import Judging
from jaxrobust.data.source import ArraySource, Dataset

# The 60 test digits whose nearest training digit of their own class is farthest, compared with that of another class.
# fmt: off
HARD_IDS = (
  18, 25, 68, 71, 88, 94, 105, 108, 125, 126, 128, 129, 134, 139, 141, 148, 153, 158, 159, 168, 171, 178, 188,
  213, 215, 218, 237, 238, 241, 258, 265, 283, 284, 289, 298, 299, 308, 323, 329, 332, 338, 339, 353, 359, 386,
  388, 398, 418, 419, 428, 438, 442, 448, 454, 455, 461, 468, 472, 482, 491,
)
# fmt: on
OUTLIERS = 200
_ENCODED_SIDE = 48


def _random(name: str, example: int) -> np.random.Generator:
  """Returns a generator that belongs to an example; numpy guarantees the stream of PCG64's raw integers."""
  return np.random.Generator(np.random.PCG64([*name.encode(), example]))


def _unit(rng: np.random.Generator, n: int) -> np.ndarray:
  return rng.integers(0, 1 << 20, n) / (1 << 20)


@functools.cache
def _digits() -> tuple[np.ndarray, np.ndarray]:
  images, labels = load_test().take(np.arange(TEST.size))
  return images[..., 0], labels


def _source(name: str, images: np.ndarray, labels: np.ndarray) -> ArraySource:
  if images.ndim == 3:
    images = np.repeat(images[..., None], 3, -1)
  levels = np.round(np.clip(images, 0, 1) * 255).astype(np.uint8)
  return ArraySource(name, levels, labels, CLASSES, tuple(map(str, range(CLASSES))))


def _sample(image: np.ndarray, y: np.ndarray, x: np.ndarray) -> np.ndarray:
  """Interpolates linearly; black outside."""
  padded = np.pad(image, 1)
  y, x = np.clip(y + 1, 0, SIZE + 0.999), np.clip(x + 1, 0, SIZE + 0.999)
  row, column = y.astype(int), x.astype(int)
  fy, fx = y - row, x - column
  upper = padded[row, column] * (1 - fx) + padded[row, column + 1] * fx
  lower = padded[row + 1, column] * (1 - fx) + padded[row + 1, column + 1] * fx
  return upper * (1 - fy) + lower * fy


def load_v2() -> ArraySource:
  """Returns other framings: turned by up to 15 degrees, scaled by 0.8 … 1.1, moved by up to 3 pixels."""
  images, labels = _digits()
  y, x = np.mgrid[0:SIZE, 0:SIZE] - (SIZE - 1) / 2
  result = []
  for example, image in enumerate(images):
    turn, scale, dy, dx = _unit(_random("v2", example), 4)
    angle, factor = np.deg2rad(30 * turn - 15), 1 / (0.8 + 0.3 * scale)
    source_y = factor * (np.cos(angle) * y - np.sin(angle) * x) + 6 * dy - 3
    source_x = factor * (np.sin(angle) * y + np.cos(angle) * x) + 6 * dx - 3
    result.append(_sample(image, source_y + (SIZE - 1) / 2, source_x + (SIZE - 1) / 2))
  return _source("digits32-v2", np.stack(result), labels)


def load_r() -> ArraySource:
  """Returns renditions in turns: two colors, inverted, on a ground of stripes."""
  images, labels = _digits()
  y, x = np.mgrid[0:SIZE, 0:SIZE]
  result = []
  for example, image in enumerate(images):
    draw = _unit(_random("r", example), 8)
    ink, ground = 0.4 + 0.6 * draw[:3], 0.4 * draw[3:6]
    if example % 3 == 1:
      ink, ground = ground, ink
    colored = ground + image[..., None] * (ink - ground)
    if example % 3 == 2:
      stripes = ((x * (1 + int(4 * draw[6])) + y * (1 + int(4 * draw[7]))) // 4) % 2
      colored = colored + 0.25 * stripes[..., None] * (1 - image[..., None])
    result.append(colored)
  return _source("digits32-r", np.stack(result), labels)


def load_sketch() -> ArraySource:
  """Loads edges, dark on white."""
  images, labels = _digits()
  padded = np.pad(images, ((0, 0), (1, 1), (1, 1)))
  dx = padded[:, 1:-1, 2:] - padded[:, 1:-1, :-2]
  dy = padded[:, 2:, 1:-1] - padded[:, :-2, 1:-1]
  edges = np.sqrt(dx**2 + dy**2)
  return _source("digits32-sketch", 1 - np.clip(2.5 * edges, 0, 1), labels)


def load_a() -> ArraySource:
  """Returns the hard ones, by a stored list of ids."""
  images, labels = _digits()
  return _source("digits32-a", images[list(HARD_IDS)], labels[list(HARD_IDS)])


def load_o() -> ArraySource:
  """Returns no digits: zigzags of random strokes."""
  y, x = np.mgrid[0:SIZE, 0:SIZE]
  images = np.zeros((OUTLIERS, SIZE, SIZE))
  for example in range(OUTLIERS):
    points = 4 + 24 * _unit(_random("o", example), 10).reshape(5, 2)
    for (y0, x0), (y1, x1) in itertools.pairwise(points):
      along = ((y - y0) * (y1 - y0) + (x - x0) * (x1 - x0)) / ((y1 - y0) ** 2 + (x1 - x0) ** 2 + 1e-9)
      along = np.clip(along, 0, 1)
      distance = np.sqrt((y - y0 - along * (y1 - y0)) ** 2 + (x - x0 - along * (x1 - x0)) ** 2)
      images[example] = np.maximum(images[example], np.clip(2.5 - distance, 0, 1))
  return replace(_source("digits32-o", images, np.zeros(OUTLIERS, np.int32)), judging=Judging(outliers=True))


class _Jpegs:
  """The digits, enlarged and encoded as JPEG when they are read."""

  def __init__(self) -> None:
    self.names = [f"{example:03d}.jpg" for example in range(TEST.size)]

  def read(self, name: str) -> bytes:
    from PIL import Image

    level = np.round(_digits()[0][int(name[:3])] * 255).astype(np.uint8)
    picture = Image.fromarray(level).convert("RGB").resize((_ENCODED_SIDE, _ENCODED_SIDE), Image.Resampling.BICUBIC)
    file = io.BytesIO()
    picture.save(file, "JPEG", quality=90)
    return file.getvalue()

  def hashes(self, names: Sequence[str]) -> dict[str, str]:
    # Made here from what is embedded; the bytes of a JPEG file depend on the library that writes it.
    return dict.fromkeys(names, str(_ENCODED_SIDE**2))


def load_s() -> EncodedSource:
  """Returns encoded files of 48x48 pixels."""
  store = _Jpegs()
  return EncodedSource("digits32-s", store, store.names, _digits()[1], CLASSES, "stretch32")


def _row(load: Callable[[], ArraySource | EncodedSource], text: str, size: int) -> Dataset:
  return Dataset(load, f"digits32, {text}", size, CLASSES, TEST.source, TEST.license)


SHIFTS = {
  "digits32-v2": _row(load_v2, "framed otherwise", TEST.size),
  "digits32-r": _row(load_r, "as colored, inverted and textured renditions", TEST.size),
  "digits32-sketch": _row(load_sketch, "as sketches", TEST.size),
  "digits32-a": _row(load_a, "the hard ones", len(HARD_IDS)),
  "digits32-o": _row(load_o, "outliers: strokes that are no digits", OUTLIERS),
  "digits32-s": _row(load_s, "as encoded files, for system noise", TEST.size),
}
