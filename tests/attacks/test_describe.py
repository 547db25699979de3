"""Every attack can be read about before it is run; editors know its parameters."""

from __future__ import annotations

import inspect

import pytest

from jaxrobust.attacks.describe import describe_attack, meaning_of
from jaxrobust.attacks.overloads import STUB, stub_text
from jaxrobust.attacks.registry import ATTACKS, make_attack
from jaxrobust.cli.main import main


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
