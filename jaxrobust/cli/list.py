"""`jaxrobust list ares-bench|attacks|corruptions|datasets|defenses|models|suites|techniques|zoo [PATTERN]`."""

from __future__ import annotations

import fnmatch
import importlib

from jaxrobust.core.errors import InputError
from jaxrobust.core.registry import unknown_name

KINDS = ["ares-bench", "attacks", "corruptions", "datasets", "defenses", "models", "suites", "techniques", "zoo"]
# Registries whose entries are described by the first line of their docstrings.
_DOCUMENTED = {
  "attacks": ("jaxrobust.attacks.registry", "ATTACKS"),
  "suites": ("jaxrobust.evaluation.suites", "SUITES"),
  "techniques": ("jaxrobust.training.technique", "TECHNIQUES"),
}
# Of the column of names.
NARROWEST = 22


def run(argv: list[str]) -> int:
  if not argv or argv[0] in ("-h", "--help"):
    print(f"jaxrobust list {'|'.join(KINDS)} [PATTERN]")
    print("jaxrobust list attacks NAME   parameters, norms, goals, cost and source of one attack")
    return 0
  if argv[0] not in KINDS:
    raise unknown_name("list", argv[0], KINDS)
  if len(argv) > 2:
    raise InputError(f"unexpected argument {argv[2]!r}; quote a pattern such as 'resnet*'")
  pattern = argv[1] if len(argv) > 1 else "*"
  if argv[0] == "attacks" and not any(sign in pattern for sign in "*?["):
    _print_card(pattern)
    return 0
  entries = _entries(argv[0], pattern)
  width = max([NARROWEST, *(len(name) for name, _ in entries)])
  for name, text in entries:
    print(f"{name:<{width}} {text}")
  return 0


def _print_card(name: str) -> None:
  """Prints what there is to know of one attack."""
  from jaxrobust.attacks.describe import describe_attack

  card = describe_attack(name)
  print(f"{card.name}: {card.summary}")
  facts = {"norms": " ".join(card.norms), "goals": card.goals, "access": card.access, "finds": card.finds}
  for what, text in {**facts, "cost": card.cost, "source": card.source}.items():
    print(f"  {what:<8} {text}")
  print("  parameters of make_attack, and of --options.NAME=VALUE:")
  shown = [(f"{p.name}: {p.kind} = {p.default}", p.meaning) for p in card.parameters]
  width = max(len(left) for left, _ in shown)
  for left, meaning in shown:
    print(f"    {left:<{width}}  {meaning}")


def _entries(kind: str, pattern: str) -> list[tuple[str, str]]:
  if kind == "zoo":
    from jaxrobust.models.weights.portable import shipped
    from jaxrobust.models.zoo import find_classifier, read_metadata

    notes = {name: (read_metadata(find_classifier(name)) or {}).get("notes", {}) for name in shipped()}
    return [(name, str(notes[name].get("description", ""))) for name in fnmatch.filter(notes, pattern)]
  if kind == "ares-bench":
    from jaxrobust.models.ares_bench_zoo import ARES_BENCH_NETWORKS as NETWORKS

    names = fnmatch.filter(NETWORKS, pattern)
    return [(name, f"{NETWORKS[name].where}; {NETWORKS[name].convert_command}") for name in names]
  if kind == "models":
    from jaxrobust.models.registry import MODELS

    return [(name, MODELS[name].description) for name in MODELS.matching(pattern)]
  if kind == "datasets":
    from jaxrobust.data.registry import DATASETS

    rows = [(name, DATASETS[name].description) for name in DATASETS.matching(pattern)]
    anything = [
      ("npz:PATH", "any npz file with images and labels"),
      ("folder:PATH", "any folder with one folder of pictures per class"),
      ("tfds:NAME:SPLIT", "what TensorFlow Datasets has prepared"),
    ]
    return [*rows, *anything]
  if kind == "corruptions":
    from jaxrobust.noises.registry import NOISES

    return [(name, _first_line(NOISES[name].apply)) for name in NOISES.matching(pattern)]
  if kind == "defenses":
    from jaxrobust.defenses.registry import DEFENSES

    return [(name, f"{_first_line(DEFENSES[name])} [{DEFENSES[name].view()}]") for name in DEFENSES.matching(pattern)]
  module, name = _DOCUMENTED[kind]
  registry = vars(importlib.import_module(module))[name]
  return [(name, _first_line(registry[name])) for name in registry.matching(pattern)]


def _first_line(entry: object) -> str:
  return (entry.__doc__ or "").strip().splitlines()[0] if entry.__doc__ else ""
