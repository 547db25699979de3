"""Data sets of encoded pictures, in folders or in a tar file: decoded when they are asked for, never held.

Memory stays constant whatever the number of images. A picture that cannot be decoded is an error that names its id;
`bad_images` finds all of them, `without` leaves chosen ones out.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np

from jaxrobust.core.errors import CorruptFileError, InputError
from jaxrobust.core.pictures import load_formats, open_picture, opened
from jaxrobust.core.reading import LARGEST_TEXT, read_if_there, reading
from jaxrobust.core.threads import in_threads
from jaxrobust.core.validation import check_labels
from jaxrobust.data.crops import Crop, cropped
from jaxrobust.data.judging import USUALLY, Judging
from jaxrobust.data.order import balanced_order, listed_order
from jaxrobust.data.preprocessing import crop_size, fitting, make_preprocessing
from jaxrobust.data.source import Ids, as_floats, check_ids, short_repr
from jaxrobust.data.stores import FolderStore, Store

CLASSES = "classes.txt"


@dataclasses.dataclass(frozen=True, eq=False)
class EncodedSource:
  """Labeled pictures in a store.

  Attributes:
    store: where the files are.
    files: names of the examples' files, in the order of ids.
    labels: (N,) int32.
    preprocessing: as `make_preprocessing` reads it.
    judging: among which classes answers are judged, and which are right.
    listed: file names whose order subsets follow before any other; empty for the pinned order alone.
    arranged: files are in the pinned order already: a subset of a subset is the smaller one of the whole.
    alpha: what becomes of transparent pictures; see `open_picture`.
    class_names: for people to read; they decide nothing.
    whole: what it is a subset of; None if it is one of nothing.
  """

  name: str
  store: Store
  files: Sequence[str]
  labels: np.ndarray
  num_classes: int
  preprocessing: str = "resize256-crop224"
  judging: Judging = USUALLY
  listed: Sequence[str] = ()
  arranged: bool = False
  alpha: str = "drop"
  class_names: tuple[str, ...] | None = None
  whole: EncodedSource | None = None
  in_bytes: ClassVar[bool] = True
  __repr__ = short_repr

  def __post_init__(self) -> None:
    if not self.files:
      raise InputError(f"{self.name} has no images")
    check_labels(self.labels, len(self.files), self.num_classes)
    object.__setattr__(self, "labels", np.ascontiguousarray(self.labels, np.int32))
    make_preprocessing(self.preprocessing)

  def __len__(self) -> int:
    return len(self.files)

  @functools.cached_property
  def order(self) -> np.ndarray:
    """Returns the order that subsets are taken in: files lie class by class, so the first of them are no sample."""
    if self.arranged:
      return np.arange(len(self))
    pinned = balanced_order(self.labels, [file.rpartition("/")[2] for file in self.files])
    return listed_order(self.files, self.listed, pinned) if self.listed else pinned

  def take(self, ids: Ids) -> tuple[np.ndarray, np.ndarray]:
    """Returns the examples with these ids, decoded and preprocessed: float32 in [0, 1], and labels."""
    levels, labels = self.raw(ids)
    return as_floats(levels), labels

  def raw(self, ids: Ids) -> tuple[np.ndarray, np.ndarray]:
    """Returns the same in bytes. All cores decode: Pillow lets go of the interpreter's lock for most of its time."""
    ids = check_ids(self, ids)
    load_formats()
    images = in_threads(self.decode, ids.tolist())
    shapes = {image.shape for image in images}
    if len(shapes) > 1:
      raise InputError(f"images of {self.name} differ in shape after '{self.preprocessing}': {sorted(shapes)[:2]} …")
    return np.stack(images), self.labels[ids]

  def crops(self, ids: np.ndarray, crop: Crop, seed: int, step: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns random crops of the whole pictures, of the size that the preprocessing gives, and labels."""
    size = crop_size(self.preprocessing)
    if size is None:
      raise InputError(f"{self.name} is read as it is ('{self.preprocessing}'): it has no random crops")
    read = lambda i: self._decoded(i, lambda raw: cropped(raw, crop, size, seed, i, step))
    ids = check_ids(self, ids)
    load_formats()
    return np.stack(in_threads(read, ids.tolist())), self.labels[ids]

  def decode(self, example: int) -> np.ndarray:
    """Returns one picture as uint8 RGB, preprocessed."""
    return self._decoded(example, lambda raw: make_preprocessing(self.preprocessing)(open_picture(raw, self.alpha)))

  def _decoded(self, example: int, decode: Callable[[bytes], np.ndarray]) -> np.ndarray:
    """Returns what `decode` makes of a file; an error that names it if it cannot."""
    name = self.files[example]
    try:
      return decode(self.store.read(name))
    except InputError as error:
      raise InputError(f"{self.name} example {example} ({name}): {error}") from None
    except CorruptFileError as error:
      raise CorruptFileError(f"{self.name} example {example} ({name}) cannot be decoded: {error}") from None

  def bad_images(self) -> Iterator[tuple[int, str]]:
    """Returns ids of pictures that cannot be decoded or are not RGB or gray, with the reason."""
    for example, name in enumerate(self.files):
      try:
        self.decode(example)
        with opened(self.store.read(name)) as picture:
          if picture.mode == "CMYK":
            yield example, f"{name}: CMYK colors; converted without a color profile"
      except (CorruptFileError, InputError) as error:
        yield example, str(error)

  def without(self, ids: Sequence[int]) -> EncodedSource:
    """Returns all examples but these; ids of the others move up, so the set gets another fingerprint."""
    kept = np.setdiff1d(np.arange(len(self)), ids)
    return self.select(kept)

  def select(self, ids: np.ndarray) -> EncodedSource:
    """Returns the examples with these ids, in this order."""
    files, judging = [self.files[i] for i in ids], self.judging.select(ids)
    return dataclasses.replace(self, files=files, labels=self.labels[ids], judging=judging, whole=None)

  def subset(self, n: int) -> EncodedSource:
    """Returns n examples, every class in proportion: the first n of the pinned order."""
    if not 1 <= n <= len(self):
      raise InputError(f"{self.name} has {len(self)} examples; cannot take {n} of them")
    return dataclasses.replace(self.select(self.order[:n]), arranged=True, whole=self.whole or self)

  def seen_at(self, preprocessing: str) -> EncodedSource:
    """Returns the pictures as a network wants them; files that have their size already (ImageNet-C) are only scaled."""
    wanted = fitting(self.preprocessing, preprocessing)
    if wanted == self.preprocessing:
      return self
    whole = None if self.whole is None else self.whole.seen_at(preprocessing)
    return dataclasses.replace(self, preprocessing=wanted, whole=whole)

  def fingerprint(self) -> str:
    """Changes with names, contents, order, labels and preprocessing; files are read once and again when they change."""
    digest = hashlib.sha256(f"{self.preprocessing} {self.num_classes}".encode())
    if self.judging != USUALLY:
      digest.update(repr(self.judging).encode())
    hashes = self.store.hashes(self.files)
    for name, label in zip(self.files, self.labels, strict=True):
      digest.update(f"{name} {hashes[name]} {label}\n".encode())
    return digest.hexdigest()[:16]


def image_folder(
  root: str | Path,
  name: str | None = None,
  preprocessing: str = "resize256-crop224",
  classes: Sequence[str] | None = None,
) -> EncodedSource:
  """Reads one folder per class: `root/class/….jpg`.

  Classes are counted in the order given, or in that of the lines of `root/classes.txt`; folders that are named by whole
  numbers are the classes of these numbers; any others are counted in sorted order.
  """
  store = FolderStore(root)
  files = [file for file in store.names if "/" in file]
  found = sorted({file.split("/")[0] for file in files})
  if classes is None:
    classes = _listed_classes(store) or found
    if all(folder.isdecimal() for folder in found) and classes == found:
      classes = [str(number) for number in range(max(map(int, found), default=-1) + 1)]
  order = {c: i for i, c in enumerate(classes)}
  unknown = [c for c in found if c not in order]
  if unknown:
    raise InputError(f"{root} has folders that are no known class: {', '.join(unknown[:3])}")
  labels = np.array([order[file.split("/")[0]] for file in files], np.int32)
  names = tuple(classes)
  return EncodedSource(
    name or f"folder:{root}", store, files, labels, len(order), preprocessing, alpha="refuse", class_names=names
  )


def _listed_classes(store: FolderStore) -> list[str]:
  """Returns the lines of `classes.txt`, where a folder has one: all classes of the network, in its order."""
  root = store.root
  store.check_link(CLASSES)
  text = read_if_there(root / CLASSES, LARGEST_TEXT)
  if text is None:
    return []
  with reading(f"{root / CLASSES} is no list of classes"):
    lines = [line.strip() for line in text.decode().splitlines() if line.strip()]
  if len(set(lines)) != len(lines):
    raise InputError(f"{root / CLASSES} names a class twice")
  return lines
