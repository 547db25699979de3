"""Registries suggest the nearest names, refuse doubles and load on first use."""

import math
from importlib.metadata import EntryPoint

import pytest

from jaxrobust.core import registry as registry_module
from jaxrobust.core.errors import InputError, JaxrobustError, UnknownNameError
from jaxrobust.core.registry import Registry

pytestmark = pytest.mark.smoke


def colors():
  registry: Registry[int] = Registry("color")
  for number, name in enumerate(["violet", "crimson", "azure"]):
    registry.register(name)(number)
  return registry


@pytest.mark.parametrize(
  ("name", "text"),
  [
    ("crimsn", "unknown color 'crimsn'; did you mean 'crimson'?"),
    ("AZURE", "unknown color 'AZURE'; did you mean 'azure'?"),
    ("Azure", "unknown color 'Azure'; did you mean 'azure'?"),
    ("xyz", "unknown color 'xyz'; known: azure, crimson, violet"),
    ("", "unknown color ''; known: azure, crimson, violet"),
  ],
)
def test_unknown_names_get_the_nearest_known_ones_in_one_line(name, text):
  with pytest.raises(UnknownNameError) as error:
    colors()[name]
  assert str(error.value) == text


def test_an_unknown_name_is_a_key_error_and_bad_input():
  with pytest.raises(KeyError) as error:
    colors()["crimsn"]
  assert isinstance(error.value, JaxrobustError) and error.value.exit_code == 2
  assert colors().get("crimsn") is None and "crimsn" not in colors()


def test_an_empty_registry_says_so():
  with pytest.raises(UnknownNameError, match="unknown thing 'a'; known: none"):
    Registry("thing")["a"]


def test_names_are_sorted_and_matched_by_case_sensitive_patterns():
  registry = colors()
  assert list(registry) == ["azure", "crimson", "violet"] and len(registry) == 3
  assert registry.matching("*i*") == ["crimson", "violet"]
  assert registry.matching("[ac]*") == ["azure", "crimson"] and registry.matching("AZ*") == []


def test_a_second_registration_is_refused_and_changes_nothing():
  registry = colors()
  with pytest.raises(ValueError, match="color 'azure' is registered twice"):
    registry.register("azure")(9)
  assert registry["azure"] == 2


def test_register_returns_the_entry_so_that_it_works_as_a_decorator():
  registry: Registry = Registry("function")

  @registry.register("double")
  def double(x):
    return 2 * x

  assert double(2) == 4 and registry["double"] is double


@pytest.mark.parametrize("look", [lambda r: r["late"], list, len, lambda r: r.matching("*"), lambda r: "late" in r])
def test_modules_are_loaded_once_on_the_first_look_up(look):
  loads = []
  registry: Registry[int] = Registry("thing", lambda: (loads.append(1), registry.register("late")(5)))
  registry.register("early")(1)
  assert not loads
  look(registry)
  look(registry)
  assert loads == [1] and list(registry) == ["early", "late"]


def test_a_module_may_look_up_entries_while_it_is_loaded():
  registry: Registry[int] = Registry("thing", lambda: registry.register("second")(registry["first"] + 1))
  registry.register("first")(1)
  assert registry["second"] == 2


def test_a_family_makes_its_entries_on_demand_and_does_not_list_them():
  registry = colors()

  def make(rest):
    if not rest.isdigit():
      raise UnknownNameError(f"unknown color 'gray-{rest}'")
    return int(rest)

  registry.register_family("gray-", make)
  assert registry["gray-40"] == 40 and "gray-7" in registry and registry.get("gray-dark") is None
  assert len(registry) == 3 and registry.matching("gray*") == []
  registry.register("gray-1")(100)  # An entry of its own goes before the family.
  assert registry["gray-1"] == 100 and registry["violet"] == 0


def _points(monkeypatch, **values):
  points = [EntryPoint(name, value, "jaxrobust.things") for name, value in values.items()]
  monkeypatch.setattr(registry_module, "entry_points", lambda group: points if group == "jaxrobust.things" else [])


def test_installed_packages_add_entries_which_are_imported_when_they_are_asked_for(monkeypatch):
  _points(monkeypatch, other="math:tau", broken="no_such_package:thing")
  registry: Registry = Registry("thing")
  registry.register("ours")(1)
  assert list(registry) == ["broken", "other", "ours"] and len(registry) == 3
  assert registry["other"] == math.tau and registry["other"] == math.tau and len(registry) == 3
  with pytest.raises(InputError, match="thing 'broken' of no_such_package:thing cannot be imported: No module"):
    registry["broken"]
  with pytest.raises(UnknownNameError, match="did you mean 'other'"):
    registry["othre"]


def test_names_of_the_package_stay_its_own(monkeypatch):
  _points(monkeypatch, ours="math:tau")
  registry: Registry = Registry("thing")
  registry.register("ours")(1)
  with pytest.warns(UserWarning, match="thing 'ours' of math:tau is left out: the name is taken"):
    assert list(registry) == ["ours"]
  assert registry["ours"] == 1
