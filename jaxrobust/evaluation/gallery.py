"""Some adversarial images of a cell, kept for people to look at: `<cell>.images.npz` beside the cell's file.

The first examples that were right and then broken, so that the choice depends on outcomes only.
"""

from __future__ import annotations

import io
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from jaxrobust.core.files import atomic_write
from jaxrobust.engine.verdict import Verdict
from jaxrobust.results.store import sibling

IMAGES = ".images.npz"


class Gallery:
  """Collects up to `size` broken examples as verdicts arrive, those with the lowest positions."""

  def __init__(self, size: int, eps: float):
    self.size = size
    self.eps = eps
    self._images: dict[int, np.ndarray] = {}

  def record(self, verdicts: Iterable[Verdict]) -> None:
    """Takes in what there is to see."""
    for verdict in verdicts if self.size else ():
      if verdict.correct and verdict.broken(self.eps):
        self._images[verdict.position] = verdict.image.copy()
    for position in sorted(self._images)[self.size :]:
      del self._images[position]

  def arrays(self) -> dict[str, np.ndarray]:
    """For a snapshot of a running cell."""
    if not self._images:
      return {}
    return {"gallery.positions": np.array(list(self._images)), "gallery.images": np.stack(list(self._images.values()))}

  def restore(self, arrays: dict[str, np.ndarray]) -> None:
    """Back from a snapshot."""
    for position, image in zip(arrays.get("gallery.positions", ()), arrays.get("gallery.images", ()), strict=True):
      self._images[int(position)] = image

  @property
  def positions(self) -> np.ndarray:
    return np.array(sorted(self._images), int)

  def save(self, path: Path, clean: np.ndarray, label: np.ndarray, prediction: np.ndarray) -> None:
    """Writes the images beside the cell file `path`; the other arrays belong to `positions`."""
    adversarial = np.stack([self._images[position] for position in self.positions])
    levels = lambda images: np.round(np.clip(images, 0, 1) * 255).astype(np.uint8)
    buffer = io.BytesIO()
    np.savez_compressed(
      buffer, clean=levels(clean), adversarial=levels(adversarial), label=label, prediction=prediction
    )
    atomic_write(sibling(path, IMAGES), buffer.getvalue())
