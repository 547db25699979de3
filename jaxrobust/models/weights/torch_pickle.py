"""PyTorch's .pth/.pt/.th/.tar files, read without torch and without executing anything in them.

A pickle is a program. This reader runs it with a list of the only names it may call: constructors of tensors and
ordered dicts, all our own. Well-known holders of settings (argparse's Namespace, NumPy scalars, …) become inert
placeholders. Any other name, be it `os.system` or the class of a whole pickled network, raises an error with its name.

Both formats are read: the zip archive (torch ≥ 1.6: `NAME/data.pkl` and one file per storage) and the older stream of
pickles followed by the storages.
"""

from __future__ import annotations

import io
import pickle
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, BinaryIO, NoReturn

import jax.numpy as jnp
import numpy as np

from jaxrobust.core.errors import CorruptFileError, InputError

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


class _Inert:
  """Takes whatever a pickle does to it and keeps nothing."""

  __slots__ = ()

  def __new__(cls, *args: Any, **kwargs: Any) -> _Inert:
    return super().__new__(cls)

  def __call__(self, *args: Any, **kwargs: Any) -> _Inert:
    return self

  def __setstate__(self, state: Any = None) -> None: ...
  def __setitem__(self, key: Any, value: Any) -> None: ...
  def append(self, value: Any) -> None: ...
  def extend(self, values: Any) -> None: ...
  def add(self, value: Any) -> None: ...
  def update(self, *values: Any) -> None: ...


class _Call:
  """A function of ours that a pickle may call and not change."""

  __slots__ = ("function",)

  def __init__(self, function: Callable[..., Any]):
    self.function = function

  def __call__(self, *args: Any) -> Any:
    return self.function(*args)

  def __setstate__(self, state: Any) -> NoReturn:
    raise pickle.UnpicklingError("an attempt to change the reader")


class _Storage:
  """A run of numbers, filled when the file gets to it."""

  __slots__ = ("dtype", "numel", "values")

  def __init__(self, dtype: Any, numel: int):
    self.dtype, self.numel = np.dtype(dtype), numel
    self.values: np.ndarray | None = None

  def fill(self, data: bytes) -> None:
    if len(data) != self.numel * self.dtype.itemsize:
      raise CorruptFileError(f"a storage holds {len(data)} bytes, expected {self.numel * self.dtype.itemsize}")
    self.values = np.frombuffer(data, self.dtype)


class _Tensor:
  """A strided view of a storage, made into an array once the storage is filled."""

  __slots__ = ("offset", "size", "storage", "stride")

  def __init__(self, storage: _Storage, offset: int, size: tuple[int, ...], stride: tuple[int, ...], *_: Any):
    if not isinstance(storage, _Storage) or len(size) != len(stride):
      raise pickle.UnpicklingError("a tensor without a storage")
    self.storage, self.offset, self.size, self.stride = storage, offset, tuple(size), tuple(stride)

  def array(self) -> np.ndarray:
    values = self.storage.values
    last = self.offset + sum((n - 1) * step for n, step in zip(self.size, self.stride, strict=True))
    lowest = min((0, self.offset, *self.size, *self.stride))
    if values is None or lowest < 0 or (0 not in self.size and last >= len(values)):
      raise CorruptFileError("a tensor reaches beyond its storage")
    steps = [step * values.itemsize for step in self.stride]
    return np.lib.stride_tricks.as_strided(values[self.offset :], self.size, steps).copy()


def _parameter(data: Any, *_: Any) -> Any:
  return data


_ALLOWED: dict[str, Any] = {
  "collections.OrderedDict": _Call(lambda *pairs: OrderedDict(*pairs)),
  "torch._utils._rebuild_tensor": _Call(_Tensor),
  "torch._utils._rebuild_tensor_v2": _Call(_Tensor),
  "torch._utils._rebuild_parameter": _Call(_parameter),
  "torch._utils._rebuild_parameter_with_state": _Call(_parameter),
}


class _Reader(pickle.Unpickler):
  """An unpickler that knows only the names above."""

  def __init__(self, file: BinaryIO, storage: Callable[[str, Any, int], _Storage] | None = None):
    super().__init__(file, encoding="latin1")
    self._storage = storage

  def find_class(self, module: str, name: str) -> Any:
    full = f"{module}.{name}"
    if full in _ALLOWED:
      return _ALLOWED[full]
    if full in _INERT:
      return _Inert
    kind = name.removesuffix("Storage")
    if module == "torch" and kind != name and kind in _DTYPES:
      return _Call(_DTYPES[kind])
    raise InputError(
      f"the pickle asks for {full}, and only tensors are read; nothing was executed (if it is your own file, save "
      "model.state_dict() alone)"
    )

  def persistent_load(self, pid: Any) -> _Storage:
    if self._storage is None or not isinstance(pid, tuple) or len(pid) < 5 or pid[0] != "storage":
      raise pickle.UnpicklingError("an unknown kind of reference")
    if not isinstance(pid[1], _Call) or not isinstance(pid[4], int):
      raise pickle.UnpicklingError("a storage of unknown type")
    return self._storage(str(pid[2]), pid[1].function, pid[4])


def read_torch_pickle(data: bytes) -> Any:
  """Reads the nested dicts, lists and plain values of a PyTorch file, with tensors as NumPy arrays."""
  try:
    tree = _read_zip(data) if zipfile.is_zipfile(io.BytesIO(data)) else _read_legacy(data)
    return _resolve(tree)
  except (InputError, CorruptFileError):
    raise
  except RecursionError:
    raise CorruptFileError("not a PyTorch checkpoint: nested too deeply") from None
  except Exception as error:  # Damaged pickles fail in every way there is.
    raise CorruptFileError(f"not a readable PyTorch checkpoint: {error or type(error).__name__}") from None


def _read_zip(data: bytes) -> Any:
  with zipfile.ZipFile(io.BytesIO(data)) as archive:
    names = [name for name in archive.namelist() if name.endswith("/data.pkl") or name == "data.pkl"]
    if len(names) != 1:
      raise CorruptFileError("a zip archive without data.pkl is no PyTorch checkpoint")
    root = names[0].removesuffix("data.pkl")
    storages: dict[str, _Storage] = {}

    def storage(key: str, dtype: Any, numel: int) -> _Storage:
      if key not in storages:
        storages[key] = _Storage(dtype, numel)
        storages[key].fill(archive.read(f"{root}data/{key}"))
      return storages[key]

    return _Reader(io.BytesIO(archive.read(names[0])), storage).load()


def _read_legacy(data: bytes) -> Any:
  file = io.BytesIO(data)
  try:
    magic = _Reader(file).load()
  except InputError:
    raise
  except Exception:
    magic = None
  if magic != _LEGACY_MAGIC:
    raise CorruptFileError("neither a zip archive nor the older PyTorch format")
  _Reader(file).load()  # Protocol version.
  _Reader(file).load()  # Sizes of C types.
  storages: dict[str, _Storage] = {}

  def storage(key: str, dtype: Any, numel: int) -> _Storage:
    return storages.setdefault(key, _Storage(dtype, numel))

  tree = _Reader(file, storage).load()
  for key in _Reader(file).load():
    numel = int.from_bytes(file.read(8), "little")
    if numel != storages[key].numel:
      raise CorruptFileError(f"a storage has {numel} numbers, expected {storages[key].numel}")
    storages[key].fill(file.read(numel * storages[key].dtype.itemsize))
  return tree


def _resolve(value: Any) -> Any:
  if isinstance(value, _Tensor):
    return value.array()
  if isinstance(value, dict):
    return {key: _resolve(item) for key, item in value.items()}
  if isinstance(value, list | tuple):
    return [_resolve(item) for item in value]
  return None if isinstance(value, _Inert | _Call) else value
