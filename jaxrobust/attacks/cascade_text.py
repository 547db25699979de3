"""Cascades as text: `apgd-ce,num_steps=50:apgd-t,targets=9:square`.

Stages are joined by colons, in their order. A stage is a registered name and parameters that are not its defaults;
`targets=K` stands for the K most likely wrong classes, one after the other, `rank=K` for the K-th alone; `restarts=K`
for K random starts, `restart=K` for one of them, from 0. A name of a cascade stands for its stages.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from jaxrobust.attacks.registry import ATTACKS, attack_config, attack_name, make_attack, parameters_of
from jaxrobust.attacks.schedule import MOST_RESTARTS, Cascade, Stage, is_schedule
from jaxrobust.core.errors import InputError, JaxrobustError
from jaxrobust.core.validation import check_count

_JOINT, _COMMA = ":", ","
MOST_TARGETS = 1000


def parse_cascade(text: str, norm: str = "linf") -> Cascade:
  """Returns the cascade that a text names; that of one name alone is the registered one, one stage is just its attack.

  >>> [(stage.attack.name, stage.rank) for stage in parse_cascade("fgsm:apgd-t,num_steps=5,targets=2").stages]
  [('fgsm', None), ('apgd-t', 1), ('apgd-t', 2)]
  >>> parse_cascade("autoattack") == make_attack("autoattack")
  True
  """
  if not text:
    raise InputError("a cascade needs stages, such as apgd-ce:apgd-t,targets=9:square")
  if text in ATTACKS and is_schedule(made := _made(text, {}, norm)):
    if not isinstance(made, Cascade):
      raise InputError(f"{text!r} is no cascade of stages that run on every example")
    return made
  stages = tuple(stage for part in text.split(_JOINT) for stage in _parse_stages(part, norm))
  return Cascade(stages, "cascade" if len(stages) > 1 else None, adaptive=True)


def _parse_stages(text: str, norm: str) -> Iterator[Stage]:
  name, *texts = text.split(_COMMA)
  given = dict(_parameter(name, one) for one in texts)
  targets, rank, restarts, restart = (given.pop(key, None) for key in ("targets", "rank", "restarts", "restart"))
  attack = _made(name, given, norm)
  if is_schedule(attack):
    if not isinstance(attack, Cascade) or (targets, rank, restarts, restart) != (None,) * 4:
      raise InputError(f"{name!r} chooses its own stages; it takes no targets or restarts and must be a plain cascade")
    yield from attack.stages
    return
  ranks: Sequence[int | None] = _several("targets", targets, "rank", rank, 1, MOST_TARGETS) or [None]
  for start in _several("restarts", restarts, "restart", restart, 0, MOST_RESTARTS) or [0]:
    for target in ranks:
      yield Stage(attack, rank=target, restart=start)


def _made(name: str, given: dict[str, Any], norm: str) -> Any:
  """Returns an attack with some parameters, in a norm if it has one and none was given."""
  normed = name in ATTACKS and "norm" in parameters_of(name)
  return make_attack(name, **({"norm": norm, **given} if normed else given))


def _several(many: str, count: Any, single: str, one: Any, first: int, most: int) -> list[int]:
  """Returns the numbers from `first` that a count asks for, or the single one; none where neither is given."""
  if count is not None and one is not None:
    raise InputError(f"a stage takes {many} or {single}, not both")
  if count is not None:
    check_count(count, many, most)
    return list(range(first, first + count))
  if one is None:
    return []
  check_count(one, single, most, first)
  return [one]


def _parameter(name: str, text: str) -> tuple[str, Any]:
  key, separator, value = text.partition("=")
  if not separator or not key:
    raise InputError(f"parameters of a stage are written {name},key=value, got {text!r}")
  try:
    return key, ast.literal_eval(value)
  except (ValueError, SyntaxError):
    return key, value


def cascade_text(stages: Sequence[Stage]) -> str:
  """Returns the text of stages; raises InputError where an attack is not a registered one with plain parameters.

  >>> cascade_text(make_attack("autoattack").stages)
  'apgd-ce:apgd-t,targets=9:fab-t,steer=True,targets=9:square'
  """
  parts, index = [], 0
  while index < len(stages):
    count = _run_length(stages, index)
    first = stages[index]
    text = attack_text(first.attack)
    if count > 1:
      text += f",targets={count}"
    elif first.rank is not None:
      text += f",rank={first.rank}"
    parts.append(text + (f",restart={first.restart}" if first.restart else ""))
    index += count
  return _JOINT.join(parts)


def _run_length(stages: Sequence[Stage], index: int) -> int:
  """Returns how many stages from this one on are the same attack toward classes of rank 1, 2, …"""
  first, count = stages[index], 0
  while index + count < len(stages) and stages[index + count] == Stage(first.attack, count + 1, first.restart):
    count += 1
  return max(count, 1)


def attack_text(attack: Any) -> str:
  """Returns the registered name of an attack and the parameters that are not its defaults, its norm aside.

  >>> attack_text(make_attack("pgd", norm="l2", num_steps=20))
  'pgd,num_steps=20'
  """
  name, values = attack_name(attack), attack_config(attack)
  given = _given(name, values)
  norm = {key: given.pop(key) for key in ("norm",) if key in given}
  # Defaults may depend on the number of steps.
  steps = {key: given.pop(key) for key in ("num_steps",) if key in given}
  usual, same = (attack_config(make_attack(name, **norm, **more)) for more in ({}, steps))
  special = {key: value for key, value in steps.items() if value != usual.get(key)}
  special |= {key: value for key, value in given.items() if value != same.get(key)}
  text = _COMMA.join([name, *(f"{key}={value}" for key, value in special.items())])
  again = [stage.attack for stage in _parse_stages(text, values.get("norm", "linf"))]
  if again != [attack]:
    raise InputError(f"attack {name!r} cannot be written as a text of plain parameters")
  return text


def _given(name: str, values: Mapping[str, Any]) -> dict[str, Any]:
  """Returns those values that the registered attack takes as parameters."""
  if name not in ATTACKS:
    raise InputError(f"attack {name!r} is not registered")
  known = inspect.signature(ATTACKS[name]).parameters
  return {key: values[key] for key in known if key in values and key != "name"}


def stage_of(config: Mapping[str, Any]) -> Stage:
  """Returns the stage that a cell's configuration describes; raises InputError where it cannot be made again.

  >>> stage = Stage(make_attack("apgd-t", num_steps=20), rank=3)
  >>> stage_of({"rank": 3, "restart": 0, **attack_config(stage.attack)}) == stage
  True
  """
  values = {key: value for key, value in config.items() if key not in ("rank", "restart")}
  name = values.get("name", str(values.get("attack", "")).lower())
  try:
    attack = make_attack(name, **_given(name, values))
    same = attack_config(attack) == values
  except JaxrobustError:
    same = False
  if not same:
    raise InputError(f"attack {name!r} of a stored cell is not a registered one with plain parameters")
  return Stage(attack, config.get("rank"), config.get("restart", 0))
