"""The transfer parts of suites: which images are made on a source, by the suite's name.

  ares        FGSM, BIM, MIM and DIM in linf and l2, untargeted and targeted: 10 steps of 0.15 eps (Dong et al. 2020,
              arXiv:1912.11852, appendix B). One run at several budgets, one at the paper's own (`suites.ares`) that is
              shown after every step. The examples are those of the suite.
  robustart   FGSM at 0.5/255, 2/255 and 8/255 on all examples (Tang et al. 2021, arXiv:2109.05211, figures 3, 16, 17).
  ares-bench  MIM, DIM, TIM, SI-NI-FGSM and VMI-FGSM: 20 steps, decay 1, linf 8/255, untargeted (Liu et al. 2023,
              arXiv:2302.14301, appendix A). What the appendix leaves open is as in the authors' code: steps of 1/255,
              TIM with diverse inputs, of 0.85 of the side at least; one preprocessing for all. How many images the
              maps are made of the paper does not say: here those of its other attacks.
Known deviations: ARES bisects the budget of each example on its victim; here images are made at a list of budgets, once
for all victims. A success rate is over the images that the victim has right; RobustART's script leaves out those that
the source has wrong, which the report shows beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from jaxrobust.core.budget import Budget
from jaxrobust.core.files import atomic_write
from jaxrobust.core.registry import Registry, unknown_name
from jaxrobust.data.preprocessing import USUAL
from jaxrobust.evaluation.metrics.adversarial import transferred_success_rate
from jaxrobust.evaluation.metrics.curves import Curve
from jaxrobust.evaluation.metrics.proportions import proportion
from jaxrobust.evaluation.suites.ares import protocol
from jaxrobust.evaluation.suites.ares_bench import N
from jaxrobust.evaluation.suites.entry import attack_entry, targeted
from jaxrobust.evaluation.suites.plan import attack_lines, count_of, preprocessing_line
from jaxrobust.evaluation.suites.robustart import BUDGETS
from jaxrobust.evaluation.suites.suite import Setting
from jaxrobust.evaluation.transfer_job import TransferSpec
from jaxrobust.results import Result
from jaxrobust.results.cell import safe_name
from jaxrobust.results.ids import attack_norm, is_targeted
from jaxrobust.results.plain import dumps, plain

# Of the suite's own budget; that one is shown after every step.
FACTORS = ("1/4", "1/2", "3/2", "2", "3", "4", "5")


class TransferSuite(NamedTuple):
  """Says what is made on each source, and of what.

  Attributes:
    specs: the attacks.
    n: how many examples the paper takes; None for all.
    preprocess: how pictures become arrays, where the paper has one way for all networks.
  """

  specs: list[TransferSpec]
  n: int | None = None
  preprocess: str = ""


TRANSFER_SUITES: Registry[Callable[[str, bool], TransferSuite]] = Registry("transfer suite")
"""(data set, whether the small form is meant) -> what is made."""


def transfer_suite(text: str, data: str) -> TransferSuite:
  """Returns what a suite makes on each source; `ares,small` is its quick form.

  >>> [spec.entry.title for spec in transfer_suite("ares-bench", "cifar10").specs][:2]
  ['linf-mim-20,step_size=0.125@8/255', 'linf-dim-20,step_size=0.125,probability=0.7,smallest=0.85@8/255']
  """
  name, _, option = text.partition(",")
  build = TRANSFER_SUITES[name]
  if option not in ("", "small"):
    raise unknown_name(f"option of transfer suite {name!r}", option, ["small"])
  return build(data.partition("@")[0], option == "small")


def plan_lines(text: str, data: str, n: int | None = None, preprocess: str = "") -> Iterator[str]:
  """Says in lines what the transfer part of a suite asks for, without data or classifiers.

  >>> list(plan_lines("robustart", "imagenet"))[2:]
  ['  linf-fgsm: PGD 1 step, at 0.5/255 2/255 8/255']
  """
  suite = transfer_suite(text, data)
  yield f"transfer of {text} on {data}, {count_of(data, n or suite.n)}: made on each network, shown to all"
  yield preprocessing_line(preprocess, suite.preprocess, "the one of the first network, for all")
  for spec in suite.specs:
    several = f", at {' '.join(budget.text for budget in spec.budgets)}" if len(spec.budgets) > 1 else ""
    stops = f", shown after each of {len(spec.stops)} steps" if spec.stops else ""
    for line in attack_lines(spec.entry, titled=not several):
      yield f"  {line}{several}{stops}"


@TRANSFER_SUITES.register("ares")
def ares(data: str, small: bool) -> TransferSuite:
  """FGSM, BIM, MIM and DIM over budgets and over steps, in both norms and for both goals."""
  found = []
  numbers = protocol(Setting(data))
  for norm in ("linf",) if small else ("linf", "l2"):
    budget = Budget(numbers.eps[norm])
    steps: dict[str, Any] = {"norm": norm, "num_steps": 4 if small else 10, "step_size": 0.3 if small else 0.15}
    entries = [attack_entry("fgsm", budget, norm=norm)]
    entries += [attack_entry(name, budget, **steps) for name in ("bim", "mim", "dim")]
    entries = [entries[0], entries[-1]] if small else [*entries, *map(targeted, entries)]
    factors = FACTORS[:1] if small else FACTORS
    for entry in entries:
      found.append(TransferSpec(entry, tuple(budget.times(factor) for factor in factors)))
      last = entry.schedule.stages[0].attack.num_steps
      found.append(TransferSpec(entry, stops=tuple(range(1, last + 1)) if last > 1 else ()))
  return TransferSuite(found, numbers.n)


@TRANSFER_SUITES.register("robustart")
def robustart(data: str, small: bool) -> TransferSuite:
  """FGSM in linf at three budgets: the maps from every network to every other."""
  del data, small
  budgets = tuple(Budget(numbers[0]) for numbers in BUDGETS.values())
  return TransferSuite([TransferSpec(attack_entry("fgsm", budgets[-1]), budgets)])


@TRANSFER_SUITES.register("ares-bench")
def ares_bench(data: str, small: bool) -> TransferSuite:
  """MIM, DIM, TIM, SI-NI-FGSM and VMI-FGSM in linf, as in appendix A."""
  del data
  steps: dict[str, Any] = {"num_steps": 4 if small else 20, "step_size": 1 / 4 if small else 1 / 8}
  diverse = {"probability": 0.7, "smallest": 0.85}
  chosen: dict[str, dict[str, Any]] = {
    "mim": {},
    "dim": diverse,
    "tim": {"kernel": 15, "sigma": 3.0, **diverse},
    "si-ni-fgsm": {"scales": 2 if small else 5},
    "vmi-fgsm": {"neighbors": 2 if small else 10, "beta": 1.5},
  }
  specs = [TransferSpec(attack_entry(name, "8/255", **steps, **more)) for name, more in chosen.items()]
  return TransferSuite(specs, N, USUAL)


def write_summaries(out: str | Path, suite: str, data: str, results: Iterable[Result]) -> list[Path]:
  """Stores what a transfer suite says of each classifier that images were shown to, beside its cells.

  A file's name tells the data set, the number of examples and the seed, so that no other run overwrites it.
  """
  by_model: dict[str, list[Result]] = {}
  for result in results:
    by_model.setdefault(result.cell.model, []).append(result)
  paths = []
  for model, found in by_model.items():
    n, seed = found[0].cell.n, found[0].cell.seed
    metrics = {f"{one.cell.attack}@{one.cell.eps}": proportion(one.examples["robust"]).plain() for one in found}
    summary = {"suite": suite, "model": model, "data": data, "n": n, "seed": seed, "metrics": metrics}
    summary |= {"curves": transfer_curves(found), "cells": sorted(str(one.cell) for one in found)}
    paths.append(Path(out, safe_name(model), f"{suite}@{safe_name(data)}.n{n}.seed{seed}.summary.json"))
    atomic_write(paths[-1], dumps(plain(summary, "summary", null_for_nan=True)))
  return paths


def transfer_curves(results: Iterable[Result]) -> dict[str, dict[str, Any]]:
  """Returns accuracy and success rate of one classifier against budget and against steps, for attacks with several.

  Titles are `budget: ATTACK` and `steps: ATTACK@EPS` (`budget, success rate: ATTACK`, …), where the attack names its
  source. Success is counted as ARES does; of targeted images it is not known at budget 0.
  """
  accuracy: dict[tuple[str, str, str], dict[float, float]] = {}
  success: dict[tuple[str, str, str], dict[float, float]] = {}
  for result in results:
    cell, examples = result.cell, result.examples
    assert cell.eps is not None
    targeted, clean = is_targeted(cell.attack), float(examples["correct"].mean())
    after = sorted(int(name.removeprefix(_AFTER)) for name in examples if name.startswith(_AFTER))
    budget = "budget", cell.attack, attack_norm(cell.attack) or "eps"
    steps = "steps", f"{cell.attack}@{cell.eps}", "steps"
    points = [(budget, Budget(cell.eps).value, None), *((steps, float(count), count) for count in after)]
    for title, x, count in points:
      robust = examples["robust" if count is None else f"{_AFTER}{count}"]
      accuracy.setdefault(title, {0.0: clean})[x] = float(robust.mean())
      success.setdefault(title, {} if targeted else {0.0: 0.0})[x] = transferred_success_rate(examples, targeted, count)
  several = {title for title, points in accuracy.items() if len(points) > 2}
  return {
    f"{axis}{kind}: {attack}": {"unit": unit, **_curve(points).plain()}
    for kind, found in (("", accuracy), (", success rate", success))
    for (axis, attack, unit), points in found.items()
    if (axis, attack, unit) in several and np.isfinite(list(points.values())).all()
  }


_AFTER = "robust_after@"


def _curve(points: Mapping[float, float]) -> Curve:
  return Curve(np.array(sorted(points)), np.array([points[x] for x in sorted(points)]))
