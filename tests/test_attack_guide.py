"""The guide to attacks has a row for each of them, and its columns are what the attacks declare."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from jaxrobust.attacks.registry import ATTACKS, list_attacks, make_attack
from jaxrobust.core.contract import contract_of
from jaxrobust.core.errors import JaxrobustError

GUIDE = (Path(__file__).parents[1] / "jaxrobust" / "docs" / "attacks.md").read_text()
SECTIONS = {
  "gradients": "gradient",
  "transfer": "gradient",
  "scores": "score",
  "alone": "decision",
  "norms": ("gradient", "decision"),
}

pytestmark = pytest.mark.smoke


def in_every_norm(name: str) -> dict:
  """Returns the attack in each norm that it has."""
  found = {}
  chooses = "norm" in inspect.signature(ATTACKS[name]).parameters
  for norm in ("linf", "l2", "l1"):
    try:
      attack = make_attack(name, **({"norm": norm} if chooses else {}))
    except JaxrobustError:
      continue
    if chooses or attack.threat.name == norm:
      found[norm] = attack
  # Threats that are no norms have one attack each.
  return found or {attack.threat.name: attack}


def row(name: str) -> str:
  """Returns what the guide must say of an attack."""
  norms = in_every_norm(name)
  contract = contract_of(next(iter(norms.values())))
  finds = "closest" if contract.minimal else "within a budget"
  cost = f"{contract.cost.forward} + {contract.cost.backward}"
  return f"| `{name}` | {' '.join(norms)} | {finds} | {cost} | {contract.num_steps} |"


@pytest.mark.parametrize("name", list_attacks())
def test_every_attack_has_its_row_under_its_access(name):
  attack = next(iter(in_every_norm(name).values()))
  if hasattr(attack, "stages"):
    assert f"`{name}`" in GUIDE
    return
  assert row(name) in GUIDE, f"the guide to attacks lacks this row, with a few words after it: {row(name)}"
  before = GUIDE[: GUIDE.index(row(name))]
  section = before[before.rindex("\n## ") :].splitlines()[1].split()[-1]
  trained = name == "uap"  # Shown without gradients, trained with them.
  # Some threats that are no norms are small enough to be tried out.
  assert attack.access in (SECTIONS[section] if section == "norms" else (SECTIONS[section],)) or trained


def test_every_row_is_an_attack():
  rows = re.findall(r"^\| `(.+?)` \| (?:l|flow|color)", GUIDE, re.M)
  assert len(rows) == len(set(rows)) and set(rows) <= set(list_attacks())
