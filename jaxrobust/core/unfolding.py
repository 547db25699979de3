"""What a pickle has built as plain dicts and lists, within bounds: shared parts are written out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jaxrobust.core.errors import CorruptFileError

DEEPEST = 100
# Entries of all containers once shared ones are written out: a few bytes can stand for billions.
MOST_ENTRIES = 2_000_000


def unfold(value: Any, leaf: Callable[[Any], Any]) -> Any:
  """Returns nested dicts and lists with `leaf` applied to everything else; what is shared stays shared.

  Raises:
    CorruptFileError: it nests too deeply, contains itself, or would be too large once shared parts are written out.
  """
  return _unfold(value, leaf, {}, 0)[0]


def _unfold(value: Any, leaf: Callable[[Any], Any], known: dict[int, Any], depth: int) -> tuple[Any, int]:
  if not isinstance(value, dict | list | tuple):
    return leaf(value), 1
  found = known.get(id(value))
  if found is None:
    if depth > DEEPEST:
      raise CorruptFileError("the pickle is nested too deeply")
    known[id(value)] = _INSIDE
    found = known[id(value)] = _container(value, leaf, known, depth + 1)
  elif found is _INSIDE:
    raise CorruptFileError("the pickle holds a container that contains itself")
  return found


_INSIDE = (None, 0)


def _container(value: Any, leaf: Callable[[Any], Any], known: dict[int, Any], depth: int) -> tuple[Any, int]:
  items = list(value.values()) if isinstance(value, dict) else list(value)
  parts, size = [], 1
  for item in items:
    part, entries = _unfold(item, leaf, known, depth)
    parts.append(part)
    size += entries
    if size > MOST_ENTRIES:
      raise CorruptFileError(f"the pickle stands for more than {MOST_ENTRIES} entries")
  return (dict(zip(value, parts, strict=True)) if isinstance(value, dict) else parts), size
