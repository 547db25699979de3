"""Severities 1 … 5 of the 19 corruptions, for images of ImageNet's and of CIFAR's size.

Numbers of Hendrycks and Dietterich 2019 (arXiv:1903.12261), read from the authors' `make_imagenet_c.py` and
`make_cifar_c.py`; see `third_party/README.md`. Kept with the authors' oddities: the elastic table is scaled
by 244 instead of 224, and `numpy.arange` decides how many zoom factors there are.
"""

from __future__ import annotations

import numpy as np

from jaxrobust.core.errors import InputError

# The fifteen that mCE averages, and the four that were kept for validation.
BENCHMARK = (
  "gaussian_noise",
  "shot_noise",
  "impulse_noise",
  "defocus_blur",
  "glass_blur",
  "motion_blur",
  "zoom_blur",
  "snow",
  "frost",
  "fog",
  "brightness",
  "contrast",
  "elastic_transform",
  "pixelate",
  "jpeg_compression",
)
EXTRA = ("speckle_noise", "gaussian_blur", "spatter", "saturate")

Rows = tuple[tuple[float, ...], ...]


def _column(*values: float) -> Rows:
  return tuple((value,) for value in values)


def _factors(*ranges: tuple[float, float]) -> Rows:
  """Returns zoom factors from 1 to a last one (exclusive up to rounding) in steps."""
  return tuple(tuple(float(f) for f in np.arange(1, stop, step)) for stop, step in ranges)


def _scaled(size: float, *rows: tuple[float, ...]) -> Rows:
  return tuple(tuple(size * value for value in row) for row in rows)


_IMAGENET: dict[str, Rows] = {
  "gaussian_noise": _column(0.08, 0.12, 0.18, 0.26, 0.38),  # standard deviation
  "shot_noise": _column(60, 25, 12, 5, 3),  # photons at full intensity
  "impulse_noise": _column(0.03, 0.06, 0.09, 0.17, 0.27),  # share of values replaced
  "speckle_noise": _column(0.15, 0.2, 0.35, 0.45, 0.6),
  "gaussian_blur": _column(1, 2, 3, 4, 6),
  # sigma, largest offset, rounds
  "glass_blur": ((0.7, 1, 2), (0.9, 2, 1), (1, 2, 3), (1.1, 3, 2), (1.5, 4, 2)),
  # radius, sigma of the smoothing of its rim
  "defocus_blur": ((3, 0.1), (4, 0.5), (6, 0.5), (8, 0.5), (10, 0.5)),
  # radius, sigma
  "motion_blur": ((10, 3), (15, 5), (15, 8), (15, 12), (20, 15)),
  "zoom_blur": _factors((1.11, 0.01), (1.16, 0.01), (1.21, 0.02), (1.26, 0.02), (1.31, 0.03)),
  # mean, deviation, zoom, threshold, motion radius, motion sigma, share of the original image
  "snow": (
    (0.1, 0.3, 3, 0.5, 10, 4, 0.8),
    (0.2, 0.3, 2, 0.5, 12, 4, 0.7),
    (0.55, 0.3, 4, 0.9, 12, 8, 0.7),
    (0.55, 0.3, 4.5, 0.85, 12, 8, 0.65),
    (0.55, 0.3, 2.5, 0.85, 12, 12, 0.55),
  ),
  # weight of the image, of the frost, scale of the texture
  "frost": ((1, 0.4, 1), (0.8, 0.6, 1), (0.7, 0.7, 1), (0.65, 0.7, 1), (0.6, 0.75, 1)),
  # strength, how fast detail fades
  "fog": ((1.5, 2), (2, 2), (2.5, 1.7), (2.5, 1.5), (3, 1.4)),
  # mean, deviation, sigma, threshold, strength or mud's sigma, whether it is mud
  "spatter": (
    (0.65, 0.3, 4, 0.69, 0.6, 0),
    (0.65, 0.3, 3, 0.68, 0.6, 0),
    (0.65, 0.3, 2, 0.68, 0.5, 0),
    (0.65, 0.3, 1, 0.65, 1.5, 1),
    (0.67, 0.4, 1, 0.65, 1.5, 1),
  ),
  "brightness": _column(0.1, 0.2, 0.3, 0.4, 0.5),
  "contrast": _column(0.4, 0.3, 0.2, 0.1, 0.05),
  "saturate": ((0.3, 0), (0.1, 0), (2, 0), (5, 0.1), (20, 0.2)),  # factor, summand
  "jpeg_compression": _column(25, 18, 15, 10, 7),  # quality
  "pixelate": _column(0.6, 0.5, 0.4, 0.3, 0.25),  # side, as a share
  # displacement, its smoothing, shift of the corners: pixels
  "elastic_transform": _scaled(
    244, (2, 0.7, 0.1), (2, 0.08, 0.2), (0.05, 0.01, 0.02), (0.07, 0.01, 0.02), (0.12, 0.01, 0.02)
  ),
}

_CIFAR: dict[str, Rows] = {
  "gaussian_noise": _column(0.04, 0.06, 0.08, 0.09, 0.10),
  "shot_noise": _column(500, 250, 100, 75, 50),
  "impulse_noise": _column(0.01, 0.02, 0.03, 0.05, 0.07),
  "speckle_noise": _column(0.06, 0.1, 0.12, 0.16, 0.2),
  "gaussian_blur": _column(0.4, 0.6, 0.7, 0.8, 1),
  "glass_blur": ((0.05, 1, 1), (0.25, 1, 1), (0.4, 1, 1), (0.25, 1, 2), (0.4, 1, 2)),
  "defocus_blur": ((0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1, 0.2), (1.5, 0.1)),
  "motion_blur": ((6, 1), (6, 1.5), (6, 2), (8, 2), (9, 2.5)),
  "zoom_blur": _factors((1.06, 0.01), (1.11, 0.01), (1.16, 0.01), (1.21, 0.01), (1.26, 0.01)),
  "snow": (
    (0.1, 0.2, 1, 0.6, 8, 3, 0.95),
    (0.1, 0.2, 1, 0.5, 10, 4, 0.9),
    (0.15, 0.3, 1.75, 0.55, 10, 4, 0.9),
    (0.25, 0.3, 2.25, 0.6, 12, 6, 0.85),
    (0.3, 0.3, 1.25, 0.65, 14, 12, 0.8),
  ),
  "frost": ((1, 0.2, 0.2), (1, 0.3, 0.2), (0.9, 0.4, 0.2), (0.85, 0.4, 0.2), (0.75, 0.45, 0.2)),
  "fog": ((0.2, 3), (0.5, 3), (0.75, 2.5), (1, 2), (1.5, 1.75)),
  "spatter": (
    (0.62, 0.1, 0.7, 0.7, 0.5, 0),
    (0.65, 0.1, 0.8, 0.7, 0.5, 0),
    (0.65, 0.3, 1, 0.69, 0.5, 0),
    (0.65, 0.1, 0.7, 0.69, 0.6, 1),
    (0.65, 0.1, 0.5, 0.68, 0.6, 1),
  ),
  "brightness": _column(0.05, 0.1, 0.15, 0.2, 0.3),
  "contrast": _column(0.75, 0.5, 0.4, 0.3, 0.15),
  "saturate": ((0.3, 0), (0.1, 0), (1.5, 0), (2, 0.1), (2.5, 0.2)),
  "jpeg_compression": _column(80, 65, 58, 50, 40),
  "pixelate": _column(0.95, 0.9, 0.85, 0.75, 0.65),
  "elastic_transform": _scaled(
    32, (0, 0, 0.08), (0.05, 0.2, 0.07), (0.08, 0.06, 0.06), (0.1, 0.04, 0.05), (0.1, 0.03, 0.03)
  ),
}

# By the size of the images they were made for; any image of at least 32 pixels may be used with either.
TABLES: dict[int, dict[str, Rows]] = {224: _IMAGENET, 32: _CIFAR}


def rows(name: str, table: int) -> Rows:
  """Returns the five rows of a corruption.

  >>> rows("fog", 32)[0], len(rows("zoom_blur", 224)[0])
  ((0.2, 3), 12)
  """
  if table not in TABLES or name not in TABLES[table]:
    raise InputError(f"there is no severity table {table} of {name}; known: {', '.join(map(str, TABLES))}")
  return TABLES[table][name]
