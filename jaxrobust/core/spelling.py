"""Names that were once spelled otherwise: configs, commands, checkpoints and model folders that have them still work.

Whatever reads a public name passes it through `current_name`; what is written has the current spelling.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from jaxrobust.core.errors import InputError

F = TypeVar("F", bound=Callable[..., Any])

_CURRENT = {
  "colour-jitter": "color-jitter",
  "grey": "gray",
  "looked": "point_query",
  "normalise": "normalize",
  "optimiser": "optimizer",
  "randomised": "randomized",
}


def current_name(name: str) -> str:
  """Returns a name in its current spelling; the parts of a dotted name are names.

  >>> current_name("optimiser"), current_name("options.colour-jitter.brightness"), current_name("arch")
  ('optimizer', 'options.color-jitter.brightness', 'arch')
  """
  return ".".join(_CURRENT.get(part, part) for part in name.split("."))


def current_keys(options: Mapping[str, Any]) -> dict[str, Any]:
  """Returns options by their current names.

  Raises:
    InputError: an option is given in two spellings.
  """
  renamed: dict[str, Any] = {}
  for name, value in options.items():
    current = current_name(name) if isinstance(name, str) else name
    if current in renamed:
      raise InputError(f"option {current!r} is given in two spellings")
    renamed[current] = value
  return renamed


def accepts_old_names(function: F) -> F:
  """Returns a function or a class that also takes its keyword arguments by their old names.

  >>> accepts_old_names(lambda randomized=False: randomized)(randomised=True)
  True
  """

  if isinstance(function, type):
    for name in ("__new__", "_replace") if issubclass(function, tuple) else ("__init__",):
      setattr(function, name, accepts_old_names(getattr(function, name)))
    return function

  @functools.wraps(function)
  def call(*args: Any, **named: Any) -> Any:
    return function(*args, **current_keys(named))

  return call  # type: ignore[return-value]
