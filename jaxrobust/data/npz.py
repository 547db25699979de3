"""Anyone's images: a numpy archive with an array of images and one of labels."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from jaxrobust.core.errors import InputError
from jaxrobust.core.reading import LARGEST_DATA, open_regular, read_npz
from jaxrobust.core.validation import check_images
from jaxrobust.data.source import ArraySource

PREFIX = "npz:"
IMAGE_NAMES = ("images", "x", "x_test", "data")
LABEL_NAMES = ("labels", "y", "y_test")


def load_npz(path: str | Path) -> ArraySource:
  """Returns the data set in an `.npz` file: images (N, H, W, C), uint8 or float32 in [0, 1], and labels (N,).

  The arrays are called `images`, `x`, `x_test` or `data`, and `labels`, `y` or `y_test`; the first
  name present counts. The number of classes is the entry `num_classes`, or else the largest label
  plus one, their names an entry `class_names`. Labels of shape (N, 1), as some CIFAR archives have
  them, are flattened. Pickled objects
  are never loaded, because loading them can run any code.
  """
  entries = _read(Path(path).expanduser())
  images = _first(entries, IMAGE_NAMES, "images", path)
  labels = _first(entries, LABEL_NAMES, "labels", path)
  if labels.ndim == 2 and labels.shape[1] == 1:
    labels = labels[:, 0]
  try:
    num_classes = _num_classes(entries, labels)
    if images.dtype.kind == "f":
      check_images(images, labels, num_classes)
    return ArraySource(f"{PREFIX}{path}", images, labels, num_classes, _class_names(entries))
  except InputError as error:
    raise InputError(f"{path}: {error}") from None


def _read(path: Path) -> dict[str, np.ndarray]:
  """Reads the entries this module knows; others, however large, stay unread."""
  if not path.exists() or path.is_dir():
    raise InputError(f"there is no file {path}")
  with open_regular(path, LARGEST_DATA) as file:
    if file.read(6) == b"\x93NUMPY":
      raise InputError(f"{path} is a single array; expected an .npz archive with images and labels")
  return read_npz(
    path, f"{path}: truncated or not an .npz archive", {*IMAGE_NAMES, *LABEL_NAMES, "num_classes", "class_names"}
  )


def _first(entries: dict[str, np.ndarray], names: tuple[str, ...], what: str, path: str | Path) -> np.ndarray:
  for name in names:
    if name in entries:
      return entries[name]
  found = ", ".join(sorted(entries)) or "nothing"
  raise InputError(f"{path}: no {what} (looked for {', '.join(names)}; found {found})")


def _class_names(entries: dict[str, np.ndarray]) -> tuple[str, ...] | None:
  given = entries.get("class_names")
  if given is not None and (given.dtype.kind != "U" or given.ndim != 1):
    raise InputError("class_names must be texts, one for each class")
  return None if given is None else tuple(given.tolist())


def _num_classes(entries: dict[str, np.ndarray], labels: np.ndarray) -> int:
  given = entries.get("num_classes")
  if given is not None:
    if given.size != 1 or given.dtype.kind not in "iu" or int(given.reshape(())) < 1:
      raise InputError("num_classes must be one integer of at least 1")
    return int(given.reshape(()))
  if labels.dtype.kind not in "iu":
    raise InputError(f"labels are {labels.dtype}; expected integers")
  return int(labels.max()) + 1 if labels.size else 1
