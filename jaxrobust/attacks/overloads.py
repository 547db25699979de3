"""`make_attack` as editors and type checkers see it: one overload for each attack, with its parameters.

`making.pyi` is written from the registry by

  python -m jaxrobust.attacks.overloads

and a test holds that it is up to date. Python has no type of all names but these, so that the overload for attacks of
other packages would take a known name with a misspelled option: the one before it takes these, and gives nothing that
could be used.
"""

from __future__ import annotations

import inspect
from pathlib import Path

from jaxrobust.attacks.registry import ATTACKS, parameters_of

STUB = Path(__file__).with_name("making.pyi")
_HEAD = '''"""Written by `python -m jaxrobust.attacks.overloads`; not to be edited."""

# mypy: disable-error-code=overload-overlap

from typing import Any, Literal, overload

from typing_extensions import deprecated

{imports}

class _NoSuchOption:
  """What a known attack with an option that it does not have is: no attack."""
'''
_LAST = """
@overload
@deprecated("this attack has no such option, or not of this type: `jaxrobust list attacks NAME` shows all of them")
def make_attack(
  name: Literal[
{names}
  ],
  **parameters: Any,
) -> _NoSuchOption: ...
@overload
def make_attack(name: str, **parameters: Any) -> Any: ...
"""


def stub_text() -> str:
  """Returns the text of the stub."""
  imports: dict[str, set[str]] = {}
  overloads: dict[str, str] = {}
  for name in ATTACKS:
    build = ATTACKS[name]
    if not build.__module__.startswith("jaxrobust."):
      continue  # Another package's, which is not always there.
    returned = build.__name__ if isinstance(build, type) else str(inspect.signature(build).return_annotation)
    module = inspect.getmodule(build)
    for part in returned.split(" | "):
      imports.setdefault(vars(module)[part].__module__, set()).add(part)
    overloads[name] = _overload(name, returned)
  last = _LAST.format(names="\n".join(f'    "{name}",' for name in overloads))
  sorted_names = {where: ", ".join(sorted(imports[where], key=_constants_first)) for where in sorted(imports)}
  lines = [f"from {where} import {names}" for where, names in sorted_names.items()]
  return _HEAD.format(imports="\n".join(lines)) + "\n" + "\n".join(overloads.values()) + last


def _constants_first(name: str) -> tuple[bool, str]:
  """Sorts names of an import as linters do: those in capitals alone first."""
  return not name.isupper(), name


def _overload(name: str, returned: str) -> str:
  given = [f"  {key}: {parameter.annotation} = ...," for key, parameter in parameters_of(name).items()]
  lines = ["@overload", "def make_attack(", f'  name: Literal["{name}"],', "  *,", *given, f") -> {returned}: ..."]
  return "\n".join(lines)


if __name__ == "__main__":
  STUB.write_text(stub_text())
