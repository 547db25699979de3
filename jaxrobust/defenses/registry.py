"""Defenses by name: `make_defense("jpeg,quality=75")`, several joined by `+`.

Adding a defense is one file and one line in `_MODULES`; `tests/defenses/test_common.py` then covers it. A text names
the defense that sees the image first at the head: `jpeg,quality=75+bit-depth` compresses, then quantizes.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import math
from typing import Any

from jaxrobust.core.classifier import Classifier
from jaxrobust.core.defense import Defense, defend, defenses_of
from jaxrobust.core.errors import InputError
from jaxrobust.core.registry import Registry, unknown_name
from jaxrobust.core.validation import is_number

_MODULES = ("bit_depth", "denoiser", "ensemble", "jpeg", "random_discretization", "random_padding", "smoothing", "tv")
_JOINT, _COMMA = "+", ","

DEFENSES: Registry[type[Defense]] = Registry(
  "defense", lambda: [importlib.import_module(f"jaxrobust.defenses.{module}") for module in _MODULES]
)


def make_defense(name: str, **parameters: Any) -> Defense:
  """Returns the defense `name`, with parameters in its text (`jpeg,quality=75`) or by keyword; others are refused.

  >>> make_defense("jpeg", quality=50) == make_defense("jpeg,quality=50")
  True
  """
  if not isinstance(name, str):
    raise InputError(f"a defense is made by its name, such as 'jpeg', got {name!r}")
  name, *texts = name.split(_COMMA)
  build = DEFENSES[name]
  fields = {field.name: field for field in dataclasses.fields(build)}  # type: ignore[arg-type]
  pairs = [_parameter(name, text, fields) for text in texts] + list(parameters.items())
  given = dict(pairs)
  if len(given) < len(pairs):
    raise InputError(f"a parameter of defense {name!r} is given twice")
  for key, value in given.items():
    if key not in fields:
      raise unknown_name(f"parameter of defense {name!r}", key, list(fields))
    given[key] = _checked(key, value, fields[key].default)
  return build(**given)


def parse_defenses(text: str) -> tuple[Defense, ...]:
  """Returns the defenses that a text names, none for the empty one.

  >>> [defense_id(one) for one in parse_defenses("bit-depth,levels=8+jpeg")]
  ['bit-depth,levels=8', 'jpeg']
  """
  if not isinstance(text, str):
    raise InputError(f"defenses are a text such as 'jpeg,quality=75+bit-depth', got {text!r}")
  return tuple(make_defense(part) for part in text.split(_JOINT)) if text else ()


def defense_id(defense: Defense) -> str:
  """Returns the name of a defense and the parameters that are not its defaults.

  >>> defense_id(make_defense("jpeg,quality=75")), defense_id(make_defense("jpeg,quality=40"))
  ('jpeg', 'jpeg,quality=40')
  """
  fields = dataclasses.fields(defense)  # type: ignore[arg-type]
  special = [f"{one.name}={vars(defense)[one.name]}" for one in fields if vars(defense)[one.name] != one.default]
  return _COMMA.join([defense.name, *special])


def defenses_id(classifier: Classifier) -> str:
  """Returns the text of all defenses of a classifier; empty for none."""
  return _JOINT.join(map(defense_id, defenses_of(classifier)))


def defended_by(classifier: Classifier, text: str) -> Classifier:
  """Returns a classifier behind the defenses that a text names."""
  return defend(classifier, parse_defenses(text))


def list_defenses(pattern: str = "*") -> list[str]:
  """Returns the registered names that match a shell pattern."""
  return DEFENSES.matching(pattern)


def _parameter(name: str, text: str, fields: dict[str, Any]) -> tuple[str, Any]:
  key, equals, value = text.partition("=")
  if not equals:
    raise InputError(f"parameters of a defense are written name=value, as {name},{key}=…, got {text!r}")
  if key in fields and isinstance(fields[key].default, str):
    return key, value  # A folder may be called 1e3.
  try:
    return key, ast.literal_eval(value)
  except (ValueError, SyntaxError):
    return key, value


def _checked(name: str, value: Any, default: Any) -> Any:
  """Returns a parameter as the type of its default."""
  if isinstance(default, str):
    return str(value)
  if isinstance(default, float) and is_number(value, int | float) and math.isfinite(value):
    return float(value)
  if isinstance(default, int) and is_number(value, int):
    return value
  kind = "a finite number" if isinstance(default, float) else "an integer"
  raise InputError(f"{name} must be {kind}, got {value!r}")
