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
from jaxrobust.data.source import Ids, as_floats, check_count, check_ids, short_repr

PREFIX = "tfds:"


@dataclass(frozen=True, eq=False)
class TfdsSource:
  """Examples of a prepared set, decoded when they are asked for; `rows` is any sequence of {"image", "label"}."""

  name: str
  rows: Sequence[dict[str, Any]]
  num_classes: int
  size: int
  version: str = ""
  class_names: tuple[str, ...] | None = None
  __repr__ = short_repr

  def __len__(self) -> int:
    return self.size

  def take(self, ids: Ids) -> tuple[np.ndarray, np.ndarray]:
    """Returns the examples with these ids: float32 in [0, 1], and labels."""
    rows = [self.rows[int(i)] for i in check_ids(self, ids)]
    images = np.stack([np.asarray(row["image"]) for row in rows])
    return as_floats(images), np.array([row["label"] for row in rows], np.int32)

  def fingerprint(self) -> str:
    """Identifies the set's name, version and size; the images are not read."""
    return hashlib.sha256(f"{self.name} {self.version} {self.size}".encode()).hexdigest()[:16]

  @property
  def whole(self) -> TfdsSource:
    return replace(self, size=len(self.rows))

  def subset(self, n: int) -> TfdsSource:
    """Returns the first n examples."""
    return replace(self, size=check_count(self, n))


def load_tfds(name: str, data_dir: str | Path | None = None) -> TfdsSource:
  """Reads `NAME[:SPLIT]` of the prepared sets in `data_dir` (or TensorFlow Datasets' own folder)."""
  import tensorflow_datasets as tfds

  base, _, split = name.partition(":")
  try:
    builder = tfds.builder(base, data_dir=None if data_dir is None else str(data_dir))
    rows = builder.as_data_source(split=split or "test")
  except Exception as error:  # Every builder has errors of its own.
    raise InputError(f"tfds cannot read {base!r}: {str(error).strip().splitlines()[0]}") from None
  label = builder.info.features["label"]
  names = tuple(getattr(label, "names", None) or ()) or None
  return TfdsSource(f"{PREFIX}{name}", rows, label.num_classes, len(rows), str(builder.info.full_name), names)
