"""Jobs that show images made against one classifier to others.

Images are made with all steps of the attack: a search that stops at the first success ends just behind the source's
boundary and hardly transfers. Attacks that name their candidate (`fgsm bim pgd mim apgd…`) are run to their end on
every example, right or wrong, and may be shown after fewer steps too (`stops`); of other attacks and of cascades the
verified adversarial images are taken as they are. Each image is checked against its ball and the box.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import jax
import numpy as np

from jaxrobust.attacks.all_steps import AllSteps
from jaxrobust.attacks.schedule import Cascade, Schedule
from jaxrobust.attacks.uap import UAP
from jaxrobust.core.budget import Budget
from jaxrobust.core.classifier import check_logits
from jaxrobust.core.contract import contract_of
from jaxrobust.core.errors import InputError
from jaxrobust.engine.scheduler import Engine
from jaxrobust.engine.table import Verdicts
from jaxrobust.engine.universal import fit
from jaxrobust.engine.verdicts import VerdictArrays
from jaxrobust.evaluation.attack_job import start_pool
from jaxrobust.evaluation.context import ModelContext
from jaxrobust.evaluation.job import Arrays, Job, ShareSource
from jaxrobust.evaluation.judged import judged
from jaxrobust.evaluation.suites.entry import SuiteEntry
from jaxrobust.evaluation.verdicts import cell_arrays


@dataclass(frozen=True)
class TransferSpec:
  """Says what is made on each source.

  Attributes:
    entry: the attack and its first budget.
    budgets: all budgets; the entry's own by default. One program serves them.
    stops: numbers of steps after which images are shown; all steps by default.
  """

  entry: SuiteEntry
  budgets: tuple[Budget, ...] = ()
  stops: tuple[int, ...] = ()

  def __post_init__(self) -> None:
    entry = self.entry
    if entry.schedule.minimal:
      raise InputError(f"{entry.attack} looks for the smallest perturbation: transfer needs an attack within a budget")
    if entry.eps is None:
      raise InputError("transfer needs an attack within a budget: set eps, for example 8/255")
    object.__setattr__(self, "budgets", self.budgets or (entry.eps,))
    if self.universal and len(self.budgets) > 1:
      raise InputError("a universal perturbation is trained for one budget; run each on its own")
    if self.stops and not self.single:
      raise InputError("images after fewer steps need a single attack that says which point it evaluates next")
    if not self.single and len(self.budgets) > 1:
      raise InputError("several budgets at once need a single attack that says which point it evaluates next")
    self.schedule  # noqa: B018 - refuses bad stops now

  @property
  def single(self) -> bool:
    """Tells whether the attack is run to its end, whatever it finds."""
    stages = self.entry.schedule.stages
    return len(stages) == 1 and contract_of(stages[0].attack).candidate and stages[0].rank is None

  @property
  def universal(self) -> bool:
    """Tells whether one perturbation is trained for all images."""
    return isinstance(self.entry.schedule.stages[0].attack, UAP)

  @property
  def schedule(self) -> Schedule:
    return self._all_steps or self.entry.schedule

  @property
  def shown(self) -> tuple[int, ...]:
    """Returns the numbers of steps after which images are shown; -1 for verified images of whatever step."""
    return (-1,) if self._all_steps is None else self._all_steps.stops

  @property
  def _all_steps(self) -> AllSteps | None:
    if not self.single:
      return None
    return AllSteps(self.entry.schedule.stages[0], tuple(budget.value for budget in self.budgets), self.stops)


class TransferRun:
  """Images made against one source, judged by the targets of some jobs."""

  def __init__(self, source: ModelContext, spec: TransferSpec, jobs: Sequence[Job], positions: np.ndarray):
    options, shape = jobs[0].options, jobs[0].image_shape()
    self.jobs, self.spec = jobs, spec
    self.victims = list({job.cell.model: job.classifier for job in jobs}.values())
    names = list(dict.fromkeys(job.cell.model for job in jobs))
    self.number_of = [names.index(job.cell.model) for job in jobs]
    attacked = source.choosing(jobs[0].judging)
    for classifier in (attacked, *self.victims):
      check_logits(classifier, shape)
    self.stops = spec.shown
    self.verdicts = [VerdictArrays(len(positions), _value(job), classes=job.classes) for job in jobs]
    # For each job, whether examples are robust after each of the stops.
    self.robust_after = np.zeros((len(jobs), len(self.stops), len(positions)), bool)
    # Whether the source is right about each example, whatever its targets say.
    self.source_correct = np.zeros(len(positions), bool)
    targeted = spec.entry.targeted
    # And of targeted images, right before or not, whether their target is predicted.
    self.reached_after = np.zeros_like(self.robust_after) if targeted else None
    self.fitted = 0
    if spec.universal:
      self.fitted, spec = _fitted(source, spec, jobs[0])
    self.engine = Engine(
      attacked,
      spec.schedule,
      ShareSource(source.keep(jobs[0].data), positions, shape, options.seed if targeted else None),
      eps=_value(jobs[0]),
      seed=options.seed,
      targeted=targeted,
      samples=options.samples,
      verdict_samples=options.verdict_samples,
      options=options.engine,
      wants_image=None,
      victims=self.victims,
      start_pool=start_pool(jobs[0].data, shape),
    )

  @property
  def state(self) -> Arrays:
    state = {"robust_after": self.robust_after, "source_correct": self.source_correct}
    if self.reached_after is not None:
      state["reached_after"] = self.reached_after
    for number, verdicts in enumerate(self.verdicts):
      state |= verdicts.state(f"verdicts{number}.")
    return state

  def record(self, verdicts: Verdicts) -> None:
    """Writes down what each target says of the images, at each budget."""
    self.source_correct[verdicts["position"]] = verdicts["correct"]
    for number in range(len(self.verdicts) if len(verdicts) else 0):
      self._record(verdicts, number)

  def _record(self, verdicts: Verdicts, number: int) -> None:
    """Writes down the verdicts of one job: right on the clean image, and still right on the others."""
    eps, victim = _value(self.jobs[number]), self.number_of[number]
    arrays, rows = self.verdicts[number], verdicts["position"]
    answers = [found or {} for found in verdicts.answers]
    before = np.stack([found[0.0, 0, victim] for found in answers])
    after = [
      np.stack([found.get((eps, stop, victim), clean) for found, clean in zip(answers, before, strict=True)])
      for stop in self.stops
    ]
    clean, *said = (_predictions(logits) for logits in (before, *after))
    correct = clean == verdicts["label"]
    goal = (lambda one: one == verdicts["target"]) if self.spec.entry.targeted else lambda one: one != verdicts["label"]
    broken = np.stack([~correct | (one < 0) | goal(one) for one in said])
    self.robust_after[number][:, rows] = ~broken
    if self.reached_after is not None:
      self.reached_after[number][:, rows] = np.stack([goal(one) for one in said])
    nan = (clean < 0).astype(np.int32) + (said[-1] < 0)
    first = np.where(broken.any(0), np.array(self.stops)[broken.argmax(0)], -1)
    for name, column in (
      ("correct", correct),
      ("success", broken[-1]),
      ("robust", correct & ~broken[-1] & (nan == 0)),
      ("distance", np.where(broken[-1], 0.0, np.inf)),
      ("queries", len(self.stops)),
      ("nan", nan),
      ("label", verdicts["label"]),
      ("clean_prediction", clean),
      ("broken_at", first if len(self.stops) > 1 else -1),
    ):
      arrays[name][rows] = column
    arrays.record_logits(rows, after[-1])

  def restore(self, arrays: Arrays) -> None:
    """Takes over the arrays of a snapshot."""
    for name, array in self.state.items():
      array[:] = arrays[name]

  def finish(self, path: Path, positions: np.ndarray) -> list[Arrays]:
    """Returns the arrays of each job's cell; leaves nothing beside them."""
    del path
    found = (
      cell_arrays(verdicts, minimal=False) | self._more(number, verdicts, positions)
      for number, verdicts in enumerate(self.verdicts)
    )
    return [judged(self.jobs[0].judging, arrays, positions) for arrays in found]

  def _more(self, number: int, verdicts: VerdictArrays, positions: np.ndarray) -> Arrays:
    """Returns what cells of some attacks have beside the usual arrays."""
    more: Arrays = {"source_correct": self.source_correct}
    if self.reached_after is not None:
      more["reached"] = self.reached_after[number][-1]
    if self.fitted:
      fooled = verdicts["prediction"] != verdicts["clean_prediction"]
      return {**more, "fitted": positions < self.fitted, "fooled": fooled}
    return more | (self._after(number) if len(self.stops) > 1 else {})

  def _after(self, number: int) -> Arrays:
    """Returns what is so after each number of steps."""
    kept = {"robust": self.robust_after} | ({} if self.reached_after is None else {"reached": self.reached_after})
    return {
      f"{name}_after@{stop}": row
      for name, rows in kept.items()
      for stop, row in zip(self.stops, rows[number], strict=True)
    }


def _predictions(logits: np.ndarray) -> np.ndarray:
  """Returns the classes that are predicted; -1 for an output that is not finite."""
  return np.where(np.isfinite(logits).all(1), logits.argmax(1), -1)


def _fitted(source: ModelContext, spec: TransferSpec, job: Job) -> tuple[int, TransferSpec]:
  """Returns the number of examples that a universal perturbation was trained on, and what is made with it."""
  stage, seed = spec.entry.schedule.stages[0], job.options.seed
  attack = cast(UAP, stage.attack)
  count = min(attack.images, len(job.data) // 2)
  first = np.arange(count)
  rows = ShareSource(job.data, first, job.image_shape(), seed if spec.entry.targeted else None).take(first)
  targets = rows.targets if spec.entry.targeted else None
  with jax.default_matmul_precision(job.options.precision):
    attack = fit(attack, source.choosing(job.judging), rows.images, rows.labels, _value(job), targets, seed)
  return count, replace(spec, entry=replace(spec.entry, schedule=Cascade((replace(stage, attack=attack),))))


def _value(job: Job) -> float:
  assert job.entry.eps is not None
  return job.entry.eps.value
