"""Pickles read by a machine of our own, which can build plain values and call the few functions it was given.

A pickle is a program for a stack machine. Python's own machine imports and calls whatever the program names, makes
room for any memo that it asks for, and hashes keys of any kind. This one (opcodes: Python's `pickletools`) knows plain
values, containers, a bounded memo, and names from a table; everything else is refused.
"""

from __future__ import annotations

import pickletools
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, BinaryIO

from jaxrobust.core.errors import CorruptFileError
from jaxrobust.core.unfolding import MOST_ENTRIES

# Longest program: the pickles of the largest checkpoints, without their tensors, have some hundred thousand opcodes.
MOST_OPCODES = 2_000_000
_KEYS = (str, bytes, int, float, bool, type(None))
_MARK = object()


class Inert:
  """Takes whatever a pickle does to it and keeps nothing."""

  __slots__ = ()


class Call:
  """A function of ours that a pickle may call and not change."""

  __slots__ = ("function",)

  def __init__(self, function: Callable[..., Any]):
    self.function = function


class Machine:
  """Runs one pickle.

  Args:
    find: full name -> what stands for it; raises for names that nobody may use.
    persistent: what a reference to something outside of the pickle stands for; None where there may be none.
    build: gives an object its state, where a class of the caller's own takes one.
    encoding: of Python 2's texts; "bytes" leaves them bytes.
  """

  def __init__(
    self,
    find: Callable[[str], Any],
    persistent: Callable[[Any], Any] | None = None,
    build: Callable[[Any, Any], None] | None = None,
    encoding: str = "latin1",
  ):
    self.find, self.persistent, self.build, self.encoding = find, persistent, build, encoding
    self.stack: list[Any] = []
    self.memo: dict[int, Any] = {}
    self.handed = 0
    self.texts = 0
    self.position = 0  # Bytes of the pickle so far.

  def load(self, file: BinaryIO) -> Any:
    """Returns the value of the pickle that begins here; the file is left at its end."""
    for count, (opcode, argument, position) in enumerate(pickletools.genops(file)):
      self.position = position or 0
      if count > MOST_OPCODES:
        raise CorruptFileError("the pickle is longer than that of any checkpoint")
      if opcode.name == "STOP":
        return self.stack.pop()
      self._do(opcode.name, argument)
    raise CorruptFileError("the pickle has no end")

  def _do(self, name: str, argument: Any) -> None:
    if name in _CONSTANTS:
      self.stack.append(_CONSTANTS[name])
    elif name in _VALUES:
      self.stack.append(argument)
    elif name in _TEXTS:
      self.stack.append(self._text(argument))
    elif name in _EMPTY:
      self.stack.append(_EMPTY[name]())
    elif name in _PLAIN:
      _PLAIN[name](self)
    elif name in _WITH_ARGUMENT:
      _WITH_ARGUMENT[name](self, argument)
    elif name not in ("PROTO", "FRAME"):
      raise CorruptFileError(f"the pickle has the opcode {name}, which no weights need")

  def _text(self, argument: Any) -> Any:
    # pickletools decodes the texts of Python 2 as latin1.
    return argument.encode("latin1") if self.encoding == "bytes" and isinstance(argument, str) else argument

  def _marked(self) -> list[Any]:
    """Returns what lies above the last mark."""
    for at in range(len(self.stack) - 1, -1, -1):
      if self.stack[at] is _MARK:
        items = self.stack[at + 1 :]
        del self.stack[at:]
        return items
    raise CorruptFileError("the pickle has no mark where it needs one")

  def _put(self, argument: Any) -> None:
    index = len(self.memo) if argument is None else int(argument)
    self.memo[index] = self.stack[-1]

  def _get(self, argument: Any) -> None:
    self.stack.append(self.memo[int(argument)])

  def _tuple(self) -> None:
    self.stack.append(tuple(self._marked()))

  def _short_tuple(self, count: int) -> None:
    items = self.stack[len(self.stack) - count :]
    del self.stack[len(self.stack) - count :]
    self.stack.append(tuple(items))

  def _list(self) -> None:
    self.stack.append(self._marked())

  def _dict(self) -> None:
    items = self._marked()
    made: dict[Any, Any] = {}
    self.stack.append(made)
    self._set(made, items)

  def _append(self) -> None:
    item = self.stack.pop()
    self._extend([item])

  def _appends(self) -> None:
    self._extend(self._marked())

  def _extend(self, items: list[Any]) -> None:
    target = self.stack[-1]
    if isinstance(target, list):
      target.extend(items)
    elif not isinstance(target, Inert):
      raise CorruptFileError(f"the pickle appends to a {type(target).__name__}")

  def _setitem(self) -> None:
    value, key = self.stack.pop(), self.stack.pop()
    self._set(self.stack[-1], [key, value])

  def _setitems(self) -> None:
    items = self._marked()
    self._set(self.stack[-1], items)

  def _set(self, target: Any, items: list[Any]) -> None:
    if isinstance(target, Inert):
      return
    if not isinstance(target, dict):
      raise CorruptFileError(f"the pickle sets an entry of a {type(target).__name__}")
    for key, value in zip(items[::2], items[1::2], strict=True):
      # Tuples can be nested without end and take as long to hash.
      if type(key) in _KEYS:
        target[key] = value
      elif not isinstance(key, Inert | tuple):
        raise CorruptFileError(f"the pickle has a {type(key).__name__} as a key")

  def _global(self, argument: Any) -> None:
    self.stack.append(self.find(str(argument).replace(" ", ".", 1)))

  def _stack_global(self) -> None:
    name, module = self.stack.pop(), self.stack.pop()
    self.stack.append(self.find(f"{module}.{name}"))

  def _reduce(self) -> None:
    arguments, function = self.stack.pop(), self.stack.pop()
    self.stack.append(self._called(function, arguments))

  def _newobj_ex(self) -> None:
    _, arguments, function = self.stack.pop(), self.stack.pop(), self.stack.pop()
    self.stack.append(self._called(function, arguments))

  def _called(self, function: Any, arguments: Any) -> Any:
    if isinstance(function, Inert):
      return function
    if not isinstance(function, Call) or not isinstance(arguments, tuple):
      raise CorruptFileError(f"the pickle calls a {type(function).__name__}")
    # One long list can be handed to a function again and again.
    self.handed += sum(len(part) for part in arguments if isinstance(part, list | tuple | dict))
    self.texts += sum(len(part) for part in arguments if isinstance(part, str | bytes))
    # A text of an honest pickle stands in it as often as a function takes it.
    if self.handed > MOST_ENTRIES or self.texts > MOST_ENTRIES + 2 * self.position:
      raise CorruptFileError(f"the pickle hands over more than {MOST_ENTRIES} entries")
    return function.function(*arguments)

  def _build(self) -> None:
    state, target = self.stack.pop(), self.stack[-1]
    if isinstance(target, Call):
      raise CorruptFileError("the pickle makes an attempt to change the reader")
    # The attributes of a dictionary (`_metadata` of a state dict) mean nothing to us.
    if self.build is not None and not isinstance(target, Inert | dict):
      self.build(target, state)

  def _binpersid(self) -> None:
    self._persistent(self.stack.pop())

  def _persistent(self, reference: Any) -> None:
    if self.persistent is None:
      raise CorruptFileError("the pickle has an unknown kind of reference")
    self.stack.append(self.persistent(reference))

  def _pop(self) -> None:
    self.stack.pop()

  def _dup(self) -> None:
    self.stack.append(self.stack[-1])

  def _mark(self) -> None:
    self.stack.append(_MARK)

  def _pop_mark(self) -> None:
    self._marked()


_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_VALUES = {
  *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
  *("UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8"),
}
_TEXTS = {"STRING", "BINSTRING", "SHORT_BINSTRING"}
_EMPTY: dict[str, Callable[[], Any]] = {
  "EMPTY_DICT": dict,
  "EMPTY_LIST": list,
  "EMPTY_TUPLE": tuple,
  "EMPTY_SET": Inert,
}
_PLAIN: dict[str, Callable[[Machine], None]] = {
  "MARK": Machine._mark,
  "POP": Machine._pop,
  "POP_MARK": Machine._pop_mark,
  "DUP": Machine._dup,
  "TUPLE": Machine._tuple,
  "TUPLE1": lambda machine: machine._short_tuple(1),
  "TUPLE2": lambda machine: machine._short_tuple(2),
  "TUPLE3": lambda machine: machine._short_tuple(3),
  "LIST": Machine._list,
  "DICT": Machine._dict,
  "APPEND": Machine._append,
  "APPENDS": Machine._appends,
  "SETITEM": Machine._setitem,
  "SETITEMS": Machine._setitems,
  "ADDITEMS": Machine._pop_mark,
  "STACK_GLOBAL": Machine._stack_global,
  "REDUCE": Machine._reduce,
  "NEWOBJ": Machine._reduce,
  "NEWOBJ_EX": Machine._newobj_ex,
  "BUILD": Machine._build,
  "BINPERSID": Machine._binpersid,
}
_WITH_ARGUMENT: dict[str, Callable[[Machine, Any], None]] = {
  "GLOBAL": Machine._global,
  "PERSID": Machine._persistent,
  **dict.fromkeys(("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"), Machine._put),
  **dict.fromkeys(("GET", "BINGET", "LONG_BINGET"), Machine._get),
}


def ordered_dict(pairs: Any = ()) -> OrderedDict:
  """Returns what `collections.OrderedDict` makes of a list of pairs, whose keys are plain."""
  made: OrderedDict = OrderedDict()
  for pair in pairs:
    key, value = pair
    if type(key) not in _KEYS:
      raise CorruptFileError(f"the pickle has a {type(key).__name__} as a key")
    made[key] = value
  return made
