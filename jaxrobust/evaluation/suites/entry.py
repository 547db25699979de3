"""The entries of a suite: schedules of attacks with budgets, each one cell per model, data set and condition."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

from jaxrobust.attacks.audit import Audit, autoattack_audit
from jaxrobust.attacks.by_yield import RULE, ByYield
from jaxrobust.attacks.cascade_budget import CascadeBudget
from jaxrobust.attacks.registry import ATTACKS, attack_config, attack_id, make_attack
from jaxrobust.attacks.schedule import Cascade, CleanPass, Schedule, Stage, as_schedule
from jaxrobust.core.budget import Budget
from jaxrobust.core.errors import InputError
from jaxrobust.core.registry import unknown_name
from jaxrobust.results.ids import oblivious_id, transfer_id


@dataclass(frozen=True)
class SuiteEntry:
  """Asks for one evaluation: a schedule of attacks and its budget.

  Attributes:
    schedule: what each example goes through.
    attack: its id, part of the cell's name ("none" for the clean accuracy).
    eps: the budget; None for the clean pass and for minimal attacks.
    first: how many examples at most, from the start of the data set; None for all.
    targeted: whether each example has a random wrong class that counts as the only success.
    matrices: whether confidence matrices are wanted for however many classes.
    strengths: of minimal attacks, budgets for which it is kept at which step and query each was first reached.
    oblivious: of a defended classifier, what the attack is made with as if there were no defense: `gradient` for the
      naive one through the defense, `images` for images made on the classifier inside; empty for an adaptive attack.
    source: the name of another classifier, against which the images are made that this one is shown; empty for none.
    measures: of each image before any attack, by name (`evaluation.measures`); arrays of the cell besides its verdicts.
  """

  schedule: Schedule
  attack: str
  eps: Budget | None
  first: int | None = None
  targeted: bool = False
  matrices: bool = False
  strengths: tuple[Budget, ...] = ()
  oblivious: str = ""
  source: str = ""
  measures: tuple[str, ...] = ()

  @property
  def title(self) -> str:
    """Returns a short column header."""
    budget = "" if self.eps is None else f"@{self.eps.text}"
    name = "clean" if self.attack == "none" else self.attack + budget
    return name if self.first is None else f"{name}, first {self.first}"


def clean_entry() -> SuiteEntry:
  """Asks for the accuracy without any attack."""
  return SuiteEntry(CleanPass(), "none", None)


def targeted(entry: SuiteEntry) -> SuiteEntry:
  """Returns the same attack toward random wrong classes.

  >>> targeted(attack_entry("bim", "8/255", num_steps=20)).title
  'linf-bim-20,targeted@8/255'
  """
  return replace(entry, attack=f"{entry.attack},targeted", targeted=True)


def transferred(entry: SuiteEntry, source: str) -> SuiteEntry:
  """Returns the same attack on another classifier, whose images are shown to the one that is evaluated.

  >>> transferred(attack_entry("fgsm", "8/255"), "resnet50").title
  'transfer:resnet50:linf-fgsm@8/255'
  """
  return replace(entry, attack=transfer_id(source, entry.attack), source=source)


OBLIVIOUS = ("gradient", "images")


def oblivious(entry: SuiteEntry, how: str) -> SuiteEntry:
  """Returns the same attack by somebody who ignores the defense; one that there is nothing to ignore in as it is.

  A clean pass attacks nothing, and an attack without gradients asks the defended classifier either way.

  >>> oblivious(attack_entry("pgd", "8/255", num_steps=20), "gradient").title
  'oblivious:gradient:linf-pgd-20@8/255'
  """
  if how not in OBLIVIOUS:
    raise unknown_name("way to ignore a defense", how, list(OBLIVIOUS))
  if not entry.schedule.stages or entry.source:
    return entry
  if how == "gradient" and not any(stage.attack.access == "gradient" for stage in entry.schedule.stages):
    return entry
  return replace(entry, attack=oblivious_id(entry.attack, how), oblivious=how)


def attack_entry(
  name: str, eps: str | float | Budget | None = None, *, restarts: int = 1, **parameters: Any
) -> SuiteEntry:
  """Returns an entry for a registered attack.

  >>> attack_entry("pgd", "8/255", num_steps=20).title
  'linf-pgd-20@8/255'
  """
  return entry_of(make_attack(name, **parameters), eps, restarts=restarts)


def entry_of(attack: Any, eps: str | float | Budget | None = None, *, restarts: int = 1) -> SuiteEntry:
  """Returns an entry for any attack or cascade value."""
  schedule = as_schedule(attack, restarts)
  if eps is None and not schedule.minimal:
    raise InputError(f"attack {schedule_id(schedule)!r} works within a budget: set eps, for example 8/255")
  budget = None if eps is None else Budget.parse(eps, schedule.stages[0].attack.threat.name)
  return SuiteEntry(schedule, schedule_id(schedule), budget)


def schedule_id(schedule: Schedule) -> str:
  """Returns the id of a schedule: its own name if it has one, otherwise its attack's, with the number of restarts.

  >>> schedule_id(autoattack_audit(width=1.0))
  'linf-autoattack-audit-1'
  """
  name = schedule.name
  if isinstance(schedule, Cascade) and name:
    return f"{schedule.norm}-{name}" + ("" if _is_usual(schedule, name) else f"~{_digest(schedule)}")
  if isinstance(schedule, CascadeBudget):
    usual = _is_usual(schedule.cascade, schedule.cascade.name or "")
    return schedule.title if usual else f"{schedule.title}~{_digest(schedule)}"
  if isinstance(schedule, Audit):
    title = f"{schedule_id(schedule.full)}-audit-{schedule.width:g}"
    usual = schedule == autoattack_audit(schedule.norm, schedule.width)
    return title if usual else f"{title}~{_digest(schedule)}"
  if isinstance(schedule, ByYield):
    return f"{schedule_id(schedule.cascade)}-{schedule.name}-{schedule.pilot}"
  attack = attack_id(schedule.stages[0].attack)
  if name:
    return f"{attack}-{name}"
  return f"{attack}x{len(schedule.stages)}" if len(schedule.stages) > 1 else stage_id(schedule.stages[0])


def stage_id(stage: Stage) -> str:
  """Returns the id of one stage alone: its attack's, with the rank of its class and the number of its restart.

  >>> stage_id(Stage(make_attack("apgd-t"), rank=2)), stage_id(Stage(make_attack("pgd"), restart=1))
  ('linf-apgd-t-100,rank=2', 'linf-pgd-40,restart=1')
  """
  numbers = {"rank": stage.rank, "restart": stage.restart or None}
  told = [f"{key}={value}" for key, value in numbers.items() if value is not None]
  return ",".join([attack_id(stage.attack), *told])


def _is_usual(schedule: Cascade, name: str) -> bool:
  return name in ATTACKS and ATTACKS[name](norm=schedule.norm) == schedule


def _digest(schedule: Schedule) -> str:
  """Tells cascades of one name with other parameters apart."""
  text = json.dumps(schedule_config(schedule), sort_keys=True, default=str)
  return hashlib.sha256(text.encode()).hexdigest()[:6]


def schedule_config(schedule: Schedule) -> list[dict[str, Any]]:
  """Returns everything about a schedule that decides verdicts, as plain JSON."""
  stages = [{"rank": stage.rank, "restart": stage.restart, **attack_config(stage.attack)} for stage in schedule.stages]
  return stages if isinstance(schedule, Cascade) else [*_search_config(schedule), *stages]


def threat_config(schedule: Schedule) -> dict[str, Any] | None:
  """Returns what the threat of a schedule says of itself, which its stages share; None where nothing is attacked.

  >>> threat_config(attack_entry("pgd", "0.5", norm="l2").schedule), threat_config(CleanPass())
  ({'name': 'l2'}, None)
  """
  return schedule.stages[0].attack.threat.config() if schedule.stages else None


def _search_config(schedule: Schedule) -> list[dict[str, Any]]:
  """Returns the numbers of a rule that is more than its stages, such as a minimum-budget search."""
  if isinstance(schedule, Audit):
    limits = {"width": schedule.width, "evaluations": schedule.evaluations}
    return [{"schedule": "Audit", "cheap": len(schedule.cheap.stages), **limits}]
  if isinstance(schedule, ByYield):
    return [{"schedule": "ByYield", "pilot": schedule.pilot, "rule": RULE}]
  known: list[str] = [field.name for field in fields(schedule)] if is_dataclass(schedule) else []
  numbers = {name: getattr(schedule, name) for name in known if isinstance(getattr(schedule, name), (int, float))}
  # A clean pass has none but the flag that it is not minimal.
  return [{"schedule": type(schedule).__name__, **numbers}] if set(numbers) - {"minimal"} else []
