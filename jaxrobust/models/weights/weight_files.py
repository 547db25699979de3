"""Weight files of other libraries, as nested dicts of arrays: .safetensors, .npz, and PyTorch's pickles.

The content decides, not the name. Nothing in a file is executed, and nothing it claims is believed before it is
compared with what the file can hold (`core.reading`).
"""

from __future__ import annotations

import hashlib
import io
import math
import os
from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxrobust.core.errors import CorruptFileError, InputError
from jaxrobust.core.reading import Archive, loads, read_if_there, read_npz, reading
from jaxrobust.core.validation import is_number
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
  data = read_if_there(path)
  if data is None:
    raise InputError(f"no weights at {path}: the file does not exist")
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
  if data[:4] == b"PK\x03\x04" and _is_npz(data):
    return read_npz(data, "not a readable npz file")
  return read_torch_pickle(data)


def _is_npz(data: bytes) -> bool:
  with Archive(io.BytesIO(data), "a zip archive that is cut off or damaged") as archive:
    return bool(archive.names) and all(name.endswith(".npy") for name in archive.names)


def _safetensors(data: bytes, header: int) -> dict[str, np.ndarray]:
  """Reads tensors that follow one another without a gap or an overlap, as the format demands."""
  with reading("not a readable safetensors file"):
    entries = loads(data[8 : 8 + header])
    entries.pop("__metadata__", None)
    at = 8 + header
    arrays = {}
    for name, entry in sorted(entries.items(), key=lambda item: _span(item[1])):
      if entry["dtype"] not in _SAFETENSORS:
        raise InputError(f"{name} is of type {entry['dtype']}, which is not read")
      dtype, (start, stop), shape = np.dtype(_SAFETENSORS[entry["dtype"]]), _span(entry), entry["shape"]
      if start != at - 8 - header or stop > len(data) - 8 - header:
        raise ValueError(f"{name} does not begin where the tensor before it ends, or reaches beyond the file")
      if not all(is_number(n, int) and n >= 0 for n in shape) or math.prod(shape) * dtype.itemsize != stop - start:
        raise ValueError(f"{name} of shape {shape} does not fit its {stop - start} bytes")
      arrays[name] = np.frombuffer(data, dtype, math.prod(shape), at).reshape(shape)
      at += stop - start
    if at != len(data):
      raise ValueError(f"{len(data) - at} bytes at the end belong to no tensor")
    return {name: arrays[name] for name in entries}


def _span(entry: Any) -> tuple[int, int]:
  start, stop = entry["data_offsets"]
  if not is_number(start, int) or not is_number(stop, int) or not 0 <= start <= stop:
    raise ValueError(f"its data_offsets are {[start, stop]}")
  return start, stop
