"""Sets prepared by TensorFlow Datasets, read through its random-access `data_source`, which needs no TensorFlow.

`tfds:NAME[:SPLIT]`, such as `tfds:cifar10:test`; the set must have been prepared as `array_record` files before (most
sets need TensorFlow for that). Images are `image`, classes `label`, as nearly all classification sets have them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from jaxrobust.core.errors import InputError

PREFIX = "tfds:"


@dataclass(frozen=True, eq=False)
class TfdsSource:
  """Examples of a prepared set, decoded when they are asked for; `rows` is any sequence of {"image", "label"}."""

  name: str
  rows: Sequence[dict[str, Any]]
  num_classes: int
  size: int
  version: str = ""

  def __len__(self) -> int:
    return self.size

  def take(self, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The examples with these ids: float32 in [0, 1], and labels."""
    ids = np.asarray(ids)
    if ids.size and (ids.min() < 0 or ids.max() >= len(self)):
      raise InputError(f"example ids {ids.min()} … {ids.max()} are outside 0 … {len(self) - 1} of {self.name}")
    rows = [self.rows[int(i)] for i in ids]
    images = np.stack([np.asarray(row["image"]) for row in rows]).astype(np.float32) / np.float32(255)
    return images, np.array([row["label"] for row in rows], np.int32)

  def fingerprint(self) -> str:
    """Of the set's name, version and size; the images are not read."""
    return hashlib.sha256(f"{self.name} {self.version} {self.size}".encode()).hexdigest()[:16]

  def subset(self, n: int) -> TfdsSource:
    """The first n examples."""
    if not 1 <= n <= len(self):
      raise InputError(f"{self.name} has {len(self)} examples; cannot take the first {n}")
    return replace(self, size=n)


def load_tfds(name: str, data_dir: str | Path | None = None) -> TfdsSource:
  """`NAME[:SPLIT]` of the prepared sets in `data_dir` (or TensorFlow Datasets' own folder)."""
  import tensorflow_datasets as tfds

  base, _, split = name.partition(":")
  try:
    builder = tfds.builder(base, data_dir=None if data_dir is None else str(data_dir))
    rows = builder.as_data_source(split=split or "test")
  except Exception as error:  # Every builder has errors of its own.
    raise InputError(f"tfds cannot read {base!r}: {str(error).strip().splitlines()[0]}") from None
  classes = builder.info.features["label"].num_classes
  return TfdsSource(f"{PREFIX}{name}", rows, classes, len(rows), str(builder.info.full_name))
