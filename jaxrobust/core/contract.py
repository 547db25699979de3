"""The contract of an attack, read once and checked by name: the undeclared, misspelled or contradictory raises.

Nothing is assumed for an author who forgets a line: an l2 attack that did not say so would be verified as linf, and its
numbers would be wrong without a word.
"""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Iterator
from typing import Any, NamedTuple, get_args

import jax
import numpy as np

from jaxrobust.core.errors import InputError
from jaxrobust.core.near_names import near_misses
from jaxrobust.core.threat import Norm, Threat
from jaxrobust.core.types import Access, Attack, Cost
from jaxrobust.core.validation import is_number

REQUIRED = ("threat", "minimal", "access", "cost", "num_steps", "init", "step")
OPTIONAL = {"candidate": None, "max_queries": None, "may_leave_ball": False, "needs_start": False, "needs_others": 0}
_FREE = ("name", "norm", "loss")
# Counters on the devices have 31 bits, and schedules of steps are tables.
MOST_STEPS = 10_000_000


class Contract(NamedTuple):
  """The declarations of an attack; see `core.types.Attack`.

  Attributes:
    candidate: whether the attack says which point it evaluates next.
  """

  threat: Threat
  minimal: bool
  access: str
  cost: Cost
  num_steps: int
  candidate: bool
  max_queries: int | None
  may_leave_ball: bool
  needs_start: bool
  needs_others: int

  @property
  def largest_need(self) -> int:
    """Returns the queries needed for one more step: its own, and that of the last candidate, where it is counted."""
    return self.cost.forward + (self.candidate and self.access != "gradient")


def contract_of(attack: Any) -> Contract:
  """Returns the contract of an attack, or raises InputError with the first thing that is wrong with it."""
  try:
    # 1 equals True and 10.0 equals 10: types are part of what is known.
    return _known(attack, tuple(map(type, vars(attack).values())))
  except TypeError:  # A threat with arrays in it cannot be hashed.
    return _read(attack)


@functools.lru_cache(maxsize=1024)
def _known(attack: Any, types: tuple[type, ...]) -> Contract:
  del types
  hash(attack)
  return _read(attack)


def _read(attack: Any) -> Contract:
  name = type(attack).__name__
  # `queries` is how attacks call their own budget, beside the declaration.
  free = (*_FREE, "queries") if inspect.getattr_static(attack, "max_queries", None) is not None else _FREE
  _check_spelling(attack, f"attack {name}", [*REQUIRED, *OPTIONAL, *free])
  for part in REQUIRED:
    if inspect.getattr_static(attack, part, None) is None:
      raise InputError(f"attack {name} does not declare {part}: {_HINTS[part]}")
  try:
    more: dict[str, Any] = {part: getattr(attack, part, default) for part, default in OPTIONAL.items()}
    required: dict[str, Any] = {part: getattr(attack, part) for part in REQUIRED[:5]}
  except AttributeError as error:  # `threat = by_norm` without a norm.
    raise InputError(f"attack {name}: a declaration wants what is not there: {error}") from None
  more["candidate"] = more["candidate"] is not None
  contract = Contract(**required, **more)
  problem = next((text for bad, text in _rules(attack, contract) if bad), None)
  if problem is not None:
    raise InputError(f"attack {name}: {problem}")
  return contract


_HINTS = {
  "threat": "write `threat = by_norm` beside a field `norm`, or `threat = Norm('linf')`",
  "minimal": "False to stop at the first success, True to keep the closest",
  "access": "'gradient', 'score' or 'decision'",
  "cost": "Cost(forward, backward), the model evaluations of a step",
  "num_steps": "the steps it takes at the most",
  "init": "init(problem) -> state",
  "step": "step(model, problem, state) -> (state, Probe)",
}


def _check_spelling(value: Any, title: str, known: list[str]) -> None:
  """Raises InputError for public names that are nearly, but not quite, part of what the engine asks for."""
  for _, own, near in near_misses(type(value).__mro__[:-1], known):
    raise InputError(f"{title} has {own!r}, which means nothing to the engine; did you mean {near!r}?")


def _threat_rules(threat: Threat) -> Iterator[tuple[bool, str]]:
  """Yields what must hold of a threat, as `_rules` does."""
  kind = type(threat)
  _check_spelling(threat, f"threat {kind.__name__}", [part for part in (*vars(Threat), "name") if part[0] != "_"])
  named = inspect.getattr_static(threat, "name", None) is not None and isinstance(threat.name, str) and threat.name
  yield not named, f"threat {kind.__name__} has no name, which ids and cells begin with"
  yield kind.distance is Threat.distance, f"threat {kind.__name__} does not define distance(original, image, witness)"
  draws = kind.render is not Threat.render
  yield threat.witnessed and not draws, f"threat {kind.__name__} is witnessed, but does not define render"
  yield draws and not threat.witnessed, f"threat {kind.__name__} defines render, but is not declared witnessed"


def _rules(attack: Any, contract: Contract) -> Iterator[tuple[bool, str]]:
  """Yields what must hold, as (whether it is broken, text); what comes later relies on what came before."""
  threat, cost, access, norm = contract.threat, contract.cost, contract.access, getattr(attack, "norm", None)
  yield not isinstance(threat, Threat), f"threat must be a Threat such as Norm('l2'), got {threat!r}"
  flags = (contract.minimal, contract.may_leave_ball, contract.needs_start)
  yield not all(isinstance(flag, bool) for flag in flags), "minimal, may_leave_ball and needs_start are True or False"
  yield access not in get_args(Access), f"access {access!r} is none of {', '.join(get_args(Access))}"
  counts = isinstance(cost, Cost) and all(is_number(part, int) for part in cost)
  yield not counts, f"cost must be Cost(forward, backward), got {cost!r}"
  least = Cost(forward=1, backward=0)
  yield any(part < low for part, low in zip(cost, least, strict=True)), f"no step costs {cost}"
  yield access != "gradient" and cost.backward > 0, f"access is {access!r}, but its cost counts gradients"
  steps, most = contract.num_steps, contract.max_queries
  yield not is_number(steps, int) or not 1 <= steps <= MOST_STEPS, f"num_steps is {steps!r}, not 1 to {MOST_STEPS}"
  yield not callable(attack.init) or not callable(attack.step), "init and step are methods"
  yield isinstance(norm, str) and isinstance(threat, Norm) and norm != threat.name, f"norm {norm!r} is not its {threat}"
  others = contract.needs_others
  yield not is_number(others, int) or others < 0, f"needs_others is a number of images, got {others!r}"
  yield contract.needs_start and others > 0, "it wants either a start or other images, not both"
  yield contract.minimal and contract.may_leave_ball, "a minimal attack has no ball to leave"
  yield most is not None and (not is_number(most, int) or most < 1), f"max_queries is {most!r}"
  need = contract.largest_need
  makes = "a step makes" if need == cost.forward else "a step and its candidate make"
  yield most is not None and most < need, f"max_queries is {most}, but {makes} {need}"
  yield _hides_arrays(threat), _UNREGISTERED.format(type(threat).__name__)
  yield not _is_value(threat), f"threat {type(threat).__name__} cannot be hashed: make it a frozen dataclass"
  yield not _is_value(attack), "it cannot be hashed: make it a frozen dataclass"
  yield from _threat_rules(threat)


_UNREGISTERED = "threat {} holds arrays: register it as a pytree (jax.tree_util.register_dataclass)"


def _hides_arrays(threat: Any) -> bool:
  """Returns whether arrays sit in a threat that JAX cannot see into."""
  leaves = jax.tree.leaves(threat)
  hidden = len(leaves) == 1 and leaves[0] is threat and isinstance(threat, Threat)
  return hidden and _reaches_array(threat, set())


def _reaches_array(value: Any, seen: set[int]) -> bool:
  """Tells whether a value is an array, or brings one along: in a field of it or around it, however deep."""
  if _is_array(value):
    return True
  if id(value) in seen:
    return False
  seen.add(id(value))
  return any(_reaches_array(leaf, seen) for leaf in jax.tree.leaves(_brought_along(value)))


def _brought_along(value: Any) -> Any:
  """Returns what a value holds where JAX does not look: fields, the object of a method, what a function closes over."""
  if isinstance(value, functools.partial):
    return value.func, value.args, value.keywords
  if inspect.ismethod(value):
    return value.__self__
  if inspect.isfunction(value):
    around = [cell.cell_contents for cell in value.__closure__ or () if _filled(cell)]
    return value.__defaults__, value.__kwdefaults__, around
  if inspect.ismodule(value) or isinstance(value, type):
    return ()
  # A compiled function holds the one it is made of under a name of its own.
  return getattr(value, "__wrapped__", None), getattr(value, "__dict__", None)


def _filled(cell: Any) -> bool:
  try:
    cell.cell_contents  # noqa: B018 - an empty cell raises
  except ValueError:
    return False
  return True


def _is_value(part: Any) -> bool:
  """Tells whether programs can be kept by it: an attack or a threat that can be hashed, its arrays left out."""
  try:
    hash(split_threat(part)[0] if isinstance(part, Threat) else split_arrays(part)[0])
  except TypeError:
    return False
  return True


def _is_array(leaf: Any) -> bool:
  return isinstance(leaf, jax.Array | np.ndarray)


class _Holes(NamedTuple):
  """A threat without its arrays: only its structure, which can be hashed."""

  tree: Any


def split_threat(threat: Any) -> tuple[Any, tuple[Any, ...]]:
  """Returns what of a threat can be hashed, and its arrays, for programs that take them as arguments."""
  leaves, tree = jax.tree.flatten(threat)
  return (_Holes(tree), tuple(leaves)) if any(map(_is_array, leaves)) else (threat, ())


def join_threat(static: Any, arrays: tuple[Any, ...]) -> Threat:
  """Undoes `split_threat`, inside a program."""
  return jax.tree.unflatten(static.tree, arrays) if isinstance(static, _Holes) else static


def same_threat(one: Threat, other: Threat) -> bool:
  """Tells whether two threats measure the same."""
  (first, arrays), (second, more) = split_threat(one), split_threat(other)
  return first == second and all(a is b or np.array_equal(a, b) for a, b in zip(arrays, more, strict=True))


def split_arrays(attack: Attack) -> tuple[Attack, tuple[Any, ...]]:
  """Returns an attack that can be hashed, and the arrays of its threat."""
  static, arrays = split_threat(attack.threat)
  return (_with_threat(attack, static), arrays) if arrays else (attack, ())


def join_arrays(attack: Attack, arrays: tuple[Any, ...]) -> Attack:
  """Puts the arrays back, inside a program."""
  return _with_threat(attack, join_threat(attack.threat, arrays)) if arrays else attack


def bind_threat(attack: Attack, classifier: Any) -> Attack:
  """Returns the attack with its threat measured against this classifier, where that makes a difference."""
  bound = attack.threat.for_classifier(classifier)
  if _hides_arrays(bound):
    raise InputError(f"attack {type(attack).__name__}: {_UNREGISTERED.format(type(bound).__name__)}")
  return attack if bound is attack.threat or isinstance(bound, Norm) else _with_threat(attack, bound)


def _with_threat(attack: Attack, threat: Any) -> Attack:
  # No `replace`: the author's own checks need not know of holes.
  other = copy.copy(attack)
  try:
    object.__setattr__(other, "threat", threat)
  except AttributeError:
    name = type(attack).__name__
    raise InputError(f"attack {name}: a threat with arrays cannot be a property; make it a field") from None
  return other
