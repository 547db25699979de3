"""Pickles of NumPy arrays in plain containers, read by a machine that can build arrays and nothing else."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from jaxrobust.core.errors import CorruptFileError
from jaxrobust.core.pickles import Call, Inert, Machine
from jaxrobust.core.unfolding import unfold


class _Array:
  """An array as NumPy pickles it: made empty, then given its shape, type and bytes."""

  def __init__(self, *_: Any):
    self.values: np.ndarray | None = None

  def fill(self, state: Any) -> None:
    _, shape, dtype, fortran, data = state
    self.values = np.frombuffer(data, dtype.values).reshape(shape, order="F" if fortran else "C")


class _Type:
  """A type of numbers, by its code."""

  def __init__(self, code: Any, *_: Any):
    self.values = np.dtype(code.decode("ascii") if isinstance(code, bytes) else code)
    if self.values.kind not in "biuf" or self.values.itemsize > 8:
      raise CorruptFileError(f"an array of {self.values}")


def _fill(target: Any, state: Any) -> None:
  if isinstance(target, _Array):
    target.fill(state)


def _encode(text: str, encoding: Any = "latin1") -> bytes:
  """Returns bytes as Python 3 writes them for Python 2."""
  if encoding not in ("latin1", b"latin1"):
    raise CorruptFileError(f"bytes in the encoding {encoding!r}")
  return text.encode("latin1")


_KNOWN = {
  "numpy.core.multiarray._reconstruct": Call(_Array),
  "numpy._core.multiarray._reconstruct": Call(_Array),
  "numpy.ndarray": Inert(),
  "numpy.dtype": Call(_Type),
  "_codecs.encode": Call(_encode),
}


def _find(name: str) -> Any:
  if name not in _KNOWN:
    raise CorruptFileError(f"{name} is not an array")
  return _KNOWN[name]


def read_array_pickle(data: bytes, encoding: str = "latin1") -> Any:
  """Returns nested dicts and lists of arrays and plain values; `encoding` is that of Python 2's texts."""
  tree = Machine(_find, build=_fill, encoding=encoding).load(io.BytesIO(data))
  return unfold(tree, lambda value: value.values if isinstance(value, _Array | _Type) else value)
