"""Runs cells: skips what exists, resumes what was interrupted, writes verdicts and timings.

A run is a set of cells. Several processes share a cell by taking every P-th example each; they never wait
for one another, and whoever finishes last merges the shards.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jaxrobust.attacks.registry import attack_name
from jaxrobust.core.classifier import Classifier, check_logits
from jaxrobust.core.errors import InputError
from jaxrobust.core.progress import show
from jaxrobust.core.registry import unknown_name
from jaxrobust.data.source import DataSource
from jaxrobust.engine.api import fit_schedule
from jaxrobust.engine.options import EngineOptions
from jaxrobust.engine.scheduler import Engine
from jaxrobust.engine.snapshot import restore_snapshot, take_snapshot
from jaxrobust.engine.verdict import Examples
from jaxrobust.evaluation.provenance import provenance
from jaxrobust.evaluation.suites import Entry, schedule_config
from jaxrobust.evaluation.verdicts import VerdictBook, find_issues, summarise
from jaxrobust.models.zoo import fingerprint
from jaxrobust.results import (
  Cell,
  Result,
  find_result,
  find_shard,
  finish_shards,
  load_partial,
  load_result,
  remove_partial,
  save_partial,
  save_result,
  save_shard,
  save_timing,
  shard_path,
)

PRECISIONS = ("highest", "high", "default", "float32", "bfloat16")


@dataclass(frozen=True)
class RunOptions:
  """How cells are run; nothing here changes a verdict but `precision`, which is part of the cell's config.

  Attributes:
    engine: slots, devices, dispatch.
    seed: of all randomness.
    samples: forward passes per evaluation of a randomised classifier.
    precision: of matrix products and convolutions; float32 throughout by default, also on TPU.
    save_seconds: how often a running cell saves its partial verdicts.
    process, processes: which share of the examples this process takes.
    quiet: no progress display.
  """

  engine: EngineOptions | None = None
  seed: int = 0
  samples: int = 20
  precision: str = "highest"
  save_seconds: float = 60.0
  process: int = 0
  processes: int = 1
  quiet: bool = False

  def __post_init__(self) -> None:
    if self.precision not in PRECISIONS:
      raise unknown_name("precision", self.precision, list(PRECISIONS))
    if self.seed < 0:
      raise InputError(f"the seed must be at least 0, got {self.seed}")


@dataclass(frozen=True)
class ShareSource:
  """Every P-th example of a data source, as the engine reads it."""

  data: DataSource
  positions: np.ndarray
  image_shape: tuple[int, int, int]

  def __len__(self) -> int:
    return len(self.positions)

  def take(self, positions: np.ndarray) -> Examples:
    ids = self.positions[positions]
    images, labels = self.data.take(ids)
    return Examples(ids, images, labels, np.full(len(ids), -1))


@dataclass(frozen=True)
class Job:
  """One cell to be computed, with all that it takes."""

  classifier: Classifier
  data: DataSource
  entry: Entry
  cell: Cell
  config: dict[str, Any]
  root: Path
  options: RunOptions
  substituted: bool = False


def make_job(
  classifier: Classifier, model: str, data: DataSource, entry: Entry, root: str | Path, options: RunOptions
) -> Job:
  """The cell of an entry, and the configuration that decides its verdicts."""
  if entry.first is not None and entry.first < len(data):
    data = data.subset(entry.first)
  fitted = replace(entry, schedule=fit_schedule(entry.schedule, classifier.num_classes, False))
  eps = None if entry.eps is None else entry.eps.text
  condition = getattr(data, "condition", "clean")
  cell = Cell(
    model=model,
    data=data.name,
    condition=condition,
    attack=entry.attack,
    eps=eps,
    n=len(data),
    seed=options.seed,
  )
  config = {
    "attack": schedule_config(fitted.schedule),
    "model_fingerprint": fingerprint(classifier),
    "data_fingerprint": data.fingerprint(),
    "precision": options.precision,
    "samples": options.samples if classifier.randomised else 1,
  }
  return Job(classifier, data, fitted, cell, config, Path(root), options, fitted != entry)


def run_job(job: Job) -> Result:
  """The result of a cell: from disk if it is there, computed, resumed or merged if not."""
  stored = find_result(job.root, job.cell, job.config)
  if stored is not None:
    return stored
  if job.options.processes > 1:
    return _run_share(job)
  path = job.cell.path(job.root)
  result, timing = _compute(job, path)
  save_result(job.root, result)
  save_timing(path, timing)
  remove_partial(path)
  return result


def _run_share(job: Job) -> Result:
  """This process's shard, and the merged cell if it is the last one."""
  share, shares = job.options.process, job.options.processes
  path = shard_path(job.cell.path(job.root), share, shares)
  shard = find_shard(job.root, job.cell, job.config, share, shares)
  if shard is None:
    shard, timing = _compute(job, path)
    save_shard(job.root, shard, share, shares)
    save_timing(path, timing)
    remove_partial(path)
  merged = finish_shards(job.root, job.cell, shares, summarise)
  return shard if merged is None else load_result(merged)


def _compute(job: Job, path: Path) -> tuple[Result, dict[str, Any]]:
  options, schedule = job.options, job.entry.schedule
  positions = np.arange(options.process, job.cell.n, options.processes)
  image_shape = tuple(job.data.take(np.zeros(1, int))[0].shape[1:])
  check_logits(job.classifier, image_shape)
  eps = None if job.entry.eps is None else job.entry.eps.value
  book = VerdictBook(len(positions), schedule.minimal, eps)
  start = time.monotonic()
  with jax.default_matmul_precision(options.precision):
    engine = Engine(
      job.classifier,
      schedule,
      ShareSource(job.data, positions, image_shape),
      # A minimal attack searches without bound; the budget only decides what counts.
      eps=np.inf if eps is None or schedule.minimal else eps,
      seed=options.seed,
      samples=options.samples,
      options=options.engine,
    )
    spent = _resume(engine, book, path, job.config)
    _drive(engine, book, path, job, start - spent)
  seconds = time.monotonic() - start + spent
  examples = book.examples()
  findings = (*find_issues(examples, [attack_name(stage.attack) for stage in schedule.stages]), *_model_findings(job))
  if options.processes > 1:
    examples["index"] = positions.astype(np.int32)
  result = Result(
    cell=job.cell,
    config=job.config,
    summary=summarise(examples),
    examples=examples,
    provenance=provenance(options.precision),
    findings=findings,
  )
  return result, _timing(engine, seconds, len(positions))


def _model_findings(job: Job) -> list[dict[str, Any]]:
  """What is known before any attack: a randomised classifier, losses that had to be replaced."""
  findings = []
  if job.classifier.randomised and job.entry.attack != "none" and "rand" not in job.entry.attack:
    text = "the classifier is randomised; autoattack-rand averages its gradients"
    findings.append({"kind": "randomised", "examples": job.cell.n, "text": text})
  if job.substituted:
    text = "too few classes for DLR; plain margins stand in for it"
    findings.append({"kind": "substituted-loss", "examples": job.cell.n, "text": text})
  return findings


def _drive(engine: Engine, book: VerdictBook, path: Path, job: Job, start: float) -> None:
  """Turns the engine until nothing is left, saving its state every so often."""
  done, saved = int(book.arrays["done"].sum()), time.monotonic()
  title = f"{job.cell.model} {job.entry.title}"
  with show(title, len(engine.source), done, quiet=job.options.quiet) as meter:
    going = True
    while going:
      going = engine.turn()
      done += book.record(engine.collect())
      meter(done)
      if going and time.monotonic() - saved >= job.options.save_seconds:
        arrays, meta = take_snapshot(engine)
        arrays |= {f"book.{name}": array for name, array in book.arrays.items()}
        save_partial(path, job.config, arrays, {**meta, "seconds": time.monotonic() - start})
        saved = time.monotonic()


def _resume(engine: Engine, book: VerdictBook, path: Path, config: dict[str, Any]) -> float:
  """Puts a saved state into a fresh engine and returns the seconds already spent; 0 for a fresh start."""
  partial = load_partial(path, config)
  if partial is None:
    return 0.0
  arrays, meta = partial
  saved_book = {name: arrays[f"book.{name}"] for name in book.arrays if f"book.{name}" in arrays}
  fits = all(saved_book[name].shape == array.shape for name, array in book.arrays.items() if name in saved_book)
  if len(saved_book) != len(book.arrays) or not fits or not restore_snapshot(engine, arrays, meta):
    return 0.0
  for name, array in saved_book.items():
    book.arrays[name][:] = array
  return float(meta["seconds"])


def _timing(engine: Engine, seconds: float, count: int) -> dict[str, Any]:
  stats = engine.stats
  return {
    "seconds": seconds,
    "images_per_second": count / max(seconds, 1e-9),
    "useful_fraction": stats.useful_steps / stats.slot_steps if stats.slot_steps else None,
    "forwards": stats.forwards,
    "backwards": stats.backwards,
    "judged": stats.judged,
    "slots": engine.options.slots,
    "devices": engine.options.devices.size,
  }
