"""Every attack can be read about before it is run; editors know its parameters."""

from __future__ import annotations

import inspect

import pytest

from jaxrobust.attacks.cascade_text import parse_cascade
from jaxrobust.attacks.describe import describe_attack, meaning_of
from jaxrobust.attacks.overloads import STUB, stub_text
from jaxrobust.attacks.registry import ATTACKS, attack_id, attack_name, make_attack
from jaxrobust.cli.main import main
from jaxrobust.core.contract import contract_of
from jaxrobust.core.errors import InputError, UnknownNameError


@pytest.mark.parametrize("name", ATTACKS)
def test_every_parameter_has_a_meaning_and_every_attack_a_card(name):
  card = describe_attack(name)
  assert card.norms and card.summary and card.access and card.cost
  assert not [p.name for p in card.parameters if not p.meaning]


@pytest.mark.parametrize("name", ATTACKS)
def test_steps_are_called_num_steps(name):
  known = inspect.signature(ATTACKS[name]).parameters
  assert not {"steps", "iterations", "num_iterations", "nb_iter"} & set(known)


def test_steps_by_their_old_name():
  assert make_attack("cw", steps=20) == make_attack("cw", num_steps=20)
  assert make_attack("ead", steps=20) == make_attack("ead", num_steps=20)


def by_queries() -> list[str]:
  """The attacks whose strength is a number of queries: no gradients, and steps that can be more or fewer."""
  found = []
  for name in ATTACKS:
    attack = make_attack(name)
    if not hasattr(attack, "stages") and contract_of(attack).cost.backward == 0 and name not in ("rigid-grid", "uap"):
      found.append(name)
  return found


@pytest.mark.parametrize("name", by_queries())
def test_the_budget_of_every_attack_by_queries_is_called_queries(name):
  for queries in (700, 701):
    attack = make_attack(name, queries=queries)
    at_the_end = 0 if attack.cost.forward == 1 else 1
    assert queries - attack.cost.forward - at_the_end < attack.num_steps * attack.cost.forward <= queries
    assert f"-{attack_name(attack)}-{queries}" in attack_id(attack)
  assert "queries" in [p.name for p in describe_attack(name).parameters]
  with pytest.raises(InputError, match="queries must be an integer of at least 1, got 0"):
    make_attack(name, queries=0)


def test_queries_and_the_old_name_for_them():
  for name in ("square", "rigid-random"):
    assert make_attack(name, queries=20) == make_attack(name, num_steps=20) == make_attack(name, steps=20)
    with pytest.raises(InputError, match="one query a step: give queries or num_steps, not both"):
      make_attack(name, queries=20, num_steps=20)
  with pytest.raises(UnknownNameError, match="parameter of attack 'pgd'"):
    make_attack("pgd", queries=20)
  assert parse_cascade("square,queries=7").stages[0].attack.num_steps == 7


def test_relative_steps_say_so(capsys):
  assert "relative to eps" in meaning_of("pgd", "step_size") and "relative to eps" in meaning_of("mim", "step_size")
  assert main(["list", "attacks", "pgd"]) == 0
  shown = capsys.readouterr().out
  assert (
    "step_size: float | None = 0.0625 by default" in shown and "linf l2 l1" in shown and "arXiv:1706.06083" in shown
  )
  assert main(["list", "attacks", "pgdd"]) == 2


def test_the_stub_of_make_attack_is_up_to_date():
  assert STUB.read_text() == stub_text(), "run python -m jaxrobust.attacks.overloads"
