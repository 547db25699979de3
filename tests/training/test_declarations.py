"""A technique is what it inherits: hooks that nothing would call and parts that contradict each other are refused."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import pytest

from jaxrobust.core.errors import InputError
from jaxrobust.core.registry import Registry
from jaxrobust.training import composition
from jaxrobust.training.augmentations.augment import Flip
from jaxrobust.training.augmentations.targets import Mixup
from jaxrobust.training.composition import TrainPlan, make_plan, make_technique
from jaxrobust.training.declarations import check_technique
from jaxrobust.training.technique import (
  HOOKS,
  TECHNIQUES,
  Augmentation,
  Export,
  LogitMargin,
  Mixing,
  Objective,
  Technique,
)
from jaxrobust.training.techniques.adversarial import AdversarialTraining
from jaxrobust.training.techniques.objectives import Standard

pytestmark = pytest.mark.smoke


def method(self, *arguments):
  return arguments[0] if arguments else None


def technique(*kinds: type, **parts: Any) -> Any:
  """A value of a new class `Mine` of these kinds."""
  return dataclass(frozen=True)(type("Mine", kinds, {"__module__": __name__, **parts}))()


@pytest.fixture
def made(monkeypatch):
  """Makes a value as the technique 'mine' of a registry."""

  def make(value: Any) -> Any:
    registry: Registry = Registry("technique")
    registry.register("mine")(lambda: value)
    registry.register("standard")(Standard)
    monkeypatch.setattr(composition, "TECHNIQUES", registry)
    return make_technique("mine")

  return make


MISSPELLED = [
  ((Augmentation,), "augmnt", "augment"),
  ((), "augmnt", "augment"),
  ((Mixing,), "mixes", "mix"),
  ((Objective,), "los", "loss"),
  ((LogitMargin,), "margins", "margin"),
  ((Standard,), "update_stat", "update_state"),
  ((Standard,), "craf", "craft"),
  ((Standard,), "init_states", "init_state"),
  ((Standard,), "wrapp", "wrap"),
  ((Flip,), "averaging", "average"),
  ((AdversarialTraining,), "crafts", "craft"),  # It would inherit the right one, and have it called.
]


@pytest.mark.parametrize("kinds, wrong, right", MISSPELLED)
def test_a_misspelled_hook_or_part_is_refused_with_the_nearest_name(made, kinds, wrong, right):
  with pytest.raises(InputError, match=rf"^technique 'mine': nothing calls Mine\.{wrong}; did you mean '{right}'\?$"):
    made(technique(*kinds, **{wrong: method}))


@pytest.mark.parametrize(
  "wrong, right", [("need_state_grad", "needs_state_grad"), ("replay", "replays"), ("classifier", "classifiers")]
)
def test_a_misspelled_value_is_refused_as_an_attribute_and_as_an_option(made, wrong, right):
  with pytest.raises(InputError, match=rf"Mine\.{wrong}; did you mean '{right}'"):
    made(technique(Standard, **{wrong: 3}))
  with pytest.raises(InputError, match=f"nothing reads its option '{wrong}' as '{right}'"):
    made(technique(Standard, __annotations__={wrong: int}, **{wrong: 3}))


@pytest.mark.parametrize("kinds", [(), (Technique,)])
def test_a_technique_without_a_hook_is_refused(made, kinds):
  hooks = "augment, mix, loss, margin, perturb, average, export"
  with pytest.raises(InputError, match=f"^technique 'mine': Mine has none of the hooks {hooks}$"):
    made(technique(*kinds, shade=method))


def test_a_hook_must_be_declared(made):
  where = "jaxrobust.training.technique"
  for kinds, part, kind in [
    ((), "augment", "Augmentation"),
    ((Flip,), "loss", "Objective"),
    ((Mixup,), "craft", "Objective"),
    ((Mixup,), "replays", "Objective"),
  ]:
    with pytest.raises(InputError, match=f"Mine has '{part}' but is no {kind}: inherit it from {where}"):
      made(technique(*kinds, **{part: 2 if part == "replays" else method}))


def test_a_declared_hook_must_be_there_and_be_a_method(made):
  with pytest.raises(InputError, match=r"Mine is of the kind Augmentation, without augment\(\)"):
    made(technique(Augmentation))
  with pytest.raises(InputError, match=r"Mine is of the kind Export, without exported\(\)"):
    made(technique(Export, export=method))
  with pytest.raises(InputError, match=r"Mine\.margin must be a method, and not a value"):
    made(technique(LogitMargin, __annotations__={"margin": float}, margin=0.2))
  with pytest.raises(InputError, match=r"Mine\.classifiers must be a value or a property, and not a method"):
    made(technique(Flip, classifiers=method))


@pytest.mark.parametrize(
  "parts, says",
  [
    ({"begin": method}, "Mine.begin is called 'init_state' now"),
    ({"update_state": method}, "has 'update_state' without 'init_state'"),
    ({"needs_state_grad": True}, "has 'needs_state_grad' without 'update_state'"),
    ({"needs_state_grad": True, "init_state": method}, "has 'needs_state_grad' without 'update_state'"),
    ({"replays": 0}, "'replays' of Mine must be an integer of at least 1, got 0"),
    ({"budget": 0.1}, "has 'budget' without 'norm'"),
  ],
)
def test_parts_that_contradict_each_other_are_refused(made, parts, says):
  with pytest.raises(InputError, match=says) as error:
    made(technique(Standard, **parts))
  assert "\n" not in str(error.value) and "mine" in str(error.value)


def test_what_is_right_is_accepted(made):
  several = technique(Augmentation, Mixing, augment=method, mix=method, _augmnt=method, shade=0.5)
  assert made(several) is several
  plan = make_plan(["mine"], {})
  assert plan.augments == (several,) and plan.mixes == (several,) and plan.objective == Standard()
  whole = {
    "init_state": method,
    "update_state": method,
    "needs_state_grad": True,
    "replays": 2,
    "budget": 0.1,
    "norm": "l2",
  }
  made(technique(Standard, **whole))
  # An option may be called as a hook of another kind, or resemble a method.
  made(technique(Flip, __annotations__={"margin": float, "crafting": str}, margin=0.2, crafting="eval"))


def test_values_that_users_put_into_a_plan_are_checked_too():
  TrainPlan((Flip(),), (Mixup(),), Standard(), None)
  with pytest.raises(InputError, match=r"'Mine': nothing calls Mine\.augmnt"):
    TrainPlan((technique(Augmentation, augmnt=method),), (), Standard(), None)
  with pytest.raises(InputError, match="a plan's augment is of the kind Augmentation, not Mixup"):
    TrainPlan((Mixup(),), (), Standard(), None)
  with pytest.raises(InputError, match=r"is a class: pass a value, Flip\(…\)"):
    TrainPlan((Flip,), (), Standard(), None)
  with pytest.raises(InputError, match="'NoneType': NoneType has none of the hooks"):
    TrainPlan((), (), None, None)


@pytest.mark.parametrize("name", TECHNIQUES)
def test_every_registered_technique_is_accepted(name):
  value = make_technique(name)
  check_technique(name, value)
  assert any(isinstance(value, kind) for kind in HOOKS.values())
  # No kind adds an option.
  assert not {item.name for item in fields(value)} & {"needs_state_grad", "classifiers", "arch_options", "budget"}


@pytest.mark.parametrize("name, weight", [("trades", "beta"), ("mart", "beta"), ("alp", "weight"), ("vr", "weight")])
def test_a_negative_weight_of_a_loss_is_refused(name, weight):
  with pytest.raises(InputError, match=f"{weight} must not be negative, got -1"):
    make_technique(name, **{weight: -1.0})
  assert make_technique(name, **{weight: 0.0})
