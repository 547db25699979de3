"""Defines what is run: a suite of jobs, each answered by a cell.

A suite is one file in this folder and one line in `_FILES`: a function of a `Setting`, registered in `SUITES`, that
returns `Suite(parts, metrics)`. A part is some entries on one data set under one condition, an entry one job, and the
metrics are computed from the cells that answer them.

  jaxrobust evaluate --suite oodrb --data cifar10      the whole of it
  jaxrobust evaluate --suite oodrb,small --data …      few corruptions, severities, budgets and steps
  jaxrobust evaluate --suite oodrb,generated --data …  corruptions made on the fly where official files are not at hand
  jaxrobust evaluate --suite robustart,scaled --data … budgets in l1 and l2 for images of another size than the paper's
  jaxrobust evaluate --suite ares,queries=2000 --data … another number of queries than the paper's 20,000

The numbers of a paper (budgets, steps, how many examples) belong to its suite: what it fixes cannot be asked for.
"""

from __future__ import annotations

import fnmatch
import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from jaxrobust.attacks.registry import ATTACKS
from jaxrobust.core.budget import Budget, check_norm
from jaxrobust.core.errors import InputError, UnknownNameError
from jaxrobust.core.registry import Registry, unknown_name
from jaxrobust.core.validation import check_count
from jaxrobust.evaluation.suites.entry import SuiteEntry, oblivious
from jaxrobust.results.ids import oblivious_id

if TYPE_CHECKING:
  from jaxrobust.evaluation.suites.report import Report

_FILES = (
  *("basic", "ares", "ares_bench", "ares_defenses", "nas_cell", "oodrb", "robustart"),
  *("sensitivity", "unforeseen"),
)
OPTIONS = ("small", "generated", "scaled")
# Options with an integer and with a text, which only some suites take (`Suite.numbers`).
NUMBERS, TEXTS = ("queries",), ("lpips",)
MOST_QUERIES = 10_000_000
# The usual budgets of CIFAR-10 (RobustBench; AutoAttack's for l1), where neither a suite nor a user says another.
USUAL_EPS = {"linf": Budget("8/255"), "l2": Budget("0.5"), "l1": Budget("12")}
EPS = USUAL_EPS["linf"]
# Sides of the images of data sets that are read at one size; others are asked.
SIDES = {"cifar10": 32, "cifar100": 32, "digits32": 32, "imagenet": 224}

Summary = dict[str, Any]
Metrics = Callable[["Report"], Summary]
"""Computes metrics, tables and curves from the cells of a suite."""


class AuditSetting(NamedTuple):
  """Says which attacks the suite `audit` takes, by name, and how exactly (see `jaxrobust.attacks.audit`)."""

  cheap: str = "mm5"
  full: str = "autoattack"
  width: float = 0.5
  evaluations: float = 0.0


class CascadeSetting(NamedTuple):
  """Says which stages the suite `cascade` takes, as text (`attacks.cascade_text`), and in which order.

  Attributes:
    order: empty for the order of the text, `yield` for the one that a pilot of so many examples decides.
  """

  stages: str = "autoattack"
  order: str = ""
  pilot: int = 50


AUDIT, CASCADE = AuditSetting(), CascadeSetting()


@dataclass(frozen=True)
class Setting:
  """Says what a suite depends on.

  Attributes:
    data: the classifier's own data set.
    norm, eps: the threat model, where the suite does not fix it.
    given: which of the two were asked for, and are not only what is usual.
    side: of the images in pixels; None where it is not known.
    condition: of the data set, for suites without conditions of their own.
    small: as few corruptions, severities, budgets and steps as show that everything works.
    generated: corruptions are made on the fly even where official files exist.
    audit: of the suite that audits.
    cascade: of the suite that runs one.
    ignorable: the ways in which an attack can be oblivious of the classifier's defense; none for an undefended one.
    queries: of each attack without gradients; 0 for the paper's number.
    lpips: which network bounds perceptual attacks, as `alexnet:FILE` (`models.perceptual`); empty for the suite's own.
    scaled: budgets in l1 and l2 that a paper has for 224 pixels follow the size of the images.
    source: the name of another classifier, for attacks by transfer.
  """

  data: str
  norm: str = "linf"
  eps: Budget = EPS
  condition: str = "none"
  small: bool = False
  generated: bool = False
  scaled: bool = False
  queries: int = 0
  lpips: str = ""
  given: tuple[str, ...] = ()
  side: int | None = None
  audit: AuditSetting = AUDIT
  cascade: CascadeSetting = CASCADE
  source: str = ""
  ignorable: tuple[str, ...] = ()

  @classmethod
  def of(cls, data: str, norm: str | None, eps: str | float | Budget | None, **more: Any) -> Setting:
    """Returns the setting of what is asked for; what is usual where norm or eps are empty. Entries limit eps."""
    given = tuple(name for name, value in (("norm", norm), ("eps", eps)) if value not in (None, ""))
    norm = check_norm(norm or "linf")
    budget = USUAL_EPS[norm] if eps is None or eps == "" else Budget.parse(eps)
    return cls(data, norm, budget, given=given, **more)

  @property
  def suffix(self) -> str:
    """Tells a form of a suite apart in file names and on boards: what is measured in another way is another suite."""
    forms = "-small" * self.small + "-generated" * self.generated + "-scaled" * self.scaled
    forms += f"-{self.queries}-queries" * bool(self.queries) + f"-from-{self.source}" * bool(self.source)
    return forms + f"-lpips-{self.lpips.partition(':')[0]}" * bool(self.lpips)

  @property
  def pixels(self) -> int | None:
    """Returns the side of the images, as measured or as known of the data set."""
    return self.side or SIDES.get(self.base)

  @property
  def subset(self) -> int | None:
    """Returns the size of the subset that the data set's name asks for, if it does."""
    count = self.data.partition("@")[2]
    return int(count) if count.isdigit() else None

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
    n: how many examples the paper takes; None for all. Fewer there are fewer.
    of: how many entries the paper has here, where some of them cannot be had; None for just these.
  """

  data: str
  condition: str
  entries: tuple[SuiteEntry, ...]
  group: str = "id"
  n: int | None = None
  of: int | None = None

  @property
  def expected(self) -> int:
    """Returns how many entries the paper has here."""
    return len(self.entries) if self.of is None else self.of


@dataclass(frozen=True)
class Suite:
  """Holds what is asked of one classifier, and how its cells are summed up.

  Attributes:
    parts: what is run.
    metrics: of the cells; None where a table of accuracies says it all.
    plain: a set of attacks on whatever data there is, without options or conditions of its own.
    fixes: which of "norm" and "eps" it fixes, and so refuses.
    instead: what to run for other budgets.
    preprocess: how pictures become arrays, where the paper has one way for all networks; empty for the network's own.
    numbers: which options with a number or a text it takes.
    notes: what the paper's protocol is, where there are two, and what is left out.
    whole: all parts, of a suite that only some are asked of.
    name, setting: filled in by `make_suite`.
  """

  parts: tuple[Part, ...]
  metrics: Metrics | None = None
  plain: bool = False
  name: str = "entries"
  setting: Setting = Setting("")
  fixes: tuple[str, ...] = ()
  instead: str = ""
  preprocess: str = ""
  numbers: tuple[str, ...] = ()
  notes: tuple[str, ...] = ()
  whole: tuple[Part, ...] = ()

  def only(self, pattern: str) -> Suite:
    """Returns the jobs whose `data/condition/attack@eps` matches a shell pattern."""
    parts = []
    for part in self.parts:
      kept = tuple(entry for entry in part.entries if _matches(part, entry, pattern))
      parts += [replace(part, entries=kept)] if kept else []
    if not parts:
      raise InputError(f"no cell of {self.name} matches {pattern!r}")
    return replace(self, parts=tuple(parts), whole=self.whole or self.parts)

  def oblivious(self, how: str) -> Suite:
    """Returns the same attacks by somebody who ignores the defense of the classifier: by its `gradient` or `images`.

    It has a name of its own, so that its summary never passes for that of the adaptive attacks.
    """
    if any(entry.oblivious for part in self.parts for entry in part.entries):
      raise InputError(f"suite {self.name!r} ignores the defense in groups of its own: leave --oblivious out")
    parts = tuple(replace(part, entries=tuple(oblivious(one, how) for one in part.entries)) for part in self.parts)
    return replace(self, name=oblivious_id(self.name, how), parts=parts)

  def expected(self, group: str, attacked: bool | None = None, chosen: Callable[[Part], bool] | None = None) -> int:
    """Returns how many cells the paper has in a group; if asked for, only those (un)attacked, or of chosen parts."""
    count = 0
    for part in self.whole or self.parts:
      if part.group == group and (chosen is None or chosen(part)):
        wrong = sum(attacked not in (None, entry.attack != "none") for entry in part.entries)
        count += part.expected - wrong
    return count


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


def _option(suite: str, word: str) -> tuple[str, Any]:
  """Returns the field of a setting that an option sets: `small`, or `queries=2000`."""
  key, _, text = word.partition("=")
  if key in NUMBERS:
    if not text.isdecimal() or not text.isascii():
      raise InputError(f"option {key} of suite {suite!r} needs an integer, as {key}=2000, got {text!r}")
    check_count(int(text[:20]), key, MOST_QUERIES)
    return key, int(text)
  if key in TEXTS:
    return key, text
  if word not in OPTIONS:
    raise unknown_name(f"option of suite {suite!r}", word, [*OPTIONS, *NUMBERS, *TEXTS])
  return word, True


def make_suite(text: str, setting: Setting) -> Suite:
  """Returns a suite by name, with options after commas.

  >>> suite = make_suite("oodrb", Setting("digits32"))
  >>> sum(entry.attack != "none" for part in suite.parts if part.group != "threat" for entry in part.entries)
  80
  >>> [entry.title for entry in make_suite("basic", Setting("digits32")).parts[0].entries]
  ['clean', 'linf-fgsm@8/255', 'linf-pgd-20@8/255']
  """
  name, *words = text.split(",")
  options = dict(_option(name, word) for word in words)
  if name not in SUITES and name.lower() in ATTACKS:
    stages = name.lower()
    how = f"--suite=cascade --stages={stages}, in Python suite='cascade', cascade=CascadeSetting({stages!r})"
    raise UnknownNameError(f"{name!r} is an attack, no suite: {how}")
  setting = replace(setting, **options)
  suite = replace(SUITES[name](setting), name=name, setting=setting)
  if refused := [what for what in suite.fixes if what in setting.given]:
    what = refused[0]
    raise InputError(f"suite {name!r} has its paper's own {what}: leave --{what} out, or run {suite.instead}")
  if setting.source and not any(entry.source for part in suite.parts for entry in part.entries):
    raise InputError(f"suite {name!r} has no attack by transfer: leave --source out, or run jaxrobust transfer")
  if suite.plain and options:
    raise InputError(f"suite {name!r} is a plain set of attacks; it has no option {words[0]!r}")
  foreign = [key for key in (*NUMBERS, *TEXTS) if key in options and key not in suite.numbers]
  if foreign:
    raise InputError(f"suite {name!r} has no option {foreign[0]!r}")
  if not suite.plain and setting.condition != "none":
    raise InputError(f"suite {name!r} has conditions of its own; it cannot be run under {setting.condition!r}")
  return suite
