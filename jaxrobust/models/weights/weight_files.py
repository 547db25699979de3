"""Weight files of other libraries, as nested dicts of arrays: .safetensors, .npz, and PyTorch's pickles.

The content decides, not the name. Nothing in a file is executed.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxrobust.core.errors import CorruptFileError, InputError, StorageError
from jaxrobust.models.weights.torch_pickle import read_torch_pickle

_SAFETENSORS = {
  "F64": np.float64,
  "F32": np.float32,
  "F16": np.float16,
  "BF16": jnp.bfloat16,
  "I64": np.int64,
  "I32": np.int32,
  "I16": np.int16,
  "I8": np.int8,
  "U8": np.uint8,
  "BOOL": np.bool_,
}


def read_weights(path: str | os.PathLike, sha256: str = "") -> Any:
  """Reads a weight file; `sha256` (or its first 8 or more digits) is checked where given."""
  return read_hashed(path, sha256)[0]


def read_hashed(path: str | os.PathLike, sha256: str = "") -> tuple[Any, str]:
  """Reads a weight file; returns its content and sha256."""
  try:
    data = Path(path).read_bytes()
  except FileNotFoundError:
    raise InputError(f"no weights at {path}: the file does not exist") from None
  except OSError as error:
    raise StorageError(f"cannot read {path}: {error.strerror or error}") from None
  found = _check_hash(path, data, sha256)
  try:
    return _read(data), found
  except (InputError, CorruptFileError) as error:
    raise type(error)(f"{path}: {error}") from None


def _check_hash(path: str | os.PathLike, data: bytes, wanted: str) -> str:
  wanted = wanted.lower()
  if wanted and (len(wanted) < 8 or wanted.strip("0123456789abcdef")):
    raise InputError(f"{wanted!r} is no sha256: at least 8 hexadecimal digits are needed")
  found = hashlib.sha256(data).hexdigest()
  if not found.startswith(wanted):
    raise CorruptFileError(f"{path} has sha256 {found}, expected {wanted}")
  return found


def _read(data: bytes) -> Any:
  start = data[:200].lstrip().lower()
  if start.startswith((b"<!doctype html", b"<html")):
    raise CorruptFileError("this is a web page (HTML) saved as weights; download the file itself")
  if start.startswith(b"version https://git-lfs"):
    raise CorruptFileError("this is a Git LFS pointer, not the weights it points to")
  if not data:
    raise CorruptFileError("the file is empty")
  header = int.from_bytes(data[:8], "little")
  if data[8:9] == b"{" and header <= len(data) - 8:
    return _safetensors(data, header)
  if data[:4] == b"PK\x03\x04":
    return _npz(data) if _is_npz(data) else read_torch_pickle(data)
  return read_torch_pickle(data)


def _is_npz(data: bytes) -> bool:
  try:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
      names = archive.namelist()
  except zipfile.BadZipFile:
    raise CorruptFileError("a zip archive that is cut off or damaged") from None
  return bool(names) and all(name.endswith(".npy") for name in names)


def _npz(data: bytes) -> dict[str, np.ndarray]:
  try:
    with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
      return dict(arrays)
  except (ValueError, zipfile.BadZipFile, EOFError) as error:
    raise CorruptFileError(f"not a readable npz file: {error}") from None


def _safetensors(data: bytes, header: int) -> dict[str, np.ndarray]:
  body, arrays = memoryview(data)[8 + header :], {}
  try:
    for name, entry in json.loads(data[8 : 8 + header]).items():
      if name == "__metadata__":
        continue
      if entry["dtype"] not in _SAFETENSORS:
        raise InputError(f"{name} is of type {entry['dtype']}, which is not read")
      start, stop = entry["data_offsets"]
      arrays[name] = np.frombuffer(body[start:stop], np.dtype(_SAFETENSORS[entry["dtype"]])).reshape(entry["shape"])
  except (ValueError, KeyError, TypeError, AttributeError) as error:
    if isinstance(error, InputError):
      raise
    raise CorruptFileError(f"not a readable safetensors file: {error}") from None
  return arrays
