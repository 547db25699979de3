"""Plain JSON values: made canonical, written reproducibly, compared key by key.

Two results are the same when their bytes are the same, so there is exactly one
way to write a value: sorted keys, a fixed indent, ASCII, and no `NaN` or `Infinity`
(which are not JSON at all).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from jaxrobust.core.errors import InputError

SHOWN_DIFFERENCES = 3
SHOWN_CHARACTERS = 60


class Difference(NamedTuple):
  """One place where two values differ; a side that has no such key shows as "absent"."""

  key: str
  left: str
  right: str


def plain(value: Any, where: str, *, null_for_nan: bool) -> Any:
  """Copies `value`, made only of dict, list, str, int, float, bool and None.

  A float that is not finite becomes None where nothing compares it (a mean over no
  example is a legitimate nothing), and is refused in a configuration: a NaN there never
  equals itself, so the result could never be found again.

  Example:
    >>> plain({"steps": (1, np.float32(0.5)), "mean": float("nan")}, "summary", null_for_nan=True)
    {'steps': [1, 0.5], 'mean': None}
  """
  if isinstance(value, np.generic):
    value = value.item()
  if value is None or isinstance(value, bool | int | str):
    return value
  if isinstance(value, float):
    if math.isfinite(value):
      return value
    if null_for_nan:
      return None
    raise InputError(f"{where} is {value}; only finite numbers can be stored there")
  if isinstance(value, Mapping):
    for key in value:
      if not isinstance(key, str):
        raise InputError(f"{where} has the key {key!r}; only text keys can be stored")
    return {key: plain(item, f"{where}.{key}", null_for_nan=null_for_nan) for key, item in value.items()}
  if isinstance(value, list | tuple):
    return [plain(item, f"{where}.{i}", null_for_nan=null_for_nan) for i, item in enumerate(value)]
  raise InputError(f"{where} is a {type(value).__name__}; only plain JSON values can be stored")


def dumps(value: Any) -> str:
  """Returns the one text of a plain value, ending with a newline.

  Example:
    >>> print(dumps({"b": 1, "a": [True, None]}), end="")
    {
     "a": [
      true,
      null
     ],
     "b": 1
    }
  """
  return json.dumps(value, sort_keys=True, indent=1, separators=(",", ": "), allow_nan=False) + "\n"


def differences(left: Any, right: Any, key: str = "") -> Iterator[Difference]:
  """Yields every leaf at which two plain values differ, under its dotted key, in sorted order.

  Numbers are compared by value (2 equals 2.0, which decide the same verdict), but True is not 1.

  Example:
    >>> list(differences({"a": {"b": 1, "c": 2}}, {"a": {"b": 1.0, "c": 3}, "d": "x"}))
    [Difference(key='a.c', left='2', right='3'), Difference(key='d', left='absent', right='"x"')]
  """
  if isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
    left, right = dict(enumerate(left)), dict(enumerate(right))
  if isinstance(left, dict) and isinstance(right, dict):
    for name in sorted(left.keys() | right.keys()):
      dotted = f"{key}.{name}" if key else str(name)
      if name not in left:
        yield Difference(dotted, "absent", _short(right[name]))
      elif name not in right:
        yield Difference(dotted, _short(left[name]), "absent")
      else:
        yield from differences(left[name], right[name], dotted)
  elif isinstance(left, bool) != isinstance(right, bool) or left != right:
    yield Difference(key, _short(left), _short(right))


def describe(found: list[Difference], left: str = "stored", right: str = "asked") -> str:
  """Returns the first differences as one readable line, and how many more there are.

  Example:
    >>> describe([Difference("attack.num_steps", "20", "40")])
    'attack.num_steps (stored 20, asked 40)'
  """
  shown = [f"{d.key or 'value'} ({left} {d.left}, {right} {d.right})" for d in found[:SHOWN_DIFFERENCES]]
  more = len(found) - len(shown)
  return ", ".join(shown) + (f" and {more} more" if more else "")


def _short(value: Any) -> str:
  text = json.dumps(value, sort_keys=True)
  return text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 1] + "…"
