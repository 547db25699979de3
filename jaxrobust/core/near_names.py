"""Names in classes that are nearly, but not quite, what somebody looks for."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Collection, Iterable, Iterator

# How alike two names must be for one to be a slip of the other (difflib's ratio): "averaging" still is.
_ALIKE = 0.75


def nearest_name(name: str, known: Iterable[str]) -> str | None:
  """Returns the known name that another one looks like, if any.

  >>> nearest_name("treat", ["threat", "cost"]), nearest_name("beta", ["threat", "cost"])
  ('threat', None)
  """
  return next(iter(difflib.get_close_matches(name, list(known), 1, _ALIKE)), None)


def near_misses(
  kinds: Iterable[type], known: Collection[str], spared: Collection[str] = ()
) -> Iterator[tuple[type, str, str]]:
  """Yields public names of classes that look like a known one: the class, the name, the one that was meant.

  A name of one class is not excused by the part that an earlier class has: `treat` beside an inherited `threat`.

  Args:
    kinds: classes, the last one first.
    known: what is looked for.
    spared: names that may look like anything.
  """
  below: set[str] = set()
  for kind in kinds:
    names = {name for name in (*vars(kind), *inspect.get_annotations(kind)) if not name.startswith("_")}
    below |= names
    for own in sorted(names.difference(known, spared)):
      near = nearest_name(own, [part for part in known if part not in below])
      if near is not None:
        yield kind, own, near
