"""Files from anywhere, read within bounds: what a file claims is compared with what it can hold before memory is spent.

One layer for weights, data, results and settings. A path must lead to a regular file (no device, FIFO or socket), a
JSON text may nest only so deeply, an archive may grow only so much as it is unpacked, an array has the bytes that its
header says. Whatever is wrong with a file raises `CorruptFileError`, in one line; nothing in it is executed.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import stat
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from jaxrobust.core.errors import CorruptFileError, InputError, JaxrobustError, StorageError, first_line

# Files that are read as a whole; what is larger is none of ours and must not fill the memory.
LARGEST_FILE = 16 * 2**30
LARGEST_DATA = 2**62
LARGEST_TEXT = 256 * 2**20
# Real arrays shrink tenfold when they are packed, a bomb a thousandfold. The first bytes are free.
MOST_GROWTH = 64
FREE_GROWTH = 64 * 2**20
MOST_MEMBERS = 100_000


@contextlib.contextmanager
def reading(what: str) -> Iterator[None]:
  """Opens a context in which any failure is damage of the file: `CorruptFileError`, one line that begins with `what`.

  Decoders fail in every way there is: tokenize.TokenError, zlib.error, RecursionError, MemoryError and so on.

  >>> with reading("x.npz: not a readable npz file"):
  ...   1 / 0
  Traceback (most recent call last):
  jaxrobust.core.errors.CorruptFileError: x.npz: not a readable npz file (division by zero)
  """
  try:
    yield
  except JaxrobustError:
    raise
  except RecursionError:
    raise CorruptFileError(f"{what} (nested too deeply)") from None
  except MemoryError:
    raise CorruptFileError(f"{what} (it asks for more memory than there is)") from None
  except Exception as error:
    reason = first_line(error)
    raise CorruptFileError(f"{what} ({reason if len(reason) <= 200 else reason[:200] + '…'})") from None


def open_regular(path: str | os.PathLike, largest: int = LARGEST_FILE) -> BinaryIO:
  """Opens a file for reading; refuses what is no regular file, and what is larger than `largest` bytes.

  Raises:
    FileNotFoundError, NotADirectoryError: there is no such file; callers know what that means.
    CorruptFileError: it is a device, a FIFO, a socket, a folder, or too large.
    StorageError: it cannot be read.
  """
  try:
    # A FIFO that nobody writes to would be waited for without this flag; regular files do not know it.
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
  except (FileNotFoundError, NotADirectoryError):
    raise
  except (OSError, ValueError) as error:
    raise StorageError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None
  about = os.fstat(handle)
  problem = None
  if not stat.S_ISREG(about.st_mode):
    problem = "not a regular file"
  elif about.st_size > largest:
    problem = f"its {about.st_size} bytes are more than the {largest} that such a file may have"
  if problem is not None:
    os.close(handle)
    if stat.S_ISDIR(about.st_mode):
      raise StorageError(f"cannot read {path}: it is a folder")
    raise CorruptFileError(f"{path}: {problem}")
  return os.fdopen(handle, "rb")


def read_file(path: str | os.PathLike, largest: int = LARGEST_FILE) -> bytes:
  """Returns the bytes of a regular file; InputError where there is none."""
  data = read_if_there(path, largest)
  if data is None:
    raise InputError(f"there is no file {path}")
  return data


def read_if_there(path: str | os.PathLike, largest: int = LARGEST_FILE) -> bytes | None:
  """Returns the bytes of a regular file, or None where there is no file."""
  try:
    with open_regular(path, largest) as file:
      return file.read()
  except (FileNotFoundError, NotADirectoryError):
    return None
  except MemoryError:
    raise CorruptFileError(f"{path}: larger than the memory") from None
  except OSError as error:
    if isinstance(error, JaxrobustError):
      raise
    raise StorageError(f"cannot read {path}: {error.strerror or error}") from None


def read_text(path: str | os.PathLike, largest: int = LARGEST_TEXT) -> str:
  """Returns the text of a file in UTF-8; InputError where there is none."""
  with reading(f"{path}: not a text in UTF-8"):
    return read_file(path, largest).decode("utf-8")


def read_json(path: str | os.PathLike, largest: int = LARGEST_TEXT) -> Any:
  """Returns the value in a JSON file; InputError where there is none, CorruptFileError where it is not JSON."""
  data = read_file(path, largest)
  with reading(f"{path}: not a JSON file"):
    return loads(data)


def loads(text: str | bytes) -> Any:
  """Returns the value of a JSON text; ValueError for anything else, `NaN` and endless nesting included."""
  try:
    return _DECODER.decode(text if isinstance(text, str) else text.decode("utf-8"))
  except RecursionError:
    raise ValueError("nested too deeply") from None


def _refuse_constant(name: str) -> Any:
  raise ValueError(f"{name} is not JSON")


# Made once: a folder may hold a hundred thousand files.
_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


class Archive:
  """A zip file whose members are unpacked within bounds.

  The sizes of all members that are read count together, so that overlapping members gain nothing.
  """

  def __init__(self, file: BinaryIO, what: str):
    self._what = what
    size = file.seek(0, io.SEEK_END)
    self._left = FREE_GROWTH + MOST_GROWTH * size
    with reading(what):
      self._zip = zipfile.ZipFile(file)
      self._members = {member.filename: member for member in self._zip.infolist()}
      if len(self._members) > MOST_MEMBERS:
        raise CorruptFileError(f"{what} ({len(self._members)} members)")

  def __enter__(self) -> Archive:
    return self

  def __exit__(self, *_: object) -> None:
    self._zip.close()

  @property
  def names(self) -> list[str]:
    return list(self._members)

  def size(self, name: str) -> int:
    """Returns the bytes of a member as it says itself; what is unpacked is never more."""
    if name not in self._members:
      raise CorruptFileError(f"{self._what} (there is no member {name!r})")
    return self._members[name].file_size

  def read(self, name: str, expected: int | None = None) -> bytes:
    """Returns the bytes of a member, which must be as many as `expected` before anything is unpacked."""
    size = self.size(name)
    if expected is not None and size != expected:
      raise CorruptFileError(f"{self._what} ({name!r} holds {size} bytes, expected {expected})")
    with self._open(name) as member, reading(self._what):
      data = member.read()
    if len(data) != size:
      raise CorruptFileError(f"{self._what} ({name!r} is cut off)")
    return data

  def array(self, name: str) -> np.ndarray:
    """Returns the array in a member of the npy format."""
    size = self.size(name)
    with self._open(name) as member, reading(self._what):
      return read_npy(member, size)

  def _open(self, name: str) -> Any:
    size = self.size(name)
    if size > self._left:
      grown = f"{name!r} would grow to {size} bytes, more than {MOST_GROWTH} times the file"
      raise CorruptFileError(f"{self._what} ({grown})")
    if self._members[name].compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
      # Python unpacks these without a bound, whatever size the member says it has.
      raise CorruptFileError(f"{self._what} ({name!r} is neither stored nor deflated)")
    self._left -= size
    with reading(self._what):
      return self._zip.open(name)


def read_npy(file: Any, size: int) -> np.ndarray:
  """Returns the array in a stream of `size` bytes in the npy format; pickled objects are never loaded."""
  shape, fortran, dtype = _npy_header(file)
  if dtype.hasobject:
    raise ValueError("it holds pickled objects, which are never loaded")
  count = math.prod(shape)
  if count * dtype.itemsize != size - file.tell():
    raise ValueError(f"an array of shape {shape} does not fit its {size} bytes")
  array = np.empty(count, dtype)
  view, filled = array.view(np.uint8).data, 0
  while filled < array.nbytes:
    got = file.readinto(view[filled : filled + 2**20])
    if not got:
      raise ValueError("it is cut off")
    filled += got
  return array.reshape(shape, order="F" if fortran else "C")


def _npy_header(file: Any) -> tuple[tuple[int, ...], bool, np.dtype]:
  version = np.lib.format.read_magic(file)
  if version not in ((1, 0), (2, 0)):
    raise ValueError(f"its version is {version}")
  read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
  shape, fortran, dtype = read(file)
  if any(type(n) is not int or n < 0 for n in shape) or dtype.itemsize == 0:
    raise ValueError(f"its shape is {shape}")
  return shape, fortran, dtype


def read_npz(source: str | os.PathLike | bytes, what: str, names: Iterable[str] | None = None) -> dict[str, np.ndarray]:
  """Returns the arrays of an npz file, without `.npy` in their names.

  Args:
    source: a path, or the bytes themselves.
    what: begins the text of errors, as `x.npz: not a readable npz file`.
    names: the arrays to read where they are there; others, however large, come back empty. None for all.
  """
  wanted = None if names is None else set(names)
  with contextlib.ExitStack() as stack:
    file = io.BytesIO(source) if isinstance(source, bytes) else stack.enter_context(open_regular(source, LARGEST_DATA))
    archive = stack.enter_context(Archive(file, what))
    arrays = {}
    for member in archive.names:
      name = member.removesuffix(".npy")
      arrays[name] = archive.array(member) if wanted is None or name in wanted else np.empty(0)
    return arrays


def map_npy(path: str | os.PathLike) -> np.ndarray:
  """Returns the array in an npy file as a read-only memory map; InputError where there is none."""
  try:
    open_regular(path, LARGEST_DATA).close()
  except (FileNotFoundError, NotADirectoryError):
    raise InputError(f"there is no file {path}") from None
  with reading(f"{path}: not a numpy array"):
    return np.load(Path(path), mmap_mode="r", allow_pickle=False)


def gunzip(data: bytes, largest: int = LARGEST_TEXT) -> bytes:
  """Returns what a gzip file holds, within bounds; ValueError where it is more, and where it is damaged."""
  machine = zlib.decompressobj(zlib.MAX_WBITS | 16)
  most = min(largest, FREE_GROWTH + MOST_GROWTH * len(data))
  try:
    text = machine.decompress(data, most)
  except zlib.error as error:
    raise ValueError(str(error)) from None
  if machine.unconsumed_tail or not machine.eof:
    raise ValueError("it is cut off, or grows too large")
  return text
