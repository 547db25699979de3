"""Defines what is run: a suite of jobs, each answered by a cell.

A suite is one file in this folder and one line in `_FILES`: a function of a `Setting`, registered in `SUITES`, that
returns `Suite(parts, metrics)`. A part is some entries on one data set under one condition, an entry one job, and the
metrics are computed from the cells that answer them.

  jaxrobust evaluate --suite oodrb --data cifar10      the whole of it
  jaxrobust evaluate --suite oodrb,small --data …      few corruptions, severities, budgets and steps
  jaxrobust evaluate --suite oodrb,generated --data …  corruptions made on the fly where official files are not at hand
"""

from __future__ import annotations

import fnmatch
import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from jaxrobust.core.budget import Budget
from jaxrobust.core.errors import InputError
from jaxrobust.core.registry import Registry, unknown_name
from jaxrobust.evaluation.suites.entry import SuiteEntry

if TYPE_CHECKING:
  from jaxrobust.evaluation.suites.report import Report

_FILES = ("basic", "ares", "ares_bench", "nas_cell", "oodrb", "robustart")
OPTIONS = ("small", "generated")
EPS = Budget("8/255")

Summary = dict[str, Any]
Metrics = Callable[["Report"], Summary]
"""Computes metrics, tables and curves from the cells of a suite."""


@dataclass(frozen=True)
class Setting:
  """Says what a suite depends on.

  Attributes:
    data: the classifier's own data set.
    norm, eps: the threat model, where the suite does not fix it.
    condition: of the data set, for suites without conditions of their own.
    small: as few corruptions, severities, budgets and steps as show that everything works.
    generated: corruptions are made on the fly even where official files exist.
  """

  data: str
  norm: str = "linf"
  eps: Budget = EPS
  condition: str = "none"
  small: bool = False
  generated: bool = False

  @property
  def suffix(self) -> str:
    """Tells a form of a suite apart in file names."""
    return "-small" * self.small + "-generated" * self.generated

  @property
  def base(self) -> str:
    """Returns the data set without the size of a subset."""
    return self.data.partition("@")[0]


@dataclass(frozen=True)
class Part:
  """Asks for entries on one data set under one condition.

  Attributes:
    data, condition: by name.
    entries: what is done there.
    group: what it stands for in the metrics of its suite ("id", "natural", "corruption", …).
  """

  data: str
  condition: str
  entries: tuple[SuiteEntry, ...]
  group: str = "id"


@dataclass(frozen=True)
class Suite:
  """Holds what is asked of one classifier, and how its cells are summed up.

  Attributes:
    parts: what is run.
    metrics: of the cells; None where a table of accuracies says it all.
    plain: a set of attacks on whatever data there is, without options or conditions of its own.
    name, setting: filled in by `make_suite`.
  """

  parts: tuple[Part, ...]
  metrics: Metrics | None = None
  plain: bool = False
  name: str = "entries"
  setting: Setting = Setting("")

  def only(self, pattern: str) -> Suite:
    """Returns the jobs whose `data/condition/attack@eps` matches a shell pattern."""
    parts = []
    for part in self.parts:
      kept = tuple(entry for entry in part.entries if _matches(part, entry, pattern))
      parts += [replace(part, entries=kept)] if kept else []
    if not parts:
      raise InputError(f"no cell of {self.name} matches {pattern!r}")
    return replace(self, parts=tuple(parts))


def attack_set(setting: Setting, entries: Sequence[SuiteEntry], metrics: Metrics | None = None) -> Suite:
  """Returns a suite of some entries on the classifier's own data set."""
  return Suite((Part(setting.data, setting.condition, tuple(entries)),), metrics, plain=True, setting=setting)


def title_of(part: Part, entry: SuiteEntry) -> str:
  """Names a job as a command line does: `data/condition/attack@eps`."""
  condition = "clean" if part.condition == "none" else part.condition
  return f"{part.data}/{condition}/{entry.attack}" + ("" if entry.eps is None else f"@{entry.eps.text}")


def _matches(part: Part, entry: SuiteEntry, pattern: str) -> bool:
  title = title_of(part, entry)
  # An attack's id may hold brackets, which a shell pattern would read as a choice.
  return title == pattern or fnmatch.fnmatchcase(title, pattern)


def _load() -> None:
  for file in _FILES:
    importlib.import_module(f"jaxrobust.evaluation.suites.{file}")


SUITES: Registry[Callable[[Setting], Suite]] = Registry("suite", _load)


def make_suite(text: str, setting: Setting) -> Suite:
  """Returns a suite by name, with options after commas.

  >>> suite = make_suite("oodrb", Setting("digits32"))
  >>> sum(entry.attack != "none" for part in suite.parts if part.group != "threat" for entry in part.entries)
  80
  >>> [entry.title for entry in make_suite("basic", Setting("digits32")).parts[0].entries]
  ['clean', 'linf-fgsm@8/255', 'linf-pgd-20@8/255']
  """
  name, *options = text.split(",")
  for option in options:
    if option not in OPTIONS:
      raise unknown_name(f"option of suite {name!r}", option, list(OPTIONS))
  setting = replace(setting, **dict.fromkeys(options, True))  # type: ignore[arg-type]
  suite = replace(SUITES[name](setting), name=name, setting=setting)
  if suite.plain and options:
    raise InputError(f"suite {name!r} is a plain set of attacks; it has no option {options[0]!r}")
  if not suite.plain and setting.condition != "none":
    raise InputError(f"suite {name!r} has conditions of its own; it cannot be run under {setting.condition!r}")
  return suite
