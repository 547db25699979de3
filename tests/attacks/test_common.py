"""One table for all attacks: whatever is registered gets every shared check in every norm it has."""

from __future__ import annotations

import dataclasses
import inspect

import pytest

from jaxrobust import testing
from jaxrobust.attacks.registry import ATTACKS, attack_config, attack_id, list_attacks, make_attack
from jaxrobust.core.errors import JaxrobustError, UnknownNameError

# Few steps, so that the table stays quick.
SMALL = {"num_steps": 8, "steps": 8, "binary_search_steps": 2}


def small(name: str, norm: str):
  """The attack in one norm with few steps, or None where it has no such norm."""
  known = inspect.signature(ATTACKS[name]).parameters
  parameters = {key: value for key, value in SMALL.items() if key in known}
  if "norm" not in known:
    attack = make_attack(name, **parameters)
    return attack if getattr(attack, "norm", "linf") == norm else None
  try:
    return make_attack(name, norm=norm, **parameters)
  except UnknownNameError:
    return None


TABLE = [
  pytest.param(attack, id=attack_id(attack))
  for name in list_attacks()
  for norm in ("linf", "l2", "l1")
  if (attack := small(name, norm)) is not None and not hasattr(attack, "stages")
]


@pytest.mark.parametrize("attack", TABLE)
def test_attack_keeps_the_contract(attack):
  testing.check_attack(attack)


@pytest.mark.parametrize("attack", TABLE)
def test_attack_is_a_plain_value(attack):
  assert dataclasses.is_dataclass(attack) and hash(attack) == hash(dataclasses.replace(attack))
  assert attack_config(attack)["attack"] == type(attack).__name__


@pytest.mark.parametrize("name", list_attacks())
def test_every_attack_says_what_it_is(name):
  assert ATTACKS[name].__doc__
  with pytest.raises(JaxrobustError, match=r"did you mean|known"):
    make_attack(name, nonsense=1)


def test_near_misses_are_named():
  with pytest.raises(UnknownNameError, match="did you mean 'pgd'"):
    make_attack("pgdd")
