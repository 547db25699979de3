"""What a function is, as a hash: its code, and every value that the code can reach.

A name or a set of weights does not tell two functions apart: one closes over `W`, the other over `-W`. So the hash
covers bytecode, defaults, closures, the globals it names and the state of objects, to any depth. Code of installed
packages counts by its name, because their versions are recorded elsewhere. It is equal in every process of one Python
version.
"""

from __future__ import annotations

import dis
import functools
import hashlib
import os
import sys
import sysconfig
import types
from collections.abc import Iterable, Iterator
from typing import Any

import jax
import numpy as np
from flax import linen as nn

_PLAIN = (type(None), bool, int, float, complex, str, bytes, range, type(...), type(NotImplemented))
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_LIBRARIES = (
  *(sysconfig.get_path(name) + os.sep for name in ("stdlib", "purelib", "platlib")),
  _PACKAGE + os.sep,
  "<frozen",
)


def identity(value: Any) -> str | None:
  """A hash of a function, a module or any other object; None where its state cannot be read.

  >>> scaled = lambda by: lambda x: by * x
  >>> identity(scaled(2.0)) == identity(scaled(2.0)), identity(scaled(2.0)) == identity(scaled(-2.0))
  (True, False)
  """
  try:
    return _Walk().digest(value).hex()
  except Exception:  # An object may refuse to be read in any way: locks, sessions, handles, cycles of lists.
    return None


def is_ours(module: Any) -> bool:
  """Whether a linen module is an architecture of this package through and through."""
  ours = isinstance(module, nn.Module) and type(module).__module__.partition(".")[0] == __name__.partition(".")[0]
  return ours and all(is_ours(part) for _, part in _fields(module) if isinstance(part, nn.Module))


class _Walk:
  """One pass over all that can be reached; what was met before is named by when it was."""

  def __init__(self) -> None:
    self._met: dict[int, int] = {}
    self._alive: list[Any] = []  # An object that is gone would leave its id to another.

  def digest(self, value: Any) -> bytes:
    """The hash of any value."""
    if isinstance(value, _PLAIN):
      return _mix(type(value).__name__, repr(value).encode())
    if isinstance(value, np.ndarray | np.generic | jax.Array):
      return self._array(value)
    if type(value) in (tuple, list):
      return _mix(type(value).__name__, *map(self.digest, value))
    if type(value) in (set, frozenset):
      return _mix("set", *sorted(map(self.digest, value)))
    if type(value) is dict:
      return self._pairs("dict", value.items())
    if _in_library(value):
      return _mix("name", value.__module__.encode(), value.__qualname__.encode())
    if id(value) in self._met:
      return _mix("again", str(self._met[id(value)]).encode())
    self._met[id(value)] = len(self._met)
    self._alive.append(value)
    return self._object(value)

  def _object(self, value: Any) -> bytes:
    if isinstance(value, types.FunctionType):
      return self._function(value)
    if isinstance(value, types.MethodType):
      return _mix("method", self.digest(value.__func__), self.digest(value.__self__))
    if isinstance(value, types.ModuleType):
      return _mix("module", value.__name__.encode())
    if isinstance(value, type):
      return self._class(value)
    if isinstance(value, property | staticmethod | classmethod | functools.cached_property):
      parts = (getattr(value, name, None) for name in ("fget", "fset", "__func__", "func"))
      return _mix(type(value).__name__, *map(self.digest, parts))
    if isinstance(value, nn.Module):
      return _mix("linen", self.digest(type(value)), self._pairs("fields", _fields(value)))
    if hasattr(value, "__wrapped__"):  # jit, cache: they compute what they wrap.
      return _mix("wrapped", self.digest(type(value)), self.digest(value.__wrapped__))
    made = value.__reduce_ex__(4)  # As pickle sees it; fails for what has no readable state.
    if isinstance(made, str):
      return _mix("global", self.digest(type(value)), made.encode())
    parts = (part if i < 3 or part is None else list(part) for i, part in enumerate(made))
    return _mix("object", *map(self.digest, parts))

  def _function(self, value: types.FunctionType) -> bytes:
    code = value.__code__
    held = [cell.cell_contents if _filled(cell) else None for cell in value.__closure__ or ()]
    values = [held, value.__defaults__, value.__kwdefaults__]
    if code.co_filename.startswith(_LIBRARIES):
      name = f"{value.__globals__.get('__name__')} {code.co_qualname}"
      return _mix("library", name.encode(), *map(self.digest, values))
    found = {name: value.__globals__[name] for name in _global_names(code) if name in value.__globals__}
    parts = [*map(self.digest, values), self._pairs("globals", found.items())]
    reached = [*found.values(), *held]
    parts += [self._used(module, code) for module in reached if isinstance(module, types.ModuleType)]
    return _mix("function", self._code(code), *parts)

  def _code(self, code: types.CodeType) -> bytes:
    constants = [self._code(each) if isinstance(each, types.CodeType) else each for each in code.co_consts]
    names = (code.co_names, code.co_varnames[: code.co_argcount + code.co_kwonlyargcount], code.co_flags)
    return _mix("code", code.co_code, self.digest(constants), self.digest(names))

  def _used(self, module: types.ModuleType, code: types.CodeType) -> bytes:
    """Of a module that does not come from a library, what the code may take from it."""
    file = getattr(module, "__file__", None)
    if file is None or file.startswith(_LIBRARIES):
      return _mix("module", module.__name__.encode())
    names = sorted({name for part in _codes(code) for name in part.co_names} & vars(module).keys())
    return self._pairs("module", ((name, vars(module)[name]) for name in names))

  def _class(self, value: type) -> bytes:
    """Its methods and attributes; those that Python or dataclasses add to every class say nothing new."""
    said = {name: part for name, part in vars(value).items() if not _added(name, part)}
    return _mix("class", value.__qualname__.encode(), self.digest(value.__bases__), self._pairs("class", said.items()))

  def _pairs(self, kind: str, pairs: Iterable[tuple[Any, Any]]) -> bytes:
    return _mix(kind, *(self.digest(part) for pair in pairs for part in pair))

  def _array(self, value: Any) -> bytes:
    if isinstance(value, jax.Array) and jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key):
      return _mix("key", str(value.dtype).encode(), self._array(jax.random.key_data(value)))
    array = np.ascontiguousarray(value)
    if array.dtype.hasobject:
      return _mix("array", str(array.shape).encode(), self.digest(array.ravel().tolist()))
    return _mix("array", f"{array.shape} {array.dtype}".encode(), array.tobytes())


def _mix(kind: str, *parts: bytes) -> bytes:
  whole = hashlib.sha256(kind.encode())
  for part in parts:
    whole.update(hashlib.sha256(part).digest())
  return whole.digest()


def _in_library(value: Any) -> bool:
  """Whether a value is what an installed package calls by this name, and not something made from it."""
  module = sys.modules.get(str(getattr(value, "__module__", None)))
  if module is None or not isinstance(getattr(value, "__qualname__", None), str):
    return False
  if not (getattr(module, "__file__", None) or "<frozen").startswith(_LIBRARIES) or module.__name__ == "__main__":
    return False
  try:
    return functools.reduce(getattr, value.__qualname__.split("."), module) is value
  except AttributeError:
    return False


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
  """A piece of code and all functions inside it."""
  yield code
  for each in code.co_consts:
    if isinstance(each, types.CodeType):
      yield from _codes(each)


def _global_names(code: types.CodeType) -> list[str]:
  steps = (step for part in _codes(code) for step in dis.get_instructions(part))
  return sorted({step.argval for step in steps if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")})


def _filled(cell: Any) -> bool:
  try:
    return cell.cell_contents is not cell
  except ValueError:
    return False


def _fields(module: nn.Module) -> list[tuple[str, Any]]:
  names = module.__dataclass_fields__
  return [(name, getattr(module, name)) for name in names if name not in ("parent", "name")]


def _added(name: str, part: Any) -> bool:
  if isinstance(part, types.FunctionType):
    return part.__code__.co_filename == "<string>"  # Written by dataclasses, from the fields.
  return name.startswith(("__", "_abc_"))
