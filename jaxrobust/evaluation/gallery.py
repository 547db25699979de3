"""Some adversarial images of a cell, kept for people to look at: `<cell>.images.npz` beside the cell's file.

The first examples that were right and then broken, so that the choice depends on outcomes only.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from jaxrobust.core.files import atomic_write
from jaxrobust.core.reading import read_npz
from jaxrobust.engine.table import Verdicts
from jaxrobust.results.store import IMAGES, sibling

ARRAYS = ("clean", "adversarial", "label", "prediction", "index")
# Names of classes, of data sets that have them; distances to the clean images; pictures of what is measured instead.
NAMES = ("label_name", "prediction_name", "distance", "witness")


class Gallery:
  """Collects up to `size` broken examples as verdicts arrive, those with the lowest positions."""

  def __init__(self, size: int, eps: float):
    self.size = size
    self.eps = eps
    self._images: dict[int, np.ndarray] = {}

  def wants(self, position: int) -> bool:
    """Returns whether the image of the example at this position would be kept."""
    return len(self._images) < self.size or (self.size > 0 and position < max(self._images))

  def record(self, verdicts: Verdicts) -> None:
    """Takes in what there is to see."""
    for row in np.flatnonzero(verdicts["correct"] & verdicts.broken(self.eps)).tolist() if self.size else ():
      image = verdicts.images[row]
      if image is not None:
        self._images[int(verdicts["position"][row])] = image
    for position in sorted(self._images)[self.size :]:
      del self._images[position]

  def arrays(self) -> dict[str, np.ndarray]:
    """Returns what goes into a snapshot of a running cell."""
    if not self._images:
      return {}
    return {"gallery.positions": np.array(list(self._images)), "gallery.images": np.stack(list(self._images.values()))}

  def restore(self, arrays: dict[str, np.ndarray]) -> None:
    """Takes over the arrays of a snapshot."""
    for position, image in zip(arrays.get("gallery.positions", ()), arrays.get("gallery.images", ()), strict=True):
      self._images[int(position)] = image

  @property
  def positions(self) -> np.ndarray:
    return np.array(sorted(self._images), int)

  def save(self, path: Path, clean: np.ndarray, **about: np.ndarray) -> None:
    """Writes the images beside the cell file `path`; the other arrays belong to `positions`."""
    levels = lambda images: np.round(np.clip(images, 0, 1) * 255).astype(np.uint8)
    shown = levels(np.stack([self._images[position] for position in self.positions]))
    adversarial, witness = np.split(shown, [clean.shape[-1]], axis=-1)
    about |= {"witness": witness} if witness.size else {}
    atomic_write(sibling(path, IMAGES), _pack({"clean": levels(clean), "adversarial": adversarial, **about}))


def merge_galleries(paths: Iterable[Path], size: int) -> bytes | None:
  """Joins the images beside the shards of a cell: the first broken ones, as one process would have kept them."""
  found = [arrays for arrays in map(_unpack, paths) if arrays]
  if not found or not size:
    return None
  named = [name for name in NAMES if all(name in arrays for arrays in found)]
  joined = {name: np.concatenate([arrays[name] for arrays in found]) for name in (*ARRAYS, *named)}
  first = np.argsort(joined["index"])[:size]
  return _pack({name: array[first] for name, array in joined.items()})


def _pack(arrays: dict[str, np.ndarray]) -> bytes:
  buffer = io.BytesIO()
  kept = {name: arrays[name] for name in (*ARRAYS, *NAMES) if name in arrays}
  np.savez_compressed(buffer, **kept)  # type: ignore[arg-type]
  return buffer.getvalue()


def _unpack(path: Path) -> dict[str, np.ndarray]:
  try:
    file = read_npz(sibling(path, IMAGES), "damaged pictures")
    return {name: file[name] for name in ARRAYS} | {name: file[name] for name in NAMES if name in file}
  except Exception:  # Missing or damaged: a picture decorates, it decides nothing.
    return {}


def class_names(names: Sequence[str] | None, **classes: np.ndarray) -> dict[str, np.ndarray]:
  """Returns the names of classes, as arrays that go beside them; nothing where the data set has none.

  >>> class_names(("cat", "dog"), label=np.array([1, 0]))
  {'label_name': array(['dog', 'cat'], dtype='<U3')}
  """
  known = names is not None and all(((numbers >= 0) & (numbers < len(names))).all() for numbers in classes.values())
  return {f"{what}_name": np.array(names)[numbers] for what, numbers in classes.items()} if known and names else {}
