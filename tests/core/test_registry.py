"""Registries suggest the nearest names, refuse doubles and load on first use."""

import pytest

from jaxrobust.core.errors import JaxrobustError, UnknownNameError
from jaxrobust.core.registry import Registry


def colours():
  registry: Registry[int] = Registry("colour")
  for number, name in enumerate(["violet", "crimson", "azure"]):
    registry.register(name)(number)
  return registry


@pytest.mark.parametrize(
  ("name", "text"),
  [
    ("crimsn", "unknown colour 'crimsn'; did you mean 'crimson'?"),
    ("Azure", "unknown colour 'Azure'; did you mean 'azure'?"),
    ("xyz", "unknown colour 'xyz'; known: azure, crimson, violet"),
    ("", "unknown colour ''; known: azure, crimson, violet"),
  ],
)
def test_unknown_names_get_the_nearest_known_ones_in_one_line(name, text):
  with pytest.raises(UnknownNameError) as error:
    colours()[name]
  assert str(error.value) == text


def test_an_unknown_name_is_a_key_error_and_bad_input():
  with pytest.raises(KeyError) as error:
    colours()["crimsn"]
  assert isinstance(error.value, JaxrobustError) and error.value.exit_code == 2
  assert colours().get("crimsn") is None and "crimsn" not in colours()


def test_an_empty_registry_says_so():
  with pytest.raises(UnknownNameError, match="unknown thing 'a'; known: none"):
    Registry("thing")["a"]


def test_names_are_sorted_and_matched_by_case_sensitive_patterns():
  registry = colours()
  assert list(registry) == ["azure", "crimson", "violet"] and len(registry) == 3
  assert registry.matching("*i*") == ["crimson", "violet"]
  assert registry.matching("[ac]*") == ["azure", "crimson"] and registry.matching("AZ*") == []


def test_a_second_registration_is_refused_and_changes_nothing():
  registry = colours()
  with pytest.raises(ValueError, match="colour 'azure' is registered twice"):
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
