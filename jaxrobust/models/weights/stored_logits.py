"""Stored logits: does a converted network compute what the original did?

An `.npz` file has `images` in [0, 1], before any normalization (N, H, W, C or N, C, H, W), and the `logits` that the
original network gave for them:

  images = torch.rand(4, 3, 224, 224)
  numpy.savez("logits.npz", images=images, logits=network((images - mean) / std).detach())
"""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np

from jaxrobust.core.errors import InputError
from jaxrobust.core.reading import read_npz
from jaxrobust.core.validation import check_range, check_shape
from jaxrobust.models.registry import CIFAR_MEAN, CIFAR_STD, IMAGENET_MEAN, IMAGENET_STD, INCEPTION_MEAN, INCEPTION_STD

Color = tuple[float, ...]
LogitsFn = Callable[[np.ndarray, Color, Color], np.ndarray]
"""(images, mean, std) -> logits."""

# Of the spread of the logits; what float32 leaves of equal networks is a hundred times less.
CLOSE = 1e-3
# What networks are trained with, if with anything.
_USUAL = (
  ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0)),
  (IMAGENET_MEAN, IMAGENET_STD),
  (INCEPTION_MEAN, INCEPTION_STD),
  (CIFAR_MEAN, CIFAR_STD),
)


def compare_logits(path: str | os.PathLike, logits_fn: LogitsFn, mean: Color, std: Color) -> float:
  """Returns the largest difference from stored logits, in their standard deviations.

  Raises:
    InputError: they are not equal; with the usual normalization that makes them equal, if one does.
  """
  images, wanted = _read(path)
  distance = _distance(logits_fn(images, mean, std), wanted)
  if distance <= CLOSE:
    return distance
  for usual in _USUAL if images.shape[-1] == 3 else ():
    if _distance(logits_fn(images, *usual), wanted) <= CLOSE:
      flags = " ".join(f"--{n}={','.join(f'{x:g}' for x in v)}" for n, v in zip(("mean", "std"), usual, strict=True))
      raise InputError(f"logits are off by {distance:.2g} of their spread; they fit with {flags}")
  raise InputError(f"logits are off by {distance:.2g} of their spread, with every usual normalization")


def _distance(logits: np.ndarray, wanted: np.ndarray) -> float:
  if logits.shape != wanted.shape:
    raise InputError(f"the stored logits have the shape {wanted.shape}, those of the network {logits.shape}")
  return float(np.abs(logits - wanted).max() / max(float(wanted.std()), 1e-12))


def _read(path: str | os.PathLike) -> tuple[np.ndarray, np.ndarray]:
  arrays = read_npz(path, f"{path} is not a readable .npz file", {"images", "logits"})
  if set(arrays) != {"images", "logits"}:
    raise InputError(f"{path} must hold `images` and `logits`, found {', '.join(sorted(arrays)) or 'neither'}")
  images, logits = arrays["images"], np.asarray(arrays["logits"], np.float64)
  if images.ndim == 4 and images.shape[1] in (1, 3) and images.shape[3] > 4:
    images = images.transpose(0, 2, 3, 1)
  check_shape(images)
  images = images.astype(np.float32) / np.float32(255) if images.dtype == np.uint8 else images.astype(np.float32)
  check_range(images)
  if np.ptp(logits) == 0 or (len(logits) > 1 and not np.ptp(logits, axis=0).any()):
    raise InputError(f"the logits of {path} are the same for all images or classes: equal ones would prove nothing")
  return images, logits
