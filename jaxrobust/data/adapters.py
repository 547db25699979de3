"""Other people's ways to hold examples, as sources: arrays, mappings, rows by number, loaders and iterators of batches.

Nothing is imported for it. What a value offers decides: rows by number (`torchvision`, Hugging Face `datasets`), or
batches one after the other (`torch.utils.data.DataLoader`, `tf.data`, any iterable). An example is (image, label) or a
mapping with one of the names below. Images are uint8, or floats in [0, 1]; PyTorch's (C, H, W) is turned around where
the tensor is PyTorch's. What is iterated over is read into memory, up to the number of examples asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from jaxrobust.core.errors import InputError
from jaxrobust.core.validation import check_images, check_labels, check_shape
from jaxrobust.data.npz import IMAGE_NAMES, LABEL_NAMES
from jaxrobust.data.source import ArraySource

_IMAGES = (*IMAGE_NAMES, "image", "img", "pixel_values")
_LABELS = (*LABEL_NAMES, "label", "fine_label", "target", "targets")
_TAKES = "pass a name, a data source, (images, labels), or a data set or loader of such pairs or of {image, label}"


def adapted(data: Any, num_classes: int, n: int | None = None) -> ArraySource:
  """Returns a source of whatever holds labeled images.

  Args:
    data: see above.
    num_classes: of the classifier.
    n: read no more than these of a data set or loader; a set whose rows are sorted by class is better given as arrays,
      of which an equal share of every class is then taken.

  >>> batches = [{"image": np.full((2, 4, 4, 3), 255, np.uint8), "label": [0, 1]}] * 3
  >>> source = adapted(iter(batches), 2, n=5)
  >>> len(source), source.labels.tolist(), float(source.take(np.array([0]))[0].max())
  (5, [0, 1, 0, 1, 0], 1.0)
  """
  names = _class_names(data, num_classes)
  if isinstance(data, tuple | list) and len(data) == 2 and not isinstance(data[0], tuple | list | Mapping):
    return _checked(_array(data[0]), _array(data[1]), num_classes, names)
  if isinstance(data, Mapping):
    return _checked(*_pair(data), num_classes, names)
  if isinstance(data, str | bytes) or not (hasattr(data, "__iter__") or hasattr(data, "__getitem__")):
    raise InputError(f"the data is a {type(data).__name__}; {_TAKES}")
  images, labels, count = [], [], 0
  for some, classes in _batches(data):
    images.append(some if n is None else some[: n - count])
    labels.append(classes if n is None else classes[: n - count])
    count += len(images[-1])
    if n is not None and count >= n:
      break
  if not images:
    raise InputError(f"the {type(data).__name__} holds no examples")
  shapes = {batch.shape[1:] for batch in images}
  if len(shapes) > 1:
    raise InputError(f"images have different shapes, {' and '.join(map(str, sorted(shapes)[:2]))}: resize them first")
  return _checked(np.concatenate(images), np.concatenate(labels), num_classes, names)


def _batches(data: Any) -> Iterator[tuple[np.ndarray, np.ndarray]]:
  """Yields images (N, H, W, C) and labels (N,), whether there are single examples or batches."""
  for row in _rows(data):
    images, labels = _pair(row)
    if images.ndim in (2, 3) and labels.ndim == 0:
      images, labels = images[None, ..., None] if images.ndim == 2 else images[None], labels[None]
    yield images, labels


def _rows(data: Any) -> Iterable[Any]:
  if hasattr(data, "as_numpy_iterator"):
    return data.as_numpy_iterator()
  # A data set of PyTorch has rows by number and may not end when iterated over.
  if not hasattr(data, "__iter__") and hasattr(data, "__len__"):
    return (data[i] for i in range(len(data)))
  return data


def _pair(row: Any) -> tuple[np.ndarray, np.ndarray]:
  """Returns image and label of a row, or those of a batch."""
  if isinstance(row, Mapping):
    found = [next((row[name] for name in names if name in row), None) for names in (_IMAGES, _LABELS)]
    if found[0] is None or found[1] is None:
      raise InputError(f"no images and labels among {', '.join(map(str, row))}: call them image and label")
    return _array(found[0]), _array(found[1])
  if isinstance(row, tuple | list) and len(row) == 2:
    return _array(row[0]), _array(row[1])
  raise InputError(f"an example is a {type(row).__name__}; {_TAKES}")


def _array(value: Any) -> np.ndarray:
  """Returns an array of NumPy; pictures in color or gray, PyTorch's images with their channels last."""
  if hasattr(value, "convert") and hasattr(value, "mode"):  # A picture of PIL.
    return np.asarray(value if value.mode in ("RGB", "L") else value.convert("RGB"))
  if isinstance(value, list) and value and hasattr(value[0], "convert"):
    return np.stack([_array(picture) for picture in value])
  if not hasattr(value, "detach"):
    return np.asarray(value)
  array = np.asarray(value.detach().cpu())
  first = array.shape[-3] if array.ndim >= 3 else 0
  return np.moveaxis(array, -3, -1) if first in (1, 3) and array.shape[-1] > 4 else array


def _checked(images: np.ndarray, labels: np.ndarray, num_classes: int, names: tuple[str, ...] | None) -> ArraySource:
  labels = labels[:, 0] if labels.ndim == 2 and labels.shape[1] == 1 else labels
  if images.dtype == np.uint8:
    check_shape(images)
    check_labels(labels, len(images), num_classes)
  else:
    check_images(images, labels, num_classes)
    images = np.asarray(images, np.float32)
  return ArraySource("arrays", images, labels, num_classes, names)


def _class_names(data: Any, num_classes: int) -> tuple[str, ...] | None:
  """Returns the names that a data set, or the one that a loader reads, has for the classes."""
  holder = getattr(data, "dataset", data)
  features = getattr(holder, "features", None)
  label = (
    next((features[name] for name in _LABELS if name in features), None) if isinstance(features, Mapping) else None
  )
  names = getattr(label, "names", None) or getattr(holder, "classes", None)
  fits = isinstance(names, list | tuple) and len(names) == num_classes
  return tuple(map(str, names)) if fits and names is not None else None
