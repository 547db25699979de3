"""What a suite asks for, in lines: data sets, how many examples, how they are judged, attacks, budgets and steps.

`jaxrobust evaluate --suite ares-bench --data imagenet --dry_run` prints it: no data, classifier or device is needed, so
that the numbers of a paper can be compared before anything is computed.
"""

from __future__ import annotations

from collections.abc import Iterator

from jaxrobust.attacks.minimum_budget import MinimumBudget
from jaxrobust.attacks.schedule import Stage
from jaxrobust.core.budget import Budget
from jaxrobust.data.registry import DATASETS
from jaxrobust.evaluation.suites.entry import SuiteEntry
from jaxrobust.evaluation.suites.suite import Part, Suite

FEW = 3


def plan_lines(suite: Suite, n: int | None = None, preprocess: str = "") -> Iterator[str]:
  """Says in lines what a suite asks for.

  Args:
    suite: of any data set.
    n: examples of each data set, where not the suite says.
    preprocess: asked for; the suite's or the network's own if empty.
  """
  setting = suite.setting
  cells = sum(len(part.entries) for part in suite.parts)
  yield f"{suite.name}{setting.suffix} on {setting.data}: {cells} cells"
  yield preprocessing_line(preprocess, suite.preprocess, "the one of the network")
  yield from (f"note: {note}" for note in suite.notes)
  for parts in _alike(suite.parts):
    first = parts[0]
    yield f"{first.group}: {_places(parts)}, {_examples(first, suite, n)}{_judged(first)}"
    yield from (f"  {line}" for entry in first.entries for line in attack_lines(entry))
    if first.expected > len(first.entries):
      yield f"  {first.expected - len(first.entries)} of {first.expected} have no attack here"


def preprocessing_line(asked: str, own: str, usual: str) -> str:
  """Says how pictures become arrays: as asked for, by the suite's own way, or the usual one."""
  return f"preprocessing: {asked or own or usual}" + (" (the suite's own)" if own and not asked else "")


def _alike(parts: tuple[Part, ...]) -> list[list[Part]]:
  """Gathers parts that follow one another and differ in corruption or condition alone."""
  found: list[list[Part]] = []
  for part in parts:
    kind = (part.group, part.data.partition(":")[0], part.condition == "none", part.n, part.entries)
    last = found[-1][0] if found else None
    same = last and kind == (last.group, last.data.partition(":")[0], last.condition == "none", last.n, last.entries)
    if same:
      found[-1].append(part)
    else:
      found.append([part])
  return found


def _places(parts: list[Part]) -> str:
  names = [part.data if part.condition == "none" else f"{part.data} under {part.condition}" for part in parts]
  if len(names) <= FEW:
    return ", ".join(names)
  return f"{names[0]} … {names[-1].rpartition(' ')[2]} ({len(names)} in all)"


def _examples(part: Part, suite: Suite, n: int | None) -> str:
  return count_of(part.data, n or suite.setting.subset or part.n)


def count_of(data: str, most: int | None) -> str:
  """Says how many examples of a data set are taken, where no more than `most` are."""
  name = data.partition("@")[0]
  entry = DATASETS.get(name.partition(":")[0])
  size = None if entry is None else entry.size_of(name)
  if most is None or (size is not None and most >= size):
    return "all examples" if size is None else f"all {size} examples"
  return f"{most} examples" if size is None else f"{most} of {size} examples"


def _judged(part: Part) -> str:
  base, _, variant = part.data.partition(":")
  entry = DATASETS.get(base.partition("@")[0])
  if entry is None or not entry.judged:
    return ""
  return ", judged among all 1000 classes" if variant else f", judged {entry.judged}"


def attack_lines(entry: SuiteEntry, titled: bool = True) -> Iterator[str]:
  """Says what an entry runs: its title (or attack alone), and the steps of each of its stages."""
  if entry.attack == "none":
    yield ", ".join(("clean accuracy", *entry.measures))
    return
  stages = entry.schedule.stages
  # A search's scout is no attack of its own.
  shown = stages[:1] if isinstance(entry.schedule, MinimumBudget) else stages
  eps = entry.eps if titled else None
  yield f"{entry.title if titled else entry.attack}: {'; '.join(dict.fromkeys(_stage(one, eps) for one in shown))}"


def _stage(stage: Stage, eps: Budget | None) -> str:
  attack = stage.attack
  text = f"{type(attack).__name__} {attack.num_steps} step{'s' if attack.num_steps > 1 else ''}"
  size = getattr(attack, "step_size", None)
  if isinstance(size, float) and attack.num_steps > 1:
    if eps is None or attack.minimal:
      text += f" of {size:.4g}" + ("" if attack.minimal else " eps")
    else:
      over = "/255" if eps.text.endswith("/255") else ""
      text += f" of {size * eps.value * (255 if over else 1):.4g}{over}"
  return text
