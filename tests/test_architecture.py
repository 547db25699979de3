"""Who may import whom, and that the rooms stay readable."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterable
from pathlib import Path

import pytest

pytestmark = pytest.mark.smoke

PACKAGE = Path(__file__).parents[1] / "jaxrobust"
FILES = sorted(PACKAGE.rglob("*.py"))

# A room may import itself and these rooms.
BASE = {"core"}
LEAVES = {"models", "attacks", "noises", "data", "results"}
MIDDLE = {"engine", "defenses", "certify", "training", "nas"}
ALLOWED = {
  "core": set(),
  "models": BASE,
  "attacks": BASE,
  "noises": BASE,
  "data": BASE,
  "results": BASE,
  "engine": BASE | {"attacks"},
  "defenses": BASE | {"models", "noises"},
  "certify": BASE | {"models", "attacks"},  # It may wrap schedules (attacks.schedule).
  "training": BASE | LEAVES | {"engine", "certify"},  # The engine is for validation, bounds are trained on.
  "nas": BASE | LEAVES | {"engine", "training"},
  "evaluation": BASE | LEAVES | MIDDLE,
  "analysis": BASE | LEAVES | MIDDLE | {"evaluation"},
  "report": BASE | LEAVES | MIDDLE | {"evaluation", "analysis"},
  "bench": BASE | LEAVES | MIDDLE | {"evaluation", "analysis", "report"},
  "pods": BASE | LEAVES | MIDDLE | {"evaluation", "bench"},
  "cli": BASE | LEAVES | MIDDLE | {"evaluation", "analysis", "report", "bench", "pods"},
  "testing": BASE | LEAVES | MIDDLE,
}
# Inside a room, what one sees first is its main path. Its inner rooms hold the many small parts: of their own room they
# may import, besides themselves, these files and rooms. None of it is the main path.
INNER = {
  "attacks/unforeseen": {"registry", "sampling", "witness_descent"},
  "evaluation/metrics": set(),
  "evaluation/nas": {"context", "job", "suite_jobs", "suites", "transfer"},
  "evaluation/studies": {"conditions", "context", "evaluate", "job", "suites"},
  "evaluation/suites": {"measures", "metrics", "verdicts"},
  "models/families": {"layers", "registry"},
  "models/layers": set(),
  "models/weights": {"registry", "zoo"},
  "nas/supernets": set(),
  "report/nas": {"plots", "trend_tables"},
  "results/exchange": {"cell", "ids", "plain", "reader", "rows", "store", "tables"},
  "training/augmentations": {"technique", "techniques"},
  "training/pretraining": {"augmentations", "config", "technique", "techniques"},
  "training/techniques": {"coupled", "technique"},
}
CROWDED = {"training": 20, "models": 20}


def imported(nodes: Iterable[ast.AST], path: Path) -> set[str]:
  """Full names of what these statements import: modules and, of `from module import name`, the name as well."""
  names: set[str] = set()
  for node in nodes:
    if isinstance(node, ast.Import):
      names |= {alias.name for alias in node.names}
    elif isinstance(node, ast.ImportFrom):
      assert node.level == 0 and node.module, f"{path}: relative imports hide the direction"
      names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
  return names


@functools.cache
def tree(path: Path) -> ast.Module:
  return ast.parse(path.read_text())


@functools.cache
def nodes(path: Path) -> list[ast.AST]:
  return list(ast.walk(tree(path)))


@functools.cache
def imports(path: Path) -> set[str]:
  """All that a file imports, inside functions too."""
  return imported(nodes(path), path)


def imports_on_import(path: Path) -> set[str]:
  """What a file imports at once, with the packages that this runs."""
  return imported(tree(path).body, path)


def room(path: Path) -> str:
  parts = path.relative_to(PACKAGE).parts
  return parts[0].removesuffix(".py")


def test_import_direction() -> None:
  for path in set(FILES) - {PACKAGE / "__init__.py"}:  # The package itself hands on names of all rooms.
    here = room(path)
    assert here in ALLOWED, f"{here} is a new room: say in ALLOWED what it may import"
    for name in imports(path) - {"jaxrobust"}:
      parts = name.split(".")
      if parts[0] == "jaxrobust":
        assert parts[1] == here or parts[1] in ALLOWED[here], f"{path} imports {name}: {here} may not"
    plain = {alias.name for node in nodes(path) if isinstance(node, ast.Import) for alias in node.names}
    assert "jaxrobust" not in plain, f"{path} imports all of jaxrobust: name the room"


def test_rooms_are_loaded_by_name_only_from_within() -> None:
  """What is imported by its name, as registries do, is the room's own; the command line starts what is below it."""
  for path in set(FILES) - {PACKAGE / "__init__.py"}:
    there = set(re.findall(r'import_module\(f?"jaxrobust\.(\w+)', path.read_text()))
    assert there <= {room(path)} | (ALLOWED["cli"] if room(path) == "cli" else set()), path


def test_the_shell_of_a_room_is_small() -> None:
  for name, most in CROWDED.items():
    assert len(list((PACKAGE / name).glob("*.py"))) <= most, f"{name} is crowded: which of its inner rooms is it?"


def test_inner_rooms_know_little_of_the_room_around_them() -> None:
  assert {str(path.parent.relative_to(PACKAGE)) for path in PACKAGE.glob("*/*/__init__.py")} == set(INNER)
  for inner, allowed in INNER.items():
    outer, here = inner.split("/")
    for path in (PACKAGE / inner).rglob("*.py"):
      ours = {name.split(".")[2] for name in imports(path) if name.startswith(f"jaxrobust.{outer}.")}
      assert ours <= allowed | {here}, f"{path} imports {ours - allowed - {here}}: {inner} may not"


def test_public_classes_have_names_of_their_own() -> None:
  homes: dict[str, list[str]] = {}
  for path in FILES:
    for node in nodes(path):
      if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
        homes.setdefault(node.name, []).append(str(path.relative_to(PACKAGE)))
  assert not {name: files for name, files in homes.items() if len(files) > 1}


def test_results_know_no_jax() -> None:
  """Neither a file of the room nor anything that importing it imports."""
  waiting, seen = set((PACKAGE / "results").rglob("*.py")), set[Path]()
  while waiting - seen:
    path = (waiting - seen).pop()
    seen.add(path)
    names = imports(path) if room(path) == "results" else imports_on_import(path)
    assert not any(name.split(".")[0] in ("jax", "flax", "jaxlib") for name in names), path
    ours = {name.replace(".", "/") for name in names if name.startswith("jaxrobust.")}
    waiting |= {
      file
      for name in ours
      for file in map(PACKAGE.parent.joinpath, (f"{name}.py", f"{name}/__init__.py"))
      if file.exists()
    }
  assert PACKAGE / "core" / "files.py" in seen


def test_configs_import_only_ml_collections() -> None:
  for path in (PACKAGE.parent / "configs").rglob("*.py"):
    assert {name.split(".")[0] for name in imports(path)} <= {"ml_collections", "__future__"}, path


def test_the_map_names_files_that_are_there() -> None:
  text = (PACKAGE.parent / "ARCHITECTURE.md").read_text()
  named = set(re.findall(r"`([a-z_0-9]+(?:/[a-z_0-9]+)+/?(?:\.py)?)`", text))
  assert len(named) > 60
  roots = (PACKAGE, PACKAGE.parent)
  assert not {name for name in named if not any((root / name).exists() for root in roots)}
  rooms = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
  assert not {name for name in rooms if f"\n  {name}/" not in text}, "rooms that the map does not have"


# File -> the one import for what JAX has no other way: slices of chips that are not there, and leaving a cache again.
EXPERIMENTAL = {
  "pods/topology.py": "jax.experimental",
  "core/compilation.py": "jax.experimental.compilation_cache.compilation_cache",
}


def test_no_private_or_experimental_jax() -> None:
  for path in FILES:
    known = EXPERIMENTAL.get(str(path.relative_to(PACKAGE)), "")
    names = {name for name in imports(path) if not (known and f"{name}.".startswith(f"{known}."))}
    assert not any(name.startswith(("jax._src", "jax.experimental")) for name in names), path


def test_files_and_functions_fit() -> None:
  for path in FILES:
    assert path.read_text().count("\n") <= 300, f"{path}: one idea per file"
    for node in nodes(path):
      if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        docstring = ast.get_docstring(node) or ""
        length = (node.end_lineno or 0) - node.lineno - docstring.count("\n")
        assert length <= 60, f"{path}: {node.name} has {length} lines"


def test_docstrings_of_functions_begin_with_a_verb() -> None:
  """What it does, in the third person; a property, and what a registry shows in a list, may be named instead."""
  for path in FILES:
    for node in nodes(path):
      if isinstance(node, ast.FunctionDef):
        made = " ".join(map(ast.unparse, node.decorator_list))
        first = (ast.get_docstring(node) or "Does").split()[0]
        verb = re.fullmatch(r"[A-Z][a-z]+s,?", first)
        assert verb or re.search("property|register", made), f"{path}: {node.name}: {first} …"


def test_contracts_are_read_not_guessed() -> None:
  """What an attack or a technique has is declared; asking for it by name, with a default, is for what is not."""
  rooms = [
    *(PACKAGE / "attacks").rglob("*.py"),
    *(PACKAGE / "engine").rglob("*.py"),
    PACKAGE / "training" / "technique.py",
  ]
  asked = [name for path in rooms for name in re.findall(r"\b(?:getattr|hasattr)\(", path.read_text())]
  assert len(asked) <= 10, len(asked)
