"""Names to things, with near-miss suggestions for the names nobody knows.

Example:
  >>> colors = Registry("color")
  >>> @colors.register("crimson")
  ... def crimson(shade=1): return shade
  >>> colors["crimson"](2)
  2
  >>> colors["crimsn"]
  Traceback (most recent call last):
  jaxrobust.core.errors.UnknownNameError: unknown color 'crimsn'; did you mean 'crimson'?

An installed package adds entries of its own by entry points of the group `jaxrobust.KINDs`, in its pyproject.toml:

  [project.entry-points."jaxrobust.attacks"]
  my-attack = "my_package.attacks:MyAttack"
"""

from __future__ import annotations

import difflib
import fnmatch
import warnings
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, TypeVar

from jaxrobust.core.errors import InputError, UnknownNameError, first_line
from jaxrobust.core.spelling import current_name

T = TypeVar("T")


def unknown_name(kind: str, name: str, known: list[str]) -> UnknownNameError:
  """Returns the error for `name`, with the nearest of the `known` names."""
  lower = {one.lower(): one for one in known}
  near = [lower[one] for one in difflib.get_close_matches(name.lower(), lower, n=3, cutoff=0.5)]
  hint = f"did you mean {' or '.join(map(repr, near))}?" if near else f"known: {', '.join(known) or 'none'}"
  return UnknownNameError(f"unknown {kind} {name!r}; {hint}")


class Registry(Generic[T], Mapping[str, T]):
  """A read-only mapping that is filled by `register` when modules are imported.

  Args:
    kind: what the entries are, for messages ("attack", "model", …); `jaxrobust.attacks`, `jaxrobust.models`, … is the
      group of entry points by which other packages add to them. They are imported when they are asked for.
    load: imports the modules that register entries; called once, on first look-up,
      so that `import jaxrobust` stays cheap and nothing depends on import order.
  """

  def __init__(self, kind: str, load: Callable[[], object] | None = None):
    self.kind = kind
    self._load = load
    self._entries: dict[str, T] = {}
    self._families: dict[str, Callable[[str], T]] = {}
    self._added: dict[str, EntryPoint] | None = None

  def register(self, name: str) -> Callable[[T], T]:
    def add(entry: T) -> T:
      if name in self._entries:
        raise ValueError(f"{self.kind} {name!r} is registered twice")
      self._entries[name] = entry
      return entry

    return add

  def register_family(self, prefix: str, make: Callable[[str], T]) -> None:
    """Makes entries on demand, for families too large to be listed.

    Args:
      prefix: how their names begin.
      make: from the rest of a name to its entry; raises `UnknownNameError` where there is none.
    """
    self._families[prefix] = make

  def _filled(self) -> dict[str, T]:
    if self._load is not None:
      load, self._load = self._load, None
      load()
    return self._entries

  def _others(self) -> dict[str, EntryPoint]:
    """Returns the entry points of other packages; a name that is ours stays ours."""
    entries = self._filled()
    if self._added is None:
      self._added = {}
      for point in entry_points(group=f"jaxrobust.{self.kind}s"):
        if point.name in entries:
          warnings.warn(f"{self.kind} {point.name!r} of {point.value} is left out: the name is taken", stacklevel=2)
        else:
          self._added[point.name] = point
    return self._added

  def __getitem__(self, name: str) -> T:
    entries = self._filled()
    if name not in entries and isinstance(name, str):
      name = current_name(name)
    if name in entries:
      return entries[name]
    if name in self._others():
      entries[name] = _loaded(self.kind, self._others().pop(name))
      return entries[name]
    for prefix, make in self._families.items():
      if name.startswith(prefix):
        return make(name.removeprefix(prefix))
    raise unknown_name(self.kind, name, list(self))

  def __iter__(self) -> Iterator[str]:
    return iter(sorted([*self._filled(), *self._others()]))

  def __len__(self) -> int:
    return len(self._filled()) + len(self._others())

  def matching(self, pattern: str = "*") -> list[str]:
    """Returns the known names that match a shell pattern, sorted."""
    return [name for name in self if fnmatch.fnmatchcase(name, pattern)]


def _loaded(kind: str, point: EntryPoint) -> Any:
  try:
    return point.load()
  except Exception as error:  # Whatever another package does when it is imported.
    raise InputError(f"{kind} {point.name!r} of {point.value} cannot be imported: {first_line(error)}") from error
