"""PyTorch's .pth/.pt/.th/.tar files, read without torch and without executing anything in them.

A pickle is a program. The machine of `core.pickles` runs it with a list of the only names it may call: constructors of
tensors and ordered dicts, all our own. Well-known holders of settings (argparse's Namespace, NumPy scalars, …) become
inert placeholders. Any other name, be it `os.system` or the class of a whole pickled network, raises an error with its
name. A tensor has no more elements than its storage, and a storage the bytes that the file has for it.

Both formats are read: the zip archive (torch ≥ 1.6: `NAME/data.pkl` and one file per storage) and the older stream of
pickles followed by the storages. A plain pickled dictionary of NumPy arrays goes through `core.array_pickles`.
"""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Callable
from typing import Any, BinaryIO

import jax.numpy as jnp
import numpy as np

from jaxrobust.core.array_pickles import read_array_pickle
from jaxrobust.core.errors import CorruptFileError, InputError
from jaxrobust.core.pickles import Call, Inert, Machine, ordered_dict
from jaxrobust.core.reading import Archive, reading
from jaxrobust.core.unfolding import unfold
from jaxrobust.core.validation import is_number

_LEGACY_MAGIC = 0x1950A86A20F9469CFC6C
_DTYPES = {
  "Float": np.float32,
  "Double": np.float64,
  "Half": np.float16,
  "BFloat16": jnp.bfloat16,
  "Long": np.int64,
  "Int": np.int32,
  "Short": np.int16,
  "Char": np.int8,
  "Byte": np.uint8,
  "Bool": np.bool_,
}
# NumPy's own limit is 64; no weights have more than a few.
MOST_AXES = 16
# Settings that training scripts store beside the weights; we need none of them.
_INERT = {
  "argparse.Namespace",
  "builtins.set",
  "__builtin__.set",
  "_codecs.encode",
  "collections.Counter",
  "collections.defaultdict",
  "copy_reg._reconstructor",
  "copyreg._reconstructor",
  "builtins.object",
  "__builtin__.object",
  "builtins.dict",
  "datetime.timedelta",
  "easydict.EasyDict",
  "numpy.core.multiarray._reconstruct",
  "numpy._core.multiarray._reconstruct",
  "numpy.core.multiarray.scalar",
  "numpy._core.multiarray.scalar",
  "numpy.dtype",
  "numpy.ndarray",
  "omegaconf.dictconfig.DictConfig",
  "pathlib.PosixPath",
  "pathlib._local.PosixPath",
  "torch.Size",
  "torch.device",
  "yacs.config.CfgNode",
}
_INERT |= {f"torch.{name}" for name in ("float32", "float64", "float16", "bfloat16", "int64", "int32", "uint8", "bool")}


class _Storage:
  """A run of numbers, filled when the file gets to it."""

  __slots__ = ("dtype", "numel", "values")

  def __init__(self, dtype: Any, numel: int):
    self.dtype, self.numel = np.dtype(dtype), numel
    self.values: np.ndarray | None = None

  @property
  def nbytes(self) -> int:
    return self.numel * self.dtype.itemsize

  def fill(self, data: bytes) -> None:
    if len(data) != self.nbytes:
      raise CorruptFileError(f"a storage holds {len(data)} bytes, expected {self.nbytes}")
    # Bytes that can be written, as those who take the arrays may expect.
    self.values = np.frombuffer(bytearray(data), self.dtype)


class _Tensor:
  """A strided view of a storage, made into an array once the storage is filled."""

  __slots__ = ("offset", "size", "storage", "stride")

  def __init__(self, storage: _Storage, offset: int, size: tuple[int, ...], stride: tuple[int, ...], *_: Any):
    numbers = isinstance(size, tuple) and isinstance(stride, tuple) and len(size) == len(stride) <= MOST_AXES
    if not isinstance(storage, _Storage) or not numbers or not all(is_number(n, int) for n in (offset, *size, *stride)):
      raise CorruptFileError("a tensor without a storage")
    self.storage, self.offset, self.size, self.stride = storage, offset, size, stride

  def array(self) -> np.ndarray:
    """Returns the view itself: however many tensors share a storage, it is in memory once."""
    values = self.storage.values
    last = self.offset + sum((n - 1) * step for n, step in zip(self.size, self.stride, strict=True))
    lowest = min((0, self.offset, *self.size, *self.stride))
    if values is None or lowest < 0 or (0 not in self.size and last >= len(values)):
      raise CorruptFileError("a tensor reaches beyond its storage")
    if math.prod(self.size) > len(values):
      raise CorruptFileError(f"a tensor of shape {self.size} has more elements than its storage ({len(values)})")
    steps = [step * values.itemsize for step in self.stride]
    return np.lib.stride_tricks.as_strided(values[self.offset :], self.size, steps)


def _parameter(data: Any, *_: Any) -> Any:
  return data


def _no_storage(*_: Any) -> Any:
  raise CorruptFileError("a storage that is made in the pickle")


# The types of storages are named and never called.
_STORAGES = {f"torch.{kind}Storage": Call(_no_storage) for kind in _DTYPES}
_TYPES = dict(zip(_STORAGES.values(), _DTYPES.values(), strict=True))
_ALLOWED: dict[str, Call] = {
  "collections.OrderedDict": Call(ordered_dict),
  "torch._utils._rebuild_tensor": Call(_Tensor),
  "torch._utils._rebuild_tensor_v2": Call(_Tensor),
  "torch._utils._rebuild_parameter": Call(_parameter),
  "torch._utils._rebuild_parameter_with_state": Call(_parameter),
  **_STORAGES,
}


def _find(name: str) -> Any:
  if name in _ALLOWED:
    return _ALLOWED[name]
  if name in _INERT:
    return Inert()
  raise InputError(
    f"the pickle asks for {name}, and only tensors are read; nothing was executed (if it is your own file, save "
    "model.state_dict() alone)"
  )


def _load(file: BinaryIO, storage: Callable[[str, Any, int], _Storage] | None = None) -> Any:
  """Runs the pickle that begins here; `storage` makes one of its key, type and number of elements."""

  def persistent(pid: Any) -> _Storage:
    if storage is None or not isinstance(pid, tuple) or len(pid) < 5 or pid[0] != "storage":
      raise CorruptFileError("an unknown kind of reference")
    _, kind, key, _, numel = pid[:5]
    known = isinstance(kind, Call) and kind in _TYPES and isinstance(key, str | int)
    if not known or not is_number(numel, int) or numel < 0:
      raise CorruptFileError("a storage of unknown type")
    return storage(str(key), _TYPES[kind], numel)

  return Machine(_find, persistent).load(file)


def read_torch_pickle(data: bytes) -> Any:
  """Reads the nested dicts, lists and plain values of a PyTorch file, with tensors as NumPy arrays."""
  with reading("not a readable PyTorch checkpoint"):
    tree = _read_zip(data) if zipfile.is_zipfile(io.BytesIO(data)) else _read_legacy(data)
    return unfold(tree, _leaf)


def _leaf(value: Any) -> Any:
  if isinstance(value, _Tensor):
    return value.array()
  return None if isinstance(value, Inert | Call | _Storage) else value


def _read_zip(data: bytes) -> Any:
  with Archive(io.BytesIO(data), "not a readable PyTorch checkpoint") as archive:
    names = [name for name in archive.names if name.endswith("/data.pkl") or name == "data.pkl"]
    if len(names) != 1:
      raise CorruptFileError("a zip archive without data.pkl is no PyTorch checkpoint")
    root = names[0].removesuffix("data.pkl")
    storages: dict[str, _Storage] = {}

    def storage(key: str, dtype: Any, numel: int) -> _Storage:
      if key not in storages:
        made = _Storage(dtype, numel)
        made.fill(archive.read(f"{root}data/{key}", made.nbytes))
        storages[key] = made
      return storages[key]

    return _load(io.BytesIO(archive.read(names[0])), storage)


def _read_legacy(data: bytes) -> Any:
  file = io.BytesIO(data)
  try:
    magic = _load(file)
  except InputError:
    raise
  except Exception:
    magic = None
  if isinstance(magic, dict):  # No PyTorch file, but weights of JAX libraries come so.
    return read_array_pickle(data)
  if magic != _LEGACY_MAGIC:
    raise CorruptFileError("neither a zip archive nor the older PyTorch format")
  _load(file)  # Protocol version.
  _load(file)  # Sizes of C types.
  storages: dict[str, _Storage] = {}

  def storage(key: str, dtype: Any, numel: int) -> _Storage:
    return storages.setdefault(key, _Storage(dtype, numel))

  tree = _load(file, storage)
  for key in _load(file):
    numel = int.from_bytes(file.read(8), "little")
    if numel != storages[key].numel:
      raise CorruptFileError(f"a storage has {numel} numbers, expected {storages[key].numel}")
    storages[key].fill(file.read(storages[key].nbytes))
  return tree
