"""The kinds of job, and the one place where a job gets its kind.

  attack    a schedule of attacks on a classifier, or none for its clean accuracy
  sequence  the frames of perturbation sequences, none of them attacked
  by yield  a cascade, in the order that its stages alone on some examples decide (`yield_job`)
  audit     two attacks, the second on a sample of what the first leaves standing (`audit_job`)
  transfer  images made against one classifier, shown to others; of another network or of the one inside a defense
All share the runner: devices, shards, resume, stopping, verification and progress.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from jaxrobust.attacks.audit import Audit
from jaxrobust.attacks.by_yield import ByYield
from jaxrobust.attacks.schedule import needs_pool
from jaxrobust.core.classifier import Classifier
from jaxrobust.core.defense import ways_to_ignore
from jaxrobust.core.errors import InputError
from jaxrobust.data.judging import Judging, judging_of
from jaxrobust.data.source import DataSource, SequenceSource, condition_of
from jaxrobust.data.subsets import first_of, whole_of
from jaxrobust.engine.api import fit_schedule
from jaxrobust.engine.scheduler import SAMPLES
from jaxrobust.engine.starts import POOL
from jaxrobust.engine.workload import passes_to_the_end
from jaxrobust.evaluation.attack_job import ATTACK, samples_of
from jaxrobust.evaluation.audit_job import AUDIT, check_phases
from jaxrobust.evaluation.certificates import certify_config
from jaxrobust.evaluation.context import ModelContext
from jaxrobust.evaluation.job import Job, JobKind, RunOptions
from jaxrobust.evaluation.measures import find_measure
from jaxrobust.evaluation.sequence_job import SequenceRun
from jaxrobust.evaluation.suites.entry import SuiteEntry, schedule_config, threat_config
from jaxrobust.evaluation.suites.suite import Part
from jaxrobust.evaluation.targets import among
from jaxrobust.evaluation.transfer_job import TransferRun, TransferSpec
from jaxrobust.evaluation.yield_job import BY_YIELD
from jaxrobust.results import Cell

SHOWN = JobKind(
  lambda job, positions: TransferRun(job.context.maker(job.entry.source), TransferSpec(job.entry), [job], positions),
  lambda job: 1 + passes_to_the_end(job.entry.schedule)[0],
)
SEQUENCE = JobKind(SequenceRun, SequenceRun.passes, attacks=False)


def make_job(
  context: ModelContext, model: str, data: DataSource, entry: SuiteEntry, root: str | Path,
  options: RunOptions, part: Part | None = None,
) -> Job:  # fmt: skip
  """Returns the job of an entry, with the configuration that decides its verdicts."""
  elsewhere = bool(entry.source) or entry.oblivious == "images"
  kind = SEQUENCE if isinstance(data, SequenceSource) else SHOWN if elsewhere else ATTACK
  if isinstance(entry.schedule, Audit | ByYield):
    check_phases(entry, options, *(["an order by yield"] if isinstance(entry.schedule, ByYield) else []))
    phased = AUDIT if isinstance(entry.schedule, Audit) else BY_YIELD
    kind = phased if kind is ATTACK else kind
  if not kind.attacks and entry.attack != "none":
    raise InputError(f"{data.name} under {condition_of(data)} is sequences, which are not attacked: use --suite clean")
  if entry.first is not None and entry.first < len(data):
    data = first_of(data, entry.first)
  _check_classes(data, context.classifier.num_classes)
  judging = judging_of(data)
  classifier = context.choosing(judging)
  if entry.schedule.stages and (judging.accepted is not None or judging.outliers):
    raise InputError(f"{data.name} is judged by {judging.text}: it has a clean accuracy or confidence, but no attacks")
  if entry.measures:
    _check_measures(entry, classifier, kind, judging)
  if entry.targeted and kind.attacks and judging.choices is None:
    data = among(data, classifier.num_classes)
  if entry.oblivious:
    _check_oblivious(entry, context.classifier)
  fitted = replace(entry, schedule=fit_schedule(entry.schedule, classifier.num_classes, entry.targeted))
  cell = Cell(
    model=model,
    data=data.name,
    condition=condition_of(data),
    attack=entry.attack,
    eps=None if entry.eps is None else entry.eps.text,
    n=len(data),
    seed=options.seed,
  )
  config = _config(kind, context, data, fitted, options)
  return Job(kind, context, data, fitted, cell, config, Path(root), options, fitted != entry, part)


def _config(
  kind: JobKind, context: ModelContext, data: DataSource, entry: SuiteEntry, options: RunOptions
) -> dict[str, Any]:
  """Returns all that decides the verdicts of a job."""
  judging = judging_of(data)
  config: dict[str, Any] = {
    "attack": schedule_config(entry.schedule),
    "threat": threat_config(entry.schedule) if kind.attacks else None,
    "model_fingerprint": context.fingerprint,
    "data_fingerprint": data.fingerprint(),
    "precision": options.precision,
    "samples": _samples(options, entry) if context.classifier.randomized else 1,
  }
  if kind.attacks and needs_pool(entry.schedule):
    config["starts"] = whole_of(data, POOL).fingerprint()
  if entry.oblivious:
    config["oblivious"] = entry.oblivious
  if kind is SHOWN:
    made_by = context.maker(entry.source).fingerprint
    config["transfer"] = {"source": entry.source or "undefended", "source_fingerprint": made_by}
  if options.dtype != "float32":
    config["dtype"] = options.dtype
  if entry.targeted:
    config["targets"] = "random"
  if judging.text:
    config["judging"] = judging.text
  if options.certify and kind.attacks and entry.schedule.stages:
    config["certify"] = certify_config(entry.schedule, options.certify)
  return config


def _samples(options: RunOptions, entry: SuiteEntry) -> int | list[int | None]:
  """Returns passes per query and per verdict, as one number where both are the usual one."""
  samples = samples_of(options, entry)
  usual = samples in (None, SAMPLES) and options.verdict_samples == SAMPLES
  return SAMPLES if usual else [samples, options.verdict_samples]


def _check_oblivious(entry: SuiteEntry, classifier: Classifier) -> None:
  """Refuses to ignore a defense that is not there, or in which there is nothing to ignore."""
  if entry.oblivious not in ways_to_ignore(classifier):
    if "images" in ways_to_ignore(classifier):
      raise InputError("the defense's own gradient is its adaptive view: only --oblivious=images ignores it")
    raise InputError("the classifier has no defense to be oblivious of; pass --defense, or leave --oblivious out")
  if entry.oblivious == "images":
    TransferSpec(entry)  # Says what it cannot make images with.


def _check_measures(entry: SuiteEntry, classifier: Classifier, kind: JobKind, judging: Judging) -> None:
  """Refuses measures that nobody knows, and those of what has not one gradient or not one label."""
  for name in entry.measures:
    find_measure(name)
  names = " and ".join(entry.measures)
  if kind is SEQUENCE or judging.accepted is not None or judging.outliers:
    raise InputError(f"{names} can be measured of images with one label each, not of sequences or outliers")
  if classifier.randomized:
    raise InputError(f"{names} cannot be measured of a randomized classifier: it is not one function")


def _check_classes(data: DataSource, classes: int) -> None:
  """Rejects data of more classes than the classifier has; fewer are fine, because they may be some of the same."""
  if data.num_classes > classes:
    raise InputError(
      f"{data.name} has {data.num_classes} classes, labels 0 to {data.num_classes - 1};"
      f" the classifier has {classes}, 0 to {classes - 1}"
    )
