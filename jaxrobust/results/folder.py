"""A results folder, on this machine or in object storage, as a list of files that can be read.

Anything fsspec knows is a folder: `gs://bucket/results`, `s3://…`, `memory://…`. Local folders need no fsspec.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from stat import S_ISREG
from typing import Any, NamedTuple, Protocol

from jaxrobust.core.errors import InputError, JaxrobustError, StorageError, first_line
from jaxrobust.core.files import atomic_write
from jaxrobust.core.optional import require
from jaxrobust.core.reading import LARGEST_TEXT, read_if_there

# Cells lie three folders deep; deeper ones are not ours, and a link may lead back up.
DEEPEST = 8
# What stamps a file in the listings of fsspec's file systems, by the names they use.
_STAMPS = ("ETag", "etag", "md5Hash", "mtime", "LastModified", "updated", "last_modified", "created")


class File(NamedTuple):
  """A file below the folder: its path with slashes, its size, and a text that changes when its content does."""

  path: str
  size: int
  stamp: str


class Folder(Protocol):
  """Lists and reads files, which is all that reading results takes."""

  def files(self) -> Iterator[File]: ...

  def read(self, paths: Sequence[str]) -> list[bytes | StorageError]: ...

  def write(self, path: str, data: bytes) -> None: ...

  def show(self, path: str) -> str:
    """Returns the full path or address, for people."""
    ...


def open_folder(root: str | os.PathLike) -> Folder:
  """Returns the folder at a path or address; StorageError where there is none."""
  text = os.fspath(root)
  return RemoteFolder(text) if "://" in text else LocalFolder(Path(text))


def join_folders(root: str | os.PathLike, also: Sequence[str | os.PathLike] = ()) -> Folder:
  """Joins several folders on this machine as one, whose paths begin at the first."""
  if not also:
    return open_folder(root)
  if any("://" in os.fspath(each) for each in (root, *also)):
    raise InputError("only folders on this machine can be shown together")
  return LocalFolder(Path(root), [Path(each) for each in also])


class LocalFolder:
  """A folder on this machine; `also` are others, found on the way from it (`../other/…`)."""

  def __init__(self, root: Path, also: Sequence[Path] = ()):
    for each in (root, *also):
      if not each.is_dir():
        raise StorageError(f"cannot read results from {each}: no such folder")
    self.root, self.also = root, also

  def files(self) -> Iterator[File]:
    yield from self._walk(os.fspath(self.root), "", 0)
    for each in self.also:
      way = Path(os.path.relpath(each.absolute(), self.root.absolute())).as_posix()
      yield from self._walk(os.fspath(each), f"{way}/", 0)

  def _walk(self, folder: str, prefix: str, depth: int) -> Iterator[File]:
    try:
      entries = list(os.scandir(folder))
    except OSError:
      return
    for entry in entries:
      # Hidden files are what a killed writer left behind, or our own index.
      if entry.name.startswith("."):
        continue
      try:
        if entry.is_dir():
          if depth < DEEPEST:
            yield from self._walk(entry.path, f"{prefix}{entry.name}/", depth + 1)
        else:
          stat = entry.stat()
          if S_ISREG(stat.st_mode):
            # Whoever edits a file can set its mtime back, but not its ctime.
            yield File(prefix + entry.name, stat.st_size, f"{stat.st_mtime_ns} {stat.st_ctime_ns}")
      except OSError:
        continue

  def read(self, paths: Sequence[str]) -> list[bytes | StorageError]:
    return [self._read(path) for path in paths]

  def _read(self, path: str) -> bytes | StorageError:
    try:
      data = read_if_there(os.path.join(self.root, path), LARGEST_TEXT)
    except JaxrobustError as error:
      return StorageError(f"cannot read: {error}")
    return StorageError("cannot read: no such file") if data is None else data

  def write(self, path: str, data: bytes) -> None:
    atomic_write(self.root / path, data)

  def show(self, path: str) -> str:
    return os.fspath(self.root / path)


class RemoteFolder:
  """A folder behind fsspec."""

  def __init__(self, address: str):
    fsspec = require("fsspec", "report", f"reading {address}")
    self.address = address.rstrip("/")
    try:
      self.system, self.root = fsspec.core.url_to_fs(self.address)
      if not self.system.isdir(self.root):
        raise StorageError(f"cannot read results from {address}: no such folder")
    except StorageError:
      raise
    except Exception as error:  # Each file system has errors of its own.
      raise StorageError(f"cannot read results from {address}: {first_line(error)}") from None

  def files(self) -> Iterator[File]:
    found: dict[str, dict[str, Any]] = self.system.find(self.root, detail=True)
    for name, info in found.items():
      path = name.removeprefix(self.root).lstrip("/")
      if not any(part.startswith(".") for part in path.split("/")):
        stamp = next((str(info[key]) for key in _STAMPS if info.get(key) is not None), "")
        yield File(path, int(info.get("size") or 0), stamp)

  def read(self, paths: Sequence[str]) -> list[bytes | StorageError]:
    whole = {path: f"{self.root}/{path}" for path in paths}
    try:
      # One request for all: file systems that can fetch concurrently do.
      found = self.system.cat(list(whole.values()), on_error="return")
    except Exception as error:
      return [StorageError(f"cannot read: {first_line(error)}") for _ in paths]
    if isinstance(found, bytes):
      return [found]
    return [self._one(found.get(name)) for name in whole.values()]

  @staticmethod
  def _one(value: object) -> bytes | StorageError:
    if isinstance(value, bytes):
      return value
    return StorageError(f"cannot read: {first_line(value) if isinstance(value, Exception) else 'no such file'}")

  def write(self, path: str, data: bytes) -> None:
    try:
      self.system.pipe_file(f"{self.root}/{path}", data)
    except Exception as error:
      raise StorageError(f"cannot write {self.show(path)}: {first_line(error)}") from None

  def show(self, path: str) -> str:
    return f"{self.address}/{path}"
