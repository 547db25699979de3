"""One table for all attacks: whatever is registered gets every shared check in every norm it has."""

from __future__ import annotations

import dataclasses
import inspect

import pytest

from jaxrobust import testing
from jaxrobust.attacks.registry import ATTACKS, attack_config, attack_id, list_attacks, make_attack
from jaxrobust.attacks.uap import UAP
from jaxrobust.attacks.unforeseen.ascent import SceneAscent
from jaxrobust.core.errors import InputError, JaxrobustError, UnknownNameError

# Few steps, so that the table stays quick; bisections that end well above what rounding changes.
SMALL = {
  "num_steps": 8,
  "steps": 8,
  "binary_search_steps": 2,
  "queries": 40,
  "pairs": 4,
  "samples": 8,
  "coordinates": 3,
  "probes": 6,
  "directions": 3,
  "tolerance": 0.01,
  "neighbors": 2,
  "spectra": 2,
  "scales": 2,
  "mixed": 2,
  "exact": True,  # Finite differences make rounding errors a thousand times larger,
  "cg_steps": 2,  # and the systems of so small a network are singular.
  # What fits into images of 6 × 6 pixels.
  "block": 3,
  "lines": 3,
  "resolution": 3,
  "grid": 2,
  "kernel": 5,
  "size": 2,
  "angles": 5,
  "shifts": 3,
  "locations": 2,
}


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


NORMS = ("linf", "l2", "l1")


# One of every kind is for every day: within a budget and minimal, by gradients, scores and decisions, of other threats.
DAILY = ("pgd", "apgd-ce", "ddn", "fab", "cw", "dim", "nes", "square", "boundary", "stadv")
# Attacks on scenes share their step, those of pieces their pieces: these have all of them between them.
OF_SCENES, OF_PIECES = ("jpeg", "snow"), ("dim", "vni-fgsm", "admix")


def marks(attack, name: str, norm: str) -> list:
  """Every day, for CI, or slow."""
  pieces = any(getattr(attack, piece) for piece in getattr(attack, "pieces", ()) if piece != "threat")
  shared = isinstance(attack, SceneAscent) and name not in OF_SCENES
  if shared or (pieces and (name not in OF_PIECES or norm != "linf")):
    return [pytest.mark.slow]
  first = norm == next(one for one in NORMS if small(name, one) is not None)
  return [] if first and name in DAILY else [pytest.mark.ci]


# The authors' settings of an attack are other numbers in the same programs.
TABLE = [
  pytest.param(attack, id=attack_id(attack), marks=marks(attack, name, norm))
  for name in list_attacks()
  if not name.endswith("-authors")
  for norm in NORMS
  if (attack := small(name, norm)) is not None
  and not hasattr(attack, "stages")
  and not isinstance(attack, UAP)  # Not trained yet.
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
  # A dataclass without a docstring gets its signature as one.
  first = (ATTACKS[name].__doc__ or "").strip().partition("\n")[0]
  assert len(first.split()) > 1 and not first.startswith(f"{ATTACKS[name].__name__}(")
  with pytest.raises(JaxrobustError, match=r"did you mean|known"):
    make_attack(name, nonsense=1)


def test_near_misses_are_named():
  with pytest.raises(UnknownNameError, match="did you mean 'pgd'"):
    make_attack("pgdd")


@pytest.mark.parametrize(
  ("name", "parameters", "reason"),
  [
    ("bim", {"num_steps": 0}, "num_steps must be an integer of at least 1, got 0"),
    ("autoattack", {"queries": -5}, "queries must be an integer of at least 1, got -5"),
    ("pgd", {"num_steps": True}, "num_steps must be an integer of at least 1, got True"),
    ("cw", {"steps": 2.5}, "steps must be an integer of at least 1, got 2.5"),
    ("pgd", {"step_size": "abc"}, "step_size must be a number of at least 0, got 'abc'"),
    ("pgd", {"step_size": -1}, "step_size must be a number of at least 0, got -1"),
    ("pgd", {"step_size": 0}, "step_size must be more than 0, got 0"),
    ("ddn", {"init_eps": 0.0}, "init_eps must be more than 0"),
    ("mim", {"decay": float("nan")}, "decay must be a number of at least 0, got nan"),
    ("ead", {"beta": float("inf")}, "beta must be a number of at least 0, got inf"),
    ("pgd", {"random_start": "maybe"}, "random_start must be true or false, got 'maybe'"),
    ("deepfool", {"refine": 1}, "refine must be true or false, got 1"),
    ("pgd", {"loss": 3}, "loss must be a name, got 3"),
    ("ddn", {"num_steps": None}, "num_steps must be an integer of at least 1, got None"),
    (5, {}, "an attack is made by its name, such as 'pgd', got 5"),
  ],
)
def test_parameters_of_the_wrong_kind_or_sign_are_refused_by_name(name, parameters, reason):
  with pytest.raises(InputError, match=reason):
    make_attack(name, **parameters)


def test_parameters_of_the_right_kind_are_taken():
  assert make_attack("pgd", step_size=None, num_steps=5) == make_attack("pgd", num_steps=5)
  assert make_attack("mim", decay=0, step_size=1).decay == 0
  assert make_attack("cw", norm="linf", abort_early=None).norm == "linf"


@pytest.mark.parametrize("name", list_attacks())
def test_every_parameter_is_of_a_kind_that_is_checked(name):
  for key, parameter in inspect.signature(ATTACKS[name]).parameters.items():
    if parameter.annotation.removesuffix(" | None") != "str":
      with pytest.raises(InputError, match=f"{key} must be"):
        make_attack(name, **{key: "abc"})
