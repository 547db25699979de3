"""Encoded data sets under system noise, and the grid of all decoders and resizes.

The arrays of ImageNet-S itself are read where they lie below the folder of all data sets, as its generator stores them:
`imagenet-s/DECODER/RESIZE/FILE.npy`, 224 pixels already. Otherwise files are decoded and resized here.
"""

from __future__ import annotations

import hashlib
import io
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from jaxrobust.core.errors import CorruptFileError, InputError
from jaxrobust.core.reading import read_file, read_npy, reading
from jaxrobust.data.catalogue import data_root
from jaxrobust.data.encoded import EncodedSource
from jaxrobust.data.source import DataSource, Ids, SourceView, as_floats
from jaxrobust.noises.system import DECODERS, RESIZES, available, read_image

STORED = "imagenet-s"


@dataclass(frozen=True, eq=False)
class SystemSource(SourceView):
  """An encoded data set read with a chosen decoder and resize."""

  source: EncodedSource
  decoder: str
  resize: str
  size: int = 224

  @property
  def condition(self) -> str:
    return f"system-{self.decoder}-{self.resize}"

  def take(self, ids: Ids) -> tuple[np.ndarray, np.ndarray]:
    """Returns the examples with these ids, decoded and resized."""
    read = lambda i: read_image(self.source.store.read(self.source.files[i]), self.decoder, self.resize, self.size)
    images = as_floats(np.stack([read(int(i)) for i in ids]))
    return images, self.source.labels[np.asarray(ids)]

  def fingerprint(self) -> str:
    """Identifies the files and the way they are read."""
    text = f"{self.source.fingerprint()} {self.condition} {self.size}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True, eq=False)
class StoredSystemSource(SourceView):
  """ImageNet's files as the arrays that ImageNet-S stores of one decoder and resize."""

  source: EncodedSource
  decoder: str
  resize: str
  folder: Path

  @property
  def condition(self) -> str:
    return f"system-{self.decoder}-{self.resize}"

  def take(self, ids: Ids) -> tuple[np.ndarray, np.ndarray]:
    """Returns the examples with these ids, as they are stored."""
    images = np.stack([self._read(self.source.files[int(i)]) for i in ids])
    return images.astype(np.float32) / np.float32(255), self.source.labels[np.asarray(ids)]

  def _read(self, file: str) -> np.ndarray:
    path = self.folder / f"{file.rpartition('/')[2]}.npy"
    data = read_file(path)
    with reading(f"{path} cannot be read"):
      image = read_npy(io.BytesIO(data), len(data))
    if image.ndim == 3 and image.shape[0] == 3 != image.shape[2]:
      image = image.transpose(1, 2, 0)
    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3:
      raise CorruptFileError(f"{path} is {image.dtype} of shape {image.shape}; expected uint8 (H, W, 3) or (3, H, W)")
    return image

  def fingerprint(self) -> str:
    """Identifies the files and that stored arrays stand for them."""
    return hashlib.sha256(f"{self.source.fingerprint()} {self.condition} stored".encode()).hexdigest()[:16]


def _stored(source: EncodedSource, decoder: str, resize: str) -> Path | None:
  """Returns the folder of ImageNet-S's arrays, where they are there."""
  if source.name != "imagenet" or not os.environ.get("JAXROBUST_DATASETS"):
    return None
  folder = data_root() / STORED / decoder / resize
  return folder if folder.is_dir() else None


def system_source(source: DataSource, decoder: str, resize: str, size: int) -> SystemSource | StoredSystemSource:
  """Returns a source under a decoder and a resize: stored arrays, or encoded files where both are installed."""
  if not isinstance(source, EncodedSource):
    raise InputError(f"{source.name} holds no encoded files, so it has no system noise")
  _ = DECODERS[decoder], RESIZES[resize]  # Unknown names are refused with the nearest ones.
  folder = _stored(source, decoder, resize)
  if folder is not None:
    return StoredSystemSource(source, decoder, resize, folder)
  decoders, resizes = available()
  for name, there in ((decoder, decoders), (resize, resizes)):
    if name not in there:
      raise InputError(f"{name.partition('-')[0]} is not installed: pip install 'jaxrobust[system]'")
  return SystemSource(source, decoder, resize, size)


def grid(source: EncodedSource, size: int = 224) -> list[SystemSource]:
  """Returns the source under every decoder and resize that is installed; NSD is taken over their accuracies."""
  decoders, resizes = available()
  return [SystemSource(source, decoder, resize, size) for decoder in decoders for resize in resizes]
