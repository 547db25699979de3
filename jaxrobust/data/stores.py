"""Where the bytes of encoded pictures are: a folder or an uncompressed tar archive, read when asked for."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

from jaxrobust.core.errors import CorruptFileError, InputError, StorageError
from jaxrobust.core.reading import LARGEST_DATA, open_regular, read_if_there, reading
from jaxrobust.core.terminal import printable
from jaxrobust.data.content import known_hashes

# Set to 1 where links may lead out of a folder of pictures.
FOLLOW_LINKS = "JAXROBUST_FOLLOW_LINKS"
LARGEST_PICTURE = 2**28
EXTENSIONS = (".jpg", ".jpeg", ".png", ".bmp", ".webp")


class Store(Protocol):
  """Holds bytes by name: a folder or an archive. Several threads read at once."""

  @property
  def names(self) -> Sequence[str]: ...

  def read(self, name: str) -> bytes: ...

  def hashes(self, names: Sequence[str]) -> dict[str, str]: ...


class FolderStore:
  """Files below a folder, by relative name, in sorted order.

  Links may not lead out of it, unless $JAXROBUST_FOLLOW_LINKS says so; devices, FIFOs and the like are never read.

  Args:
    names: the files, where a list says which; otherwise all pictures that are there.
  """

  def __init__(self, root: str | Path, names: Sequence[str] | None = None):
    self.root = Path(root).expanduser()
    if not self.root.is_dir():
      raise InputError(f"there is no folder {self.root}")
    self._top = os.path.realpath(self.root)
    self.names = sorted(self._pictures(self._top, "", frozenset())) if names is None else list(names)

  def _pictures(self, folder: str, prefix: str, above: frozenset[str]) -> Iterator[str]:
    """Yields the pictures in a folder and those in it; links that lead back up are not followed."""
    real = os.path.realpath(folder)
    if real in above:
      return
    try:
      entries = list(os.scandir(folder))
    except OSError as error:
      raise StorageError(f"cannot read {folder}: {error.strerror}") from None
    for entry in entries:
      name, inside = prefix + entry.name, entry.is_dir()
      # Names are part of fingerprints, messages and pages.
      if (inside or name.lower().endswith(EXTENSIONS)) and printable(name) != name:
        raise InputError(f"{self.root} has a file whose name is no plain text: {name!a}")
      if inside:
        if entry.is_symlink():
          self.check_link(name)
        yield from self._pictures(entry.path, f"{name}/", above | {real})
      elif name.lower().endswith(EXTENSIONS):
        yield name

  def check_link(self, name: str) -> None:
    """Raises InputError for a file of the folder that is a link out of it, unless such links are followed."""
    real = os.path.realpath(os.path.join(self._top, name))
    if os.path.commonpath([self._top, real]) != self._top and os.environ.get(FOLLOW_LINKS) != "1":
      raise InputError(f"{self.root / name} leads out of its folder; {FOLLOW_LINKS}=1 follows such links")

  def read(self, name: str) -> bytes:
    self.check_link(name)
    data = read_if_there(self.root / name, LARGEST_PICTURE)
    if data is None:
      raise CorruptFileError(f"{self.root / name} cannot be read: there is no such file")
    return data

  def hashes(self, names: Sequence[str]) -> dict[str, str]:
    """Returns the hash of each file, as it lies on the disk."""
    return known_hashes(
      self._top, names, lambda name: _state(self.root / name), lambda name: FolderStore.read(self, name)
    )


def _state(path: Path) -> os.stat_result:
  try:
    return path.stat()
  except OSError as error:
    raise CorruptFileError(f"{path} cannot be read: {error.strerror}") from None


class TarStore:
  """Files inside an uncompressed tar archive, read at their place without unpacking."""

  def __init__(self, path: str | Path):
    self.path = Path(path).expanduser()
    if not self.path.is_file():
      raise InputError(f"there is no file {self.path}")
    with reading(f"{self.path}: not an uncompressed tar archive"), tarfile.open(self.path, "r:") as archive:
      members = [m for m in archive if m.isfile() and m.name.lower().endswith(EXTENSIONS)]
    self._places = {m.name: (m.offset_data, m.size) for m in members}
    self.names = sorted(self._places)

  def read(self, name: str) -> bytes:
    offset, size = self._places[name]
    if size > LARGEST_PICTURE:
      raise CorruptFileError(f"{name} is larger than any picture")
    with open_regular(self.path, LARGEST_DATA) as file:
      file.seek(offset)
      return file.read(size)

  def hashes(self, names: Sequence[str]) -> dict[str, str]:
    """Returns the hash of each file in the archive."""
    state = _state(self.path)
    return known_hashes(os.path.realpath(self.path), names, lambda _: state, self.read)
