"""Attacks by name: `make_attack("pgd", norm="l2", num_steps=20)`.

Adding an attack is one file and one line in `_MODULES`; `jaxrobust.testing.check_attack` then covers it.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import inspect
import math
from collections.abc import Callable
from numbers import Real
from typing import Any

from jaxrobust.core.contract import MOST_STEPS, contract_of
from jaxrobust.core.errors import InputError
from jaxrobust.core.registry import Registry, unknown_name
from jaxrobust.core.threat import Threat
from jaxrobust.core.validation import is_number

_MODULES = ("pgd", "mim", "square", "fab", "deepfool", "apgd", "mm", "cw", "ddn", "fmn", "ead")
_CASCADE_MODULES = ("autoattack", "autoae", "audit")
_TRANSFER_MODULES = ("transfer_gradients", "uap")
_SCORE_MODULES = ("nes", "spsa", "nattack", "zoo", "bandits", "simba", "signhunter")
_THREAT_MODULES = ("ppgd", "lpa", "stadv", "recolor", "rigid", "patch")
_UNFORESEEN_MODULES = tuple(
  f"unforeseen.{name}" for name in ("jpeg", "elastic", "wood", "glitch", "kaleidoscope", "pixel", "snow", "gabor")
)
_DECISION_MODULES = ("boundary", "evolutionary", "hopskipjump", "sign_opt", "opt", "rays", "geoda", "surfree")


def _load() -> None:
  for module in (
    *(_MODULES + _CASCADE_MODULES + _TRANSFER_MODULES),
    *(_SCORE_MODULES + _DECISION_MODULES + _THREAT_MODULES + _UNFORESEEN_MODULES),
  ):
    importlib.import_module(f"jaxrobust.attacks.{module}")


ATTACKS: Registry[Callable[..., Any]] = Registry("attack", _load)


def make_attack(name: str, **parameters: Any) -> Any:
  """Makes the attack `name` with some of its hyper-parameters set; unknown ones are refused by name.

  `num_steps` is how many steps are in all of them called; `steps`, which some had before, is taken for it. `queries` is
  the budget of every attack without gradients, under whichever name it keeps it.

  >>> make_attack("fgsm", norm="l2").norm, make_attack("pgd", steps=7).num_steps
  ('l2', 7)
  >>> [make_attack(name, queries=500).num_steps for name in ("square", "boundary", "nes")]
  [500, 500, 2]
  """
  if not isinstance(name, str):
    raise InputError(f"an attack is made by its name, such as 'pgd', got {name!r}")
  build = ATTACKS[name]
  known = parameters_of(name)
  if "steps" in parameters and "num_steps" in known and "num_steps" not in parameters:
    parameters["num_steps"] = parameters.pop("steps")
  for key, value in parameters.items():
    if key not in known:
      raise unknown_name(f"parameter of attack {name!r}", key, list(known))
    _check_parameter(key, value, known[key].annotation)
  if "queries" in parameters and "queries" not in inspect.signature(build).parameters:
    if "num_steps" in parameters:
      raise InputError(f"attack {name!r} makes one query a step: give queries or num_steps, not both")
    parameters["num_steps"] = parameters.pop("queries")
  try:
    attack = build(**parameters)
  except TypeError as error:
    raise InputError(f"attack {name!r} cannot take these parameters: {error}") from None
  if not hasattr(attack, "stages"):  # Those of a cascade are checked as it is made.
    contract_of(attack)
  return attack


def parameters_of(name: str) -> dict[str, inspect.Parameter]:
  """Returns what `make_attack` takes for an attack: the parameters of its builder, and `queries` where a step is one.

  >>> list(parameters_of("square"))[:3], "queries" in parameters_of("pgd")
  (['norm', 'num_steps', 'queries'], False)
  """
  known = {key: given for key, given in inspect.signature(ATTACKS[name]).parameters.items() if key != "name"}
  needs = any(given.default is given.empty for given in known.values())
  if "num_steps" not in known or "queries" in known or needs or not _asks_once(ATTACKS[name]()):
    return known
  return {
    other: given.replace(name=other)
    for key, given in known.items()
    for other in ((key, "queries") if key == "num_steps" else (key,))
  }


def _asks_once(attack: Any) -> bool:
  """Says whether every step of an attack is one query and nothing else."""
  cost = getattr(attack, "cost", None)  # A cascade has none.
  return cost is not None and (cost.forward, cost.backward) == (1, 0)


def _check_parameter(name: str, value: Any, annotation: Any) -> None:
  """Refuses what is not of the annotated kind, and numbers with which no attack attacks."""
  text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
  kinds = text.split(" | ")
  rule = next((_KINDS[kind] for kind in kinds if kind in _KINDS), None)
  if rule is None or (value is None and "None" in kinds):
    return
  wanted, fits = rule
  if not fits(value):
    raise InputError(f"{name} must be {wanted}, got {value!r}")
  if is_number(value, int) and value > MOST_STEPS:
    raise InputError(f"{name} must be at most {MOST_STEPS}, got {value}")
  if name in _SCALES and not value > 0:
    raise InputError(f"{name} must be more than 0, got {value!r}")


# Annotation of a parameter -> what it must be in words, and the test.
_KINDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
  "bool": ("true or false", lambda value: isinstance(value, bool)),
  "int": ("an integer of at least 1", lambda value: is_number(value, int) and value >= 1),
  "float": ("a number of at least 0", lambda value: is_number(value, Real) and 0 <= value < math.inf),
  "str": ("a name", lambda value: isinstance(value, str)),
}
# What steps and searches are multiples of: with zero they evaluate the same image again and again.
_SCALES = ("step_size", "step_length", "initial_const", "init_eps")


def list_attacks(pattern: str = "*") -> list[str]:
  """Returns the registered names that match a shell pattern."""
  return ATTACKS.matching(pattern)


def attack_name(attack: Any) -> str:
  """Returns the short name of an attack value: its `name`, or its class in lower case."""
  return str(getattr(attack, "name", type(attack).__name__.lower()))


def attack_id(attack: Any) -> str:
  """Returns the id in cells and tables: norm, name, queries or steps where there is more than one, what is not default.

  >>> attack_id(make_attack("pgd", num_steps=20)), attack_id(make_attack("fgsm", norm="l2"))
  ('linf-pgd-20', 'l2-fgsm')
  >>> attack_id(make_attack("pgd", num_steps=20, step_size=0.1))
  'linf-pgd-20,step_size=0.1'
  """
  try:
    return _known_id(attack)
  except TypeError:  # A threat with arrays in it cannot be hashed.
    return _attack_id(attack)


def _attack_id(attack: Any) -> str:
  name, steps = attack_name(attack), getattr(attack, "queries", attack.num_steps)
  parts = [attack.threat.name, name, *([str(steps)] if steps > 1 else [])]
  return ",".join(["-".join(parts), *_special(attack, name)])


# What an id says by its place. Defaults may depend on all of it but for queries.
_NAMED = ("norm", "num_steps", "threat")

_known_id = functools.lru_cache(maxsize=1024)(_attack_id)


def _special(attack: Any, name: str) -> list[str]:
  """Returns the hyper-parameters that differ from what the same norm and steps have by default."""
  if not dataclasses.is_dataclass(attack):
    return []
  values = {key: value for key, value in _parameters(attack).items() if key not in (*_NAMED, "queries", "name")}
  usual: dict[str, Any] = {field.name: field.default for field in dataclasses.fields(attack)}
  if name in ATTACKS:
    known = inspect.signature(ATTACKS[name]).parameters
    same = {key: vars(attack)[key] for key in _NAMED if key in known and key in vars(attack)}
    usual |= _parameters(ATTACKS[name](**same))
  special = {key: value for key, value in values.items() if value != usual[key]}
  return [f"{key}={value:.6g}" if isinstance(value, float) else f"{key}={value}" for key, value in special.items()]


def _parameters(attack: Any) -> dict[str, Any]:
  """Returns every hyper-parameter by name; those of the pieces that an attack is composed of stand beside its own."""
  flat: dict[str, Any] = {}
  for key, value in vars(attack).items():
    if key not in getattr(attack, "pieces", ()):
      flat[key] = value
    elif value is not None:
      flat |= value.config() if hasattr(value, "config") else vars(value)
  return flat


def attack_config(attack: Any) -> dict[str, Any]:
  """Returns every hyper-parameter of an attack value as plain JSON."""
  if not dataclasses.is_dataclass(attack) or isinstance(attack, type):
    return {"attack": type(attack).__name__, "repr": repr(attack)}
  plain = {key: value.config() if isinstance(value, Threat) else value for key, value in _parameters(attack).items()}
  return {"attack": type(attack).__name__, **plain}


def check_steps(num_steps: int) -> None:
  """Refuses attacks that would evaluate nothing."""
  if not isinstance(num_steps, int) or isinstance(num_steps, bool):
    raise InputError(f"num_steps must be an integer, got {num_steps!r}")
  if num_steps < 1:
    raise InputError(f"an attack needs at least 1 step, got num_steps={num_steps}")
  if num_steps > MOST_STEPS:
    raise InputError(f"an attack takes at the most {MOST_STEPS} steps, got num_steps={num_steps}")
