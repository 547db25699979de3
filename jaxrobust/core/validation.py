"""Refusal of images and labels that no computation should start from.

Each check reads the arrays in place: no mask and no cast of the whole data is made.
"""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np

from jaxrobust.core.errors import InputError


def check_images(images: Any, labels: Any, num_classes: int) -> None:
  """Raises InputError, in one line, for anything but float images (N, H, W, C) in [0, 1] with fitting labels.

  An attack on wrongly scaled images runs without complaint and reports nonsense, so this comes
  before anything compiles. No images at all (N = 0) are fine.

  Example:
    >>> check_images(np.zeros((1, 8, 8, 3), np.uint8), np.zeros(1, int), 10)
    Traceback (most recent call last):
    jaxrobust.core.errors.InputError: images are uint8; divide by 255 and pass float32 in [0, 1]
  """
  images = np.asarray(images)
  check_shape(images)
  if images.dtype.kind in "iu":
    raise InputError(f"images are {images.dtype}; divide by 255 and pass float32 in [0, 1]")
  if not is_float(images.dtype):
    raise InputError(f"images are {images.dtype}; pass float32 in [0, 1]")
  check_range(images)
  check_labels(labels, len(images), num_classes)


def is_float(dtype: np.dtype) -> bool:
  """Returns whether a type is a float, bfloat16 and the like included, which NumPy itself does not know.

  >>> is_float(np.dtype("float16")), is_float(np.dtype("int8"))
  (True, False)
  """
  return dtype.kind == "f" or (dtype.kind == "V" and dtype.names is None and "float" in dtype.name)


def check_shape(images: np.ndarray) -> None:
  """Raises InputError for anything but (N, H, W, C) with at least one pixel."""
  shape = images.shape
  if images.ndim != 4:
    hint = "; add a leading axis for a single image" if images.ndim == 3 else ""
    raise InputError(f"images have the shape {shape}; expected (N, H, W, C){hint}")
  if 0 in shape[1:]:
    raise InputError(f"images have the shape {shape}; expected (N, H, W, C) with at least one pixel")
  # No image is 1 or 3 pixels high with many channels: this is the order that PyTorch uses.
  if shape[1] in (1, 3) and shape[3] > 4:
    raise InputError(
      f"images have the shape {shape}, which looks like (N, C, H, W); "
      "expected (N, H, W, C): transpose with (0, 2, 3, 1)"
    )


def check_range(images: np.ndarray) -> None:
  """Raises InputError for float images that are not finite or leave [0, 1]."""
  if images.size == 0:
    return
  # Both propagate NaN, so two reductions find every kind of bad value without a mask.
  low, high = float(images.min()), float(images.max())
  if not np.isfinite(low) or not np.isfinite(high):
    first = next(i for i, image in enumerate(images) if not np.isfinite(image).all())
    raise InputError(f"images hold NaN or infinity (first in example {first})")
  if low < 0 or high > 1:
    hint = "divide by 255" if low >= 0 and 2 < high <= 255 else "normalization belongs in the Classifier"
    raise InputError(f"images range from {low:.9g} to {high:.9g}; expected [0, 1] ({hint})")


def check_labels(labels: Any, n: int, num_classes: int, what: str = "labels") -> None:
  """Raises InputError for classes that are not n integers in 0 … num_classes - 1."""
  labels = np.asarray(labels)
  check_whole(labels, n, what, "; pass class numbers, not one-hot rows" if labels.ndim == 2 else "")
  if n == 0:
    return
  low, high = int(labels.min()), int(labels.max())
  if low < 0 or high >= num_classes:
    raise InputError(f"{what} range from {low} to {high}; expected 0 to {num_classes - 1}")


def is_number(value: Any, kind: Any) -> bool:
  """Returns whether a value is a number of a kind; true and false are none, though Python counts with them.

  >>> is_number(1, int), is_number(True, int), is_number(0.5, int), is_number(2, int | float)
  (True, False, False, True)
  """
  return isinstance(value, kind) and not isinstance(value, bool)


def check_count(value: Any, what: str, most: int, least: int = 1) -> None:
  """Raises InputError for what is no integer (Python's or NumPy's) from `least` to `most`.

  >>> check_count(0, "the batch size", 100)
  Traceback (most recent call last):
  jaxrobust.core.errors.InputError: the batch size must be at least 1, got 0
  """
  if not is_number(value, Integral):
    raise InputError(f"{what} must be an integer, got {value!r}")
  if value < least:
    raise InputError(f"{what} must be at least {least}, got {value}")
  if value > most:
    raise InputError(f"{what} must be at most {most}, got {value}")


def check_whole(numbers: Any, n: int, what: str, hint: str = "") -> None:
  """Raises InputError for anything but n integers; `hint` is for a wrong shape."""
  numbers = np.asarray(numbers)
  if numbers.ndim != 1:
    raise InputError(f"{what} have the shape {numbers.shape}; expected (N,){hint}")
  if len(numbers) != n:
    raise InputError(f"there are {n} images but {len(numbers)} {what}")
  if n and numbers.dtype.kind not in "iu":
    raise InputError(f"{what} are {numbers.dtype}; expected integers")


def check_targets(targets: Any, n: int, num_classes: int) -> None:
  """Raises InputError for target classes that are none, as `check_labels` for labels; no targets at all are fine."""
  if targets is not None:
    check_labels(targets, n, num_classes, "targets")
