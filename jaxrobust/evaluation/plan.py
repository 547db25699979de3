"""Plans: what a benchmark asks of one classifier, over data sets, conditions and attacks.

A plan is a list of parts, a part some entries on one data set under one condition, an entry one cell. A benchmark is a
function of a `Setting` in `jaxrobust.evaluation.benchmarks`, and one line in `_MODULES`; sets of attacks without data
of their own (`jaxrobust.evaluation.suites`) are plans of one part.

  jaxrobust evaluate --suite oodrb --data cifar10      the whole of it
  jaxrobust evaluate --suite oodrb,small --data …      few corruptions, severities, budgets and steps
  jaxrobust evaluate --suite oodrb,generated --data …  corruptions made on the fly where official files are not at hand
"""

from __future__ import annotations

import fnmatch
import importlib
from collections.abc import Callable
from dataclasses import dataclass, replace

from jaxrobust.core.errors import InputError
from jaxrobust.core.registry import Registry, unknown_name
from jaxrobust.core.threat import Budget
from jaxrobust.evaluation.suites import SUITES, Entry

_MODULES = ("robustart", "ares", "ares_bench", "oodrb", "nas_cell")
OPTIONS = ("small", "generated")
EPS = Budget("8/255")


@dataclass(frozen=True)
class Setting:
  """What a plan depends on.

  Attributes:
    data: the classifier's own data set.
    norm, eps: the threat model, where the benchmark does not fix it.
    small: as few corruptions, severities, budgets and steps as show that everything works.
    generated: corruptions are made on the fly even where official files exist.
  """

  data: str
  norm: str = "linf"
  eps: Budget = EPS
  small: bool = False
  generated: bool = False

  @property
  def suffix(self) -> str:
    """What tells a form of a suite apart in file names."""
    return "".join(f"-{option}" for option in OPTIONS if getattr(self, option))

  @property
  def base(self) -> str:
    """The data set without the size of a subset."""
    return self.data.partition("@")[0]


@dataclass(frozen=True)
class Part:
  """Entries on one data set under one condition.

  Attributes:
    data, condition: by name.
    entries: what is done there.
    group: what it stands for in the metrics of its benchmark ("id", "natural", "corruption", …).
  """

  data: str
  condition: str
  entries: tuple[Entry, ...]
  group: str = "id"


@dataclass(frozen=True)
class Plan:
  """A benchmark for one setting."""

  name: str
  setting: Setting
  parts: tuple[Part, ...]

  def only(self, pattern: str) -> Plan:
    """The cells whose `data/condition/attack@eps` matches a shell pattern."""
    parts = []
    for part in self.parts:
      kept = tuple(entry for entry in part.entries if _matches(part, entry, pattern))
      parts += [replace(part, entries=kept)] if kept else []
    if not parts:
      raise InputError(f"no cell of {self.name} matches {pattern!r}")
    return replace(self, parts=tuple(parts))


def title_of(part: Part, entry: Entry) -> str:
  """How a cell is named on a command line: `data/condition/attack@eps`."""
  condition = "clean" if part.condition == "none" else part.condition
  return f"{part.data}/{condition}/{entry.attack}" + ("" if entry.eps is None else f"@{entry.eps.text}")


def _matches(part: Part, entry: Entry, pattern: str) -> bool:
  title = title_of(part, entry)
  # An attack's id may hold brackets, which a shell pattern would read as a choice.
  return title == pattern or fnmatch.fnmatchcase(title, pattern)


def _load() -> None:
  for module in _MODULES:
    importlib.import_module(f"jaxrobust.evaluation.benchmarks.{module}")


BENCHMARKS: Registry[Callable[[Setting], list[Part]]] = Registry("suite", _load)


def make_plan(suite: str, setting: Setting, condition: str = "none") -> Plan:
  """The plan of a suite by name, with options after commas.

  >>> plan = make_plan("oodrb", Setting("digits32"))
  >>> sum(entry.attack != "none" for part in plan.parts if part.group != "threat" for entry in part.entries)
  80
  >>> [entry.title for entry in make_plan("basic", Setting("digits32")).parts[0].entries]
  ['clean', 'linf-fgsm@8/255', 'linf-pgd-20@8/255']
  """
  name, *options = suite.split(",")
  for option in options:
    if option not in OPTIONS:
      raise unknown_name(f"option of suite {name!r}", option, list(OPTIONS))
  setting = replace(setting, **dict.fromkeys(options, True))  # type: ignore[arg-type]
  if name not in BENCHMARKS:
    if name not in SUITES:
      raise unknown_name("suite", name, sorted({*SUITES, *BENCHMARKS}))
    if options:
      raise InputError(f"suite {name!r} is a plain set of attacks; it has no option {options[0]!r}")
    return Plan(name, setting, (Part(setting.data, condition, tuple(SUITES[name](setting.norm, setting.eps))),))
  if condition != "none":
    raise InputError(f"suite {name!r} has conditions of its own; it cannot be run under {condition!r}")
  return Plan(name, setting, tuple(BENCHMARKS[name](setting)))
