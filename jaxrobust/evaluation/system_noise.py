"""Encoded data sets under system noise, and the grid of all decoders and resizes."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

import numpy as np

from jaxrobust.core.errors import InputError
from jaxrobust.data.encoded import EncodedSource
from jaxrobust.data.source import DataSource, SourceView, as_floats
from jaxrobust.noises.system import DECODERS, RESIZES, available, read_image


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

  def take(self, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the examples with these ids, decoded and resized."""
    read = lambda i: read_image(self.source.store.read(self.source.files[i]), self.decoder, self.resize, self.size)
    images = as_floats(np.stack([read(int(i)) for i in ids]))
    return images, self.source.labels[np.asarray(ids)]

  def fingerprint(self) -> str:
    """Identifies the files and the way they are read."""
    text = f"{self.source.fingerprint()} {self.condition} {self.size}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]

  def subset(self, n: int) -> SystemSource:
    """Returns the first n examples."""
    return replace(self, source=self.source.subset(n))


def system_source(source: DataSource, decoder: str, resize: str, size: int) -> SystemSource:
  """Returns a source under a decoder and a resize, if it is one of encoded files and both are installed."""
  if not isinstance(source, EncodedSource):
    raise InputError(f"{source.name} holds no encoded files, so it has no system noise")
  _ = DECODERS[decoder], RESIZES[resize]  # Unknown names are refused with the nearest ones.
  decoders, resizes = available()
  for name, there in ((decoder, decoders), (resize, resizes)):
    if name not in there:
      raise InputError(f"{name.partition('-')[0]} is not installed: pip install 'jaxrobust[system]'")
  return SystemSource(source, decoder, resize, size)


def grid(source: EncodedSource, size: int = 224) -> list[SystemSource]:
  """Returns the source under every decoder and resize that is installed; NSD is taken over their accuracies."""
  decoders, resizes = available()
  return [SystemSource(source, decoder, resize, size) for decoder in decoders for resize in resizes]
