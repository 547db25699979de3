"""Checks that a technique does what it declares: names that nothing would call raise InputError when it is made.

A technique is known by what it inherits (`technique.HOOKS`), so that a misspelled hook would be a technique that does
nothing, without a word. Helpers of a technique's own have names that begin with an underscore, or resemble no part.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

from jaxrobust.core.errors import InputError
from jaxrobust.core.near_names import near_misses, nearest_name
from jaxrobust.core.validation import is_number
from jaxrobust.training.technique import HOOKS, Objective, Technique

_KINDS: tuple[type, ...] = (Technique, *HOOKS.values())
# Every part by the kind that has it: methods are called, all others are read.
_OWNERS = {part: kind for kind in _KINDS for part in vars(kind) if not part.startswith("_")}
_METHODS = {part for part, kind in _OWNERS.items() if callable(vars(kind)[part])}
_REQUIRED = {*HOOKS, "exported"}
# What parts were called before: nothing calls them by these names.
_RENAMED = {"begin": "init_state", "remember": "update_state", "climbs": "needs_state_grad"}


def check_technique(name: str, technique: Any) -> None:
  """Checks that a technique has a hook, no misspelled or undeclared part, and no parts that contradict each other.

  Raises:
    InputError: it does not; the text is one line.

  >>> from jaxrobust.training.technique import Augmentation
  >>> class Negative(Augmentation):
  ...   def augmnt(self, image, key): return 1 - image
  >>> check_technique("negative", Negative())
  Traceback (most recent call last):
  jaxrobust.core.errors.InputError: technique 'negative': nothing calls Negative.augmnt; did you mean 'augment'?
  """
  if isinstance(technique, type):
    raise InputError(f"technique {name!r} is a class: pass a value, {technique.__name__}(…)")
  for find in (_misspelled, _undeclared, _unfit, _contradiction):
    found = find(technique)
    if found:
      raise InputError(f"technique {name!r}: {found}")


def _classes(technique: Any) -> list[type]:
  """Returns those that an author wrote, the last one first."""
  return [kind for kind in type(technique).__mro__ if kind not in _KINDS and kind.__module__ != "builtins"]


def _options(technique: Any) -> set[str]:
  return {item.name for item in fields(technique)} if is_dataclass(technique) else set()


def _written(technique: Any) -> dict[str, Any]:
  """Returns what the author wrote, by public name; options are values."""
  written = {name: value for kind in reversed(_classes(technique)) for name, value in vars(kind).items()}
  written |= dict.fromkeys(_options(technique))
  return {name: value for name, value in written.items() if not name.startswith("_")}


def _misspelled(technique: Any) -> str | None:
  options, written = _options(technique), _written(technique)
  possible = [part for part, kind in _OWNERS.items() if part in HOOKS or isinstance(technique, kind)]
  known = possible if isinstance(technique, Technique) else list(_OWNERS)
  for old, name in _RENAMED.items():
    kind = next((kind for kind in _classes(technique) if old in vars(kind) and old not in options), None)
    if kind is not None and isinstance(technique, _OWNERS[name]):
      return f"{kind.__name__}.{old} is called {name!r} now"
  for kind, own, near in near_misses(_classes(technique), known, {*options, *_OWNERS}):
    return f"nothing calls {kind.__name__}.{own}; did you mean {near!r}?"
  # An option is a value, and may well resemble a method.
  for option in sorted(options - _OWNERS.keys()):
    meant = nearest_name(option, [part for part in known if part not in {*_METHODS, *written}])
    if meant is not None:
      return f"nothing reads its option {option!r} as {meant!r}; name it so, or otherwise"
  return None


def _undeclared(technique: Any) -> str | None:
  name, options = type(technique).__name__, _options(technique)
  for own in _written(technique):
    kind = _OWNERS.get(own)
    if kind is not None and own not in options and not isinstance(technique, kind):
      return f"{name} has {own!r} but is no {kind.__name__}: inherit it from {kind.__module__}"
  if not isinstance(technique, tuple(HOOKS.values())):
    return f"{name} has none of the hooks {', '.join(HOOKS)}"
  return None


def _unfit(technique: Any) -> str | None:
  """Returns a part that is missing, or a value where a method belongs, or the other way round."""
  name, written = type(technique).__name__, _written(technique)
  for part, kind in _OWNERS.items():
    if not isinstance(technique, kind):
      continue
    if part not in written:
      if part in _REQUIRED:
        return f"{name} is of the kind {kind.__name__}, without {part}()"
    elif part in _METHODS and not callable(written[part]):
      return f"{name}.{part} must be a method, and not a value"
    elif part not in _METHODS and callable(written[part]):
      return f"{name}.{part} must be a value or a property, and not a method"
  return None


def _contradiction(technique: Any) -> str | None:
  if not isinstance(technique, Objective):
    return None
  name, written = type(technique).__name__, _written(technique)
  if "update_state" in written and "init_state" not in written:
    return f"{name} has 'update_state' without 'init_state': there is no state to update"
  if technique.needs_state_grad and "update_state" not in written:
    return f"{name} has 'needs_state_grad' without 'update_state': nothing takes the gradient of its state"
  if not is_number(technique.replays, int) or technique.replays < 1:
    return f"'replays' of {name} must be an integer of at least 1, got {technique.replays!r}"
  if technique.budget and not technique.norm:
    return f"{name} has 'budget' without 'norm': a radius belongs to a ball"
  return None
