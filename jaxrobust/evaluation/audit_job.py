"""Jobs that audit: a cheap attack on all examples, a full one on a sample of those it leaves standing.

Phase one is an ordinary cell of the cheap attack, shared with whoever else asks for it. Phase two takes rounds of
survivors from an order that seed and margins fix (`metrics.audit_plan`); an example's verdict is the one it has in the
cell of the full attack, and is taken from there if that is on disk. Verdicts of phase two are kept beside that cell
(`….audited.partial.npz`), so that a run goes on where another ended: one that was stopped, or one that was content with
a wider interval. What is stored under an id does not depend on that, nor on devices or processes.

Several processes share phase one; whichever completes it makes phase two alone.

The cell holds flags of both phases (`robust_cheap`, `robust`), `audited` (place in the order of the sample, or -1),
`stratum` (0 for the survivors nearest to being broken, 1 for the others, -1 for no survivor), and in its summary what
the sample says: `robust_accuracy` is an estimate, `robust` counts those that nothing has broken yet.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from jaxrobust.attacks.audit import Audit
from jaxrobust.attacks.schedule import Cascade, needs_pool
from jaxrobust.core.errors import InputError
from jaxrobust.core.progress import ProgressFn
from jaxrobust.engine.memory import default_slots
from jaxrobust.engine.options import EngineOptions
from jaxrobust.engine.workload import passes_to_the_end
from jaxrobust.evaluation.attack_job import ATTACK, AttackRun
from jaxrobust.evaluation.job import Arrays, Job, JobKind, RunOptions
from jaxrobust.evaluation.metrics.audit import ALPHA_LOW, ALPHA_UP
from jaxrobust.evaluation.metrics.audit_plan import Sample, audit, stratify
from jaxrobust.evaluation.runner import find_stored, is_named, make_result, run_job, run_some
from jaxrobust.evaluation.suites.entry import SuiteEntry, schedule_config, schedule_id
from jaxrobust.results import Result, load_partial, save_partial, save_result
from jaxrobust.results.cell import INDEX
from jaxrobust.results.shards import SUMMARY_ONLY
from jaxrobust.results.store import sibling

# Where the verdicts of phase two are kept, beside the cell of the full attack.
AUDITED = ".audited.json"
# The share of the work that phase one counts for on the display.
_CHEAP = 0.2
_ADDED, _TAKEN = ("queries", "flat"), ("prediction", "confidence", "broken_at")
_EITHER = ("nan", "disagree")


def check_phases(entry: SuiteEntry, options: RunOptions, what: str = "an audit") -> None:
  """Refuses what the cells of each phase would need names or numbers of their own for."""
  if options.certify:
    raise InputError(f"{what} takes no certificates: leave certify out, or run the full attack")
  if entry.oblivious or entry.targeted:
    raise InputError(f"{what} is of adaptive, untargeted attacks")


def run_audit(job: Job, progress: ProgressFn) -> Result:
  """Returns the result of an audit; that of phase one's shard while other processes are still at it."""
  schedule = _schedule(job)
  cheap = run_job(phase(job, schedule.cheap), lambda done, text="": progress(_CHEAP * done, text))
  if INDEX in cheap.examples:
    return cheap
  standing = np.flatnonzero(cheap.examples["robust"])
  scores = nearness(cheap.examples)[standing]
  known = KnownVerdicts.load(phase(job, schedule.full))
  spent = int(cheap.examples["queries"].sum(dtype=np.int64))

  def enough(sample: Sample) -> bool:
    low, high, _ = sample.bounds
    most = schedule.evaluations and spent + known.queries(standing[sample.drawn]) >= schedule.evaluations
    done = 50 * (high - low) / job.cell.n
    progress(_CHEAP + (1 - _CHEAP) * min(schedule.width / max(done, 1e-9), 1.0) ** 2)
    return done <= schedule.width or bool(most)

  broken = lambda places: ~known.fill(standing[places])["robust"]
  sample = audit(standing, scores, job.options.seed, enough, broken)
  examples = merge_phases(cheap.examples, known, standing, scores, sample, len(schedule.cheap.stages))
  made = make_result(alone(job), examples, np.arange(job.cell.n))
  told = conclude(job, made, sample, schedule, spent)
  result = replace(made, summary={**made.summary, **told}, findings=made.findings)
  save_result(job.root, result)
  return result


def phase(job: Job, schedule: Cascade) -> Job:
  """Returns the ordinary job of one of the attacks; no suite asks for it, so that its command is that of the whole."""
  entry = replace(job.entry, schedule=schedule, attack=schedule_id(schedule))
  cell, config = replace(job.cell, attack=entry.attack), {**job.config, "attack": schedule_config(schedule)}
  if not needs_pool(schedule):
    config.pop("starts", None)
  return replace(job, kind=ATTACK, entry=entry, cell=cell, config=config, part=None)


def nearness(examples: Mapping[str, np.ndarray]) -> np.ndarray:
  """Returns how near each example came to being broken; cells of earlier versions tell it by confidence alone."""
  return examples["margin"] if "margin" in examples else -examples["confidence"]


def _schedule(job: Job) -> Audit:
  assert isinstance(job.entry.schedule, Audit)
  return job.entry.schedule


def alone(job: Job) -> Job:
  """Returns the job as one process does it by itself, without images."""
  return replace(job, options=replace(job.options, process=0, processes=1, save_images=0))


def _sized(job: Job, count: int) -> Job:
  """Returns the job with slots for about so many examples, by powers of two: rounds then share compiled programs."""
  layout = job.options.engine or EngineOptions.for_platform()
  most = default_slots(layout, job.image_shape()) if layout.slots is None else layout.slots
  devices = layout.devices.size
  slots = min(most, devices * 2 ** math.ceil(math.log2(max(count / devices, 1))))
  return replace(job, options=replace(job.options, engine=replace(layout, slots=slots, shrink=False)))


@dataclass
class KnownVerdicts:
  """Keeps verdicts of the full attack on some examples.

  Attributes:
    job: of the full attack.
    path: where they are kept.
    arrays: of its cell; those of examples without a verdict mean nothing.
    there: which examples have one.
  """

  job: Job
  path: Path
  arrays: Arrays = field(default_factory=dict)
  there: np.ndarray = field(default_factory=lambda: np.zeros(0, bool))

  @classmethod
  def load(cls, job: Job) -> KnownVerdicts:
    """Returns those of the cell, if it is on disk, or else those of earlier audits."""
    known = cls(alone(job), sibling(job.path, AUDITED), there=np.zeros(job.cell.n, bool))
    whole = find_stored(job)
    if whole is not None:
      return replace(known, arrays=dict(whole.examples), there=np.ones(job.cell.n, bool))
    found = load_partial(known.path, job.config) if is_named(job) else None
    if found is not None and all(len(array) == job.cell.n for array in found[0].values()):
      arrays, _ = found
      known = replace(known, there=arrays.pop("there"), arrays=arrays)
    return known

  def fill(self, positions: np.ndarray) -> Arrays:
    """Returns the verdicts at some positions, after computing those that are missing."""
    missing = np.sort(positions[~self.there[positions]])
    if len(missing):
      path = self.path.with_name(f"round-{self.path.name}")
      run_some(_sized(self.job, len(missing)), missing, path, functools.partial(self._keep, missing))
    return {name: array[positions] for name, array in self.arrays.items()}

  def _keep(self, positions: np.ndarray, found: Arrays) -> None:
    for name, array in found.items():
      if not name.startswith(SUMMARY_ONLY):
        self.arrays.setdefault(name, np.zeros(len(self.there), array.dtype))[positions] = array
    self.there[positions] = True
    if is_named(self.job):
      save_partial(self.path, self.job.config, {**self.arrays, "there": self.there}, {})

  def queries(self, positions: np.ndarray) -> int:
    """Counts the forward passes at some positions that have verdicts."""
    return int(self.arrays["queries"][positions].sum(dtype=np.int64)) if len(positions) else 0


def merge_phases(
  cheap: Mapping[str, np.ndarray], known: KnownVerdicts, standing: np.ndarray, scores: np.ndarray, sample: Sample,
  stages: int,
) -> Arrays:  # fmt: skip
  """Returns the arrays of an audit's cell.

  Args:
    cheap: arrays of phase one.
    known: verdicts of phase two.
    standing: positions of the survivors of phase one. scores: how near each was to being broken.
    sample: of the survivors.
    stages: of phase one; those of phase two are counted from there.
  """
  found = {name: array.copy() for name, array in cheap.items()}
  found["robust_cheap"] = cheap["robust"].copy()
  for name in ("audited", "stratum"):
    found[name] = np.full(len(cheap["robust"]), -1, np.int32)
  found["stratum"][standing] = stratify(scores)
  drawn = standing[sample.drawn]
  if not len(drawn):
    return found
  found["audited"][drawn] = np.arange(len(drawn))
  full = {name: array[drawn] for name, array in known.arrays.items()}
  found["robust"][drawn] = full["robust"]
  for name in _ADDED:
    found[name][drawn] += full[name]
  for name in _EITHER:
    found[name][drawn] |= full[name]
  for name in _TAKEN:
    found[name][drawn] = full[name]
  if "margin" in found and "margin" in full:
    found["margin"][drawn] = np.fmax(found["margin"][drawn], full["margin"])
  found["stage"][drawn] = np.where(full["stage"] < 0, -1, full["stage"] + stages)
  return found


def conclude(job: Job, made: Result, sample: Sample, schedule: Audit, spent: int) -> dict[str, Any]:
  """Returns what the sample says of the accuracy under both attacks."""
  n, standing = job.cell.n, sum(one.size for one in sample.strata)
  low, high, _ = sample.bounds
  total = int(made.examples["queries"].sum(dtype=np.int64))
  # What is left would cost at the most, and on robust networks nearly always does, all stages.
  left = (standing - len(sample.drawn)) * sum(_queries_of(schedule.full))
  return {
    "robust_accuracy": (standing - sample.estimate) / n,
    "audit": {
      "low": (standing - high) / n,
      "high": (standing - low) / n,
      "confidence": 1 - ALPHA_UP - ALPHA_LOW,
      "survivors": standing,
      "audited": len(sample.drawn),
      "missed": sum(one.missed for one in sample.strata),
      "strata": [list(one) for one in sample.strata],
      "method": "prior-posterior ratio, two strata by margin, without replacement, valid at any stopping time",
      "queries_cheap": spent,
      "queries_left": left,
      "share_of_queries": total / (total + left) if total + left else 1.0,
    },
  }


def _queries_of(cascade: Cascade) -> list[int]:
  """Returns the forward passes of each stage on an example that stands to the end."""
  return [getattr(stage.attack, "queries", None) or stage.attack.num_steps for stage in cascade.stages]


AUDIT = JobKind(AttackRun, lambda job: 1 + passes_to_the_end(job.entry.schedule)[0], run=run_audit)
