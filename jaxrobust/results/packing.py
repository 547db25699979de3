"""Per-example arrays as compact JSON values.

A result keeps one flag or number per example, so that any two runs can be compared
example by example. Flags take one bit; numbers are compressed little-endian words.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from typing import Any

import numpy as np

from jaxrobust.core.errors import CorruptFileError, InputError

# A fixed level, so that the same array gives the same bytes.
ZLIB_LEVEL = 6
# Deflate cannot expand by more than 1032 to 1: a larger claim is refused before any work.
LARGEST_EXPANSION = 1032
WORD = 4
WORDS = {"int32": np.dtype("<i4"), "float32": np.dtype("<f4")}


def pack(array: np.ndarray) -> dict[str, Any]:
  """Returns one bool, int32 or float32 array of rank 1 as a JSON value.

  Other types are refused rather than cast, because a silent cast would make the
  array that is read back differ from the one that was written.

  Example:
    >>> pack(np.array([True, False, True]))
    {'kind': 'bits', 'n': 3, 'data': 'oA=='}
    >>> unpack(pack(np.array([3, -1], np.int32)))
    array([ 3, -1], dtype=int32)
  """
  if array.ndim != 1:
    raise InputError(f"only arrays of rank 1 can be packed, not shape {array.shape}")
  kind = array.dtype.name
  if kind == "bool":
    kind, raw = "bits", np.packbits(array).tobytes()
  elif kind in WORDS:
    raw = zlib.compress(array.astype(WORDS[kind]).tobytes(), ZLIB_LEVEL)
  else:
    raise InputError(f"only bool, int32 and float32 arrays can be packed, not {kind}")
  return {"kind": kind, "n": len(array), "data": base64.b64encode(raw).decode("ascii")}


def unpack(value: Any) -> np.ndarray:
  """Returns the array of a packed value; CorruptFileError for anything `pack` cannot have written."""
  kind, n, raw = _open(value)
  if kind == "bits":
    return _unpack_bits(raw, n)
  if isinstance(kind, str) and kind in WORDS:
    return _unpack_words(raw, n, kind)
  raise CorruptFileError(f"a packed array has the unknown kind {kind!r}")


def count_flags(value: Any, n: int | None) -> int:
  """Counts how many of n packed flags are set, without making an array of them; n is None where any number will do.

  >>> count_flags(pack(np.array([True, False, True])), 3)
  2
  """
  kind, length, raw = _open(value)
  if kind != "bits" or len(raw) != (length + 7) // 8 or n not in (None, length):
    raise CorruptFileError(f"not {'any number of' if n is None else n} packed flags")
  return int.from_bytes(raw, "big").bit_count()


def _open(value: Any) -> tuple[Any, int, bytes]:
  """Returns kind, length and bytes of a packed value."""
  if not isinstance(value, dict) or set(value) != {"kind", "n", "data"}:
    raise CorruptFileError("a packed array needs exactly the entries kind, n and data")
  kind, n, data = value["kind"], value["n"], value["data"]
  if not isinstance(n, int) or isinstance(n, bool) or n < 0:
    raise CorruptFileError(f"a packed array has the length {n!r}")
  if not isinstance(data, str):
    raise CorruptFileError("the data of a packed array is not text")
  try:
    raw = base64.b64decode(data, validate=True)
  except (binascii.Error, ValueError):
    raise CorruptFileError("the data of a packed array is not base64") from None
  return kind, n, raw


def _unpack_bits(raw: bytes, n: int) -> np.ndarray:
  if len(raw) != (n + 7) // 8:
    raise CorruptFileError(f"{n} packed flags do not fit {len(raw)} bytes")
  bits = np.unpackbits(np.frombuffer(raw, np.uint8))
  if bits[n:].any():
    raise CorruptFileError("packed flags are followed by bits that belong to no example")
  return bits[:n].astype(bool)


def _unpack_words(raw: bytes, n: int, kind: str) -> np.ndarray:
  size = n * WORD
  if size > LARGEST_EXPANSION * len(raw):
    raise CorruptFileError(f"{n} packed numbers cannot come from {len(raw)} bytes")
  stream = zlib.decompressobj()
  try:
    # One byte more than expected is enough to notice a stream that would go on for gigabytes.
    words = stream.decompress(raw, size + 1)
  except zlib.error:
    raise CorruptFileError("the data of a packed array cannot be decompressed") from None
  if len(words) != size or not stream.eof or stream.unused_data:
    raise CorruptFileError(f"{n} packed numbers do not match their compressed data")
  return np.frombuffer(words, WORDS[kind]).astype(kind)
