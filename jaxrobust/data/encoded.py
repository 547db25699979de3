"""Data sets of encoded pictures, in folders or in a tar file: decoded when they are asked for, never held.

Memory stays constant whatever the number of images. A picture that cannot be decoded is an error that names its id;
`bad_images` finds all of them, `without` leaves chosen ones out.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import io
import tarfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import ClassVar, Protocol

import numpy as np

from jaxrobust.core.errors import CorruptFileError, InputError
from jaxrobust.core.threads import in_threads
from jaxrobust.core.validation import check_labels
from jaxrobust.data.crops import Crop, cropped
from jaxrobust.data.judging import USUALLY, Judging
from jaxrobust.data.order import balanced_order, listed_order
from jaxrobust.data.preprocessing import crop_size, fitting, make_preprocessing
from jaxrobust.data.source import as_floats, check_ids

EXTENSIONS = (".jpg", ".jpeg", ".png", ".bmp", ".webp")


class Store(Protocol):
  """Holds bytes by name: a folder or an archive. Several threads read at once."""

  @property
  def names(self) -> Sequence[str]: ...

  def read(self, name: str) -> bytes: ...

  def size(self, name: str) -> int: ...


class FolderStore:
  """Files below a folder, by relative name, in sorted order."""

  def __init__(self, root: str | Path, names: Sequence[str] | None = None):
    self.root = Path(root).expanduser()
    if not self.root.is_dir():
      raise InputError(f"there is no folder {self.root}")
    found = (p for p in self.root.rglob("*") if p.suffix.lower() in EXTENSIONS) if names is None else ()
    self.names = list(names) if names is not None else sorted(p.relative_to(self.root).as_posix() for p in found)

  def read(self, name: str) -> bytes:
    try:
      return (self.root / name).read_bytes()
    except OSError as error:
      raise CorruptFileError(f"{self.root / name} cannot be read: {error.strerror}") from None

  def size(self, name: str) -> int:
    return (self.root / name).stat().st_size


class TarStore:
  """Files inside an uncompressed tar archive, read at their place without unpacking."""

  def __init__(self, path: str | Path):
    self.path = Path(path).expanduser()
    if not self.path.is_file():
      raise InputError(f"there is no file {self.path}")
    try:
      with tarfile.open(self.path, "r:") as archive:
        members = [m for m in archive if m.isfile() and m.name.lower().endswith(EXTENSIONS)]
    except tarfile.TarError as error:
      raise CorruptFileError(f"{self.path}: not an uncompressed tar archive ({error})") from None
    self._places = {m.name: (m.offset_data, m.size) for m in members}
    self.names = sorted(self._places)

  def read(self, name: str) -> bytes:
    offset, size = self._places[name]
    with self.path.open("rb") as file:
      file.seek(offset)
      return file.read(size)

  def size(self, name: str) -> int:
    return self._places[name][1]


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
  in_bytes: ClassVar[bool] = True

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
    """The order that subsets are taken in: files lie class by class, so the first of them are no sample."""
    if self.arranged:
      return np.arange(len(self))
    pinned = balanced_order(self.labels, [file.rpartition("/")[2] for file in self.files])
    return listed_order(self.files, self.listed, pinned) if self.listed else pinned

  def take(self, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the examples with these ids, decoded and preprocessed: float32 in [0, 1], and labels."""
    levels, labels = self.raw(ids)
    return as_floats(levels), labels

  def raw(self, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same in bytes. All cores decode: Pillow lets go of the interpreter's lock for nearly all of its time."""
    from PIL import Image

    ids = check_ids(self, ids)
    Image.init()  # Left to the threads, the second one to meet a rarer format would not find it.
    images = in_threads(self.decode, ids.tolist())
    shapes = {image.shape for image in images}
    if len(shapes) > 1:
      raise InputError(f"images of {self.name} differ in shape after '{self.preprocessing}': {sorted(shapes)[:2]} …")
    return np.stack(images), self.labels[ids]

  def crops(self, ids: np.ndarray, crop: Crop, seed: int, step: int) -> tuple[np.ndarray, np.ndarray]:
    """Random crops of the whole pictures, of the size that the preprocessing gives, and labels."""
    size = crop_size(self.preprocessing)
    if size is None:
      raise InputError(f"{self.name} is read as it is ('{self.preprocessing}'): it has no random crops")
    read = lambda i: self._decoded(i, lambda raw: cropped(raw, crop, size, seed, i, step))
    ids = np.asarray(ids).astype(np.intp)
    return np.stack(in_threads(read, ids.tolist())), self.labels[ids]

  def decode(self, example: int) -> np.ndarray:
    """One picture as uint8 RGB, preprocessed."""
    from PIL import Image

    def preprocessed(raw: bytes) -> np.ndarray:
      with Image.open(io.BytesIO(raw)) as picture:
        return make_preprocessing(self.preprocessing)(picture.convert("RGB"))

    return self._decoded(example, preprocessed)

  def _decoded(self, example: int, decode: Callable[[bytes], np.ndarray]) -> np.ndarray:
    """Returns what `decode` makes of a file; an error that names it if it cannot."""
    from PIL import UnidentifiedImageError

    name = self.files[example]
    try:
      return decode(self.store.read(name))
    except (OSError, SyntaxError, ValueError) as error:
      if isinstance(error, InputError):
        raise InputError(f"{self.name} example {example} ({name}): {error}") from None
      # Pillow names the buffer it was given, which says nothing.
      reason = "not a picture of a known format" if isinstance(error, UnidentifiedImageError) else error
      raise CorruptFileError(f"{self.name} example {example} ({name}) cannot be decoded: {reason}") from None

  def bad_images(self) -> Iterator[tuple[int, str]]:
    """Ids of pictures that cannot be decoded or are not RGB or gray, with the reason."""
    from PIL import Image

    for example, name in enumerate(self.files):
      try:
        self.decode(example)
        with Image.open(io.BytesIO(self.store.read(name))) as picture:
          if picture.mode == "CMYK":
            yield example, f"{name}: CMYK colors; converted without a color profile"
      except (CorruptFileError, InputError) as error:
        yield example, str(error)

  def without(self, ids: Sequence[int]) -> EncodedSource:
    """Returns all examples but these; ids of the others move up, so the set gets another fingerprint."""
    kept = np.setdiff1d(np.arange(len(self)), ids)
    return self.select(kept)

  def select(self, ids: np.ndarray) -> EncodedSource:
    """The examples with these ids, in this order."""
    files, judging = [self.files[i] for i in ids], self.judging.select(ids)
    return dataclasses.replace(self, files=files, labels=self.labels[ids], judging=judging)

  def subset(self, n: int) -> EncodedSource:
    """n examples, every class in proportion: the first n of the pinned order."""
    if not 1 <= n <= len(self):
      raise InputError(f"{self.name} has {len(self)} examples; cannot take {n} of them")
    return dataclasses.replace(self.select(self.order[:n]), arranged=True)

  def seen_at(self, preprocessing: str) -> EncodedSource:
    """The same pictures as a network wants them; files that have their size already (ImageNet-C) are only scaled."""
    wanted = fitting(self.preprocessing, preprocessing)
    return self if wanted == self.preprocessing else dataclasses.replace(self, preprocessing=wanted)

  def fingerprint(self) -> str:
    """Changes with names, sizes, order, labels and preprocessing; contents are not read."""
    digest = hashlib.sha256(f"{self.preprocessing} {self.num_classes}".encode())
    if self.judging != USUALLY:
      digest.update(repr(self.judging).encode())
    for name, label in zip(self.files, self.labels, strict=True):
      digest.update(f"{name} {self.store.size(name)} {label}\n".encode())
    return digest.hexdigest()[:16]


def image_folder(
  root: str | Path,
  name: str | None = None,
  preprocessing: str = "resize256-crop224",
  classes: Sequence[str] | None = None,
) -> EncodedSource:
  """Reads one folder per class: `root/class/….jpg`; classes in sorted order, or in the order given."""
  store = FolderStore(root)
  found = sorted({file.split("/")[0] for file in store.names if "/" in file})
  order = {c: i for i, c in enumerate(classes if classes is not None else found)}
  unknown = [c for c in found if c not in order]
  if unknown:
    raise InputError(f"{root} has folders that are no known class: {', '.join(unknown[:3])}")
  files = [file for file in store.names if "/" in file]
  labels = np.array([order[file.split("/")[0]] for file in files], np.int32)
  return EncodedSource(name or f"folder:{root}", store, files, labels, len(order), preprocessing)
