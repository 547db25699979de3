"""Runs cells: skips what exists, resumes what was interrupted, writes verdicts and timings.

A run is a set of cells. Several processes share a cell by taking every P-th example each; they never wait
for one another, and whoever finishes last merges the shards.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

import jax
import numpy as np

from jaxrobust.attacks.registry import attack_name
from jaxrobust.core.classifier import check_logits
from jaxrobust.core.errors import StoppedError
from jaxrobust.core.progress import Tell, silent
from jaxrobust.core.stopping import StopRequest
from jaxrobust.engine.scheduler import Engine
from jaxrobust.engine.snapshot import restore_snapshot, take_snapshot
from jaxrobust.engine.workload import share_done
from jaxrobust.evaluation.gallery import IMAGES, Gallery, merge_galleries
from jaxrobust.evaluation.job import Job, RunOptions, ShareSource, make_job
from jaxrobust.evaluation.provenance import provenance
from jaxrobust.evaluation.sequences import SequenceSource, flips_per_sequence
from jaxrobust.evaluation.timing import merge_timings, timing_of
from jaxrobust.evaluation.verdicts import VerdictBook, find_issues, summarise
from jaxrobust.results import (
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
from jaxrobust.results.shards import SUMMARY_ONLY
from jaxrobust.results.store import TIMING, timing_text

__all__ = ["Job", "RunOptions", "find_stored", "make_job", "make_result", "run_job"]

TELL_SECONDS = 1.0
# The summary of a shard without examples, where there are more processes than examples.
_OF_NONE = {**dict.fromkeys(("n", "correct", "robust", "nan", "disagree", "queries"), 0), "robust_accuracy": None}


def find_stored(job: Job) -> Result | None:
  """The result of a cell that is on disk; one without the matrices that are wanted is as good as none."""
  stored = find_result(job.root, job.cell, job.config)
  return None if stored is not None and job.entry.matrices and "confidence" not in stored.summary else stored


def run_job(job: Job, tell: Tell = silent) -> Result:
  """The result of a cell: from disk if it is there, computed, resumed or merged if not.

  Args:
    tell: told every so often which share of the work is done.

  Raises:
    StoppedError: the process was asked to end (SIGTERM); the verdicts so far are saved.
  """
  stored = find_stored(job)
  if stored is not None:
    return stored
  with StopRequest() as stop:
    result = (_run_share if job.options.processes > 1 else _run_alone)(job, tell, stop)
  if stop.asked:
    raise _stopped("after", job)
  return result


def _run_alone(job: Job, tell: Tell, stop: StopRequest) -> Result:
  path = job.cell.path(job.root)
  result, timing = _compute(job, path, tell, stop)
  save_result(job.root, result)
  save_timing(path, timing)
  remove_partial(path)
  return result


def _run_share(job: Job, tell: Tell, stop: StopRequest) -> Result:
  """This process's shard, and the merged cell if it is the last one."""
  share, shares = job.options.process, job.options.processes
  path = shard_path(job.cell.path(job.root), share, shares)
  shard = find_shard(job.root, job.cell, job.config, share, shares)
  if shard is None:
    shard, timing = _compute(job, path, tell, stop)
    save_timing(path, timing)  # What lies beside a shard is there before it, for whoever merges.
    save_shard(job.root, shard, share, shares)
    remove_partial(path)
  merged = finish_shards(job.root, job.cell, shares, partial(_conclude, job), partial(_beside, job))
  return shard if merged is None else load_result(merged)


def _beside(job: Job, shards: Sequence[Path]) -> dict[str, bytes | str]:
  """The files beside a merged cell, from those beside its shards."""
  timing, images = merge_timings(shards, job.cell.n), merge_galleries(shards, job.options.save_images)
  found = {TIMING: timing and timing_text(timing), IMAGES: images}
  return {ending: content for ending, content in found.items() if content}


def _stopped(where: str, job: Job) -> StoppedError:
  return StoppedError(f"asked to stop {where} {job.title or job.cell.id}; run the same command to go on")


def _compute(job: Job, path: Path, tell: Tell, stop: StopRequest) -> tuple[Result, dict[str, Any]]:
  options, schedule = job.options, job.entry.schedule
  positions = np.arange(options.process, job.cell.n, options.processes)
  data = job.shared.keep(job.data)
  image_shape = tuple(data.take(np.zeros(1, int))[0].shape[1:])
  check_logits(job.classifier, image_shape)
  eps = None if job.entry.eps is None else job.entry.eps.value
  framed = isinstance(job.data, SequenceSource)
  book = VerdictBook(len(positions), schedule.minimal, eps, 0 if framed else job.classes)
  gallery = Gallery(options.save_images, book.eps)
  start = time.monotonic()
  if framed:
    _look_at_frames(job, book, positions, tell, stop)
    seconds = time.monotonic() - start
    return make_result(job, book, positions), {"seconds": seconds, "images_per_second": len(positions) / seconds}
  with jax.default_matmul_precision(options.precision):
    engine = Engine(
      job.classifier,
      schedule,
      ShareSource(data, positions, image_shape, options.seed if job.entry.targeted else None),
      # A minimal attack searches without bound; the budget only decides what counts.
      eps=np.inf if eps is None or schedule.minimal else eps,
      seed=options.seed,
      targeted=job.entry.targeted,
      samples=options.samples,
      options=options.engine,
      clean=job.shared.clean(job.data, str(options)),
    )
    spent = _resume(engine, book, gallery, path, job.config)
    _drive(engine, book, gallery, path, job, tell, start - spent, stop)
  seconds = time.monotonic() - start + spent
  if len(gallery.positions):
    rows = gallery.positions
    about = {name: book.arrays[name][rows] for name in ("label", "prediction")}
    gallery.save(path, job.data.take(positions[rows])[0], **about, index=positions[rows])
  return make_result(job, book, positions), timing_of(engine, seconds, len(positions))


def _look_at_frames(job: Job, book: VerdictBook, positions: np.ndarray, tell: Tell, stop: StopRequest) -> None:
  """The verdicts on perturbation sequences, which no attack is made on."""
  data = cast(SequenceSource, job.data)
  labels = data.take(positions)[1]
  arrays, step = book.arrays, 64
  arrays["flips"] = np.zeros(len(positions), np.float32)
  for start in range(0, len(positions), step):
    rows = np.arange(start, min(start + step, len(positions)))
    if stop.asked:
      raise _stopped("inside", job)
    with jax.default_matmul_precision(job.options.precision):
      predictions = data.predictions(job.classifier, positions[rows])
    right = predictions == labels[rows, None]
    arrays["label"][rows] = labels[rows]
    arrays["clean_prediction"][rows] = arrays["prediction"][rows] = predictions[:, 0]
    arrays["correct"][rows], arrays["robust"][rows] = right[:, 0], right.all(1)
    arrays["nan"][rows] = (predictions < 0).any(1)
    arrays["flips"][rows] = flips_per_sequence(data.sequence.name, predictions)
    tell((int(rows[-1]) + 1) / len(positions))


def make_result(job: Job, book: VerdictBook, positions: np.ndarray) -> Result:
  """The verdicts of some examples of a cell as its result, or as the shard of one process."""
  examples = book.examples()
  summary, findings = _conclude(job, examples) if len(positions) else (dict(_OF_NONE), [])
  if job.options.processes > 1:
    examples["index"] = positions.astype(np.int32)
  else:
    examples = {name: array for name, array in examples.items() if not name.startswith(SUMMARY_ONLY)}
  known = {"model": dict(job.shared.about)} if job.shared.about else {}
  if job.shared.command is not None:
    known["command"] = job.shared.command(job.title)  # type: ignore[assignment]
  origin = provenance(job.options.precision) | known
  return Result(
    cell=job.cell, config=job.config, summary=summary, examples=examples, provenance=origin, findings=findings
  )


def _conclude(job: Job, examples: dict[str, np.ndarray]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
  """What the verdicts add up to, and what a reader of the number must know."""
  stages = [attack_name(stage.attack) for stage in job.entry.schedule.stages]
  return summarise(examples), [*find_issues(examples, stages), *_model_findings(job)]


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


def _drive(
  engine: Engine,
  book: VerdictBook,
  gallery: Gallery,
  path: Path,
  job: Job,
  tell: Tell,
  start: float,
  stop: StopRequest,
) -> None:
  """Turns the engine until nothing is left, saving its state every so often and when asked to stop."""
  told = saved = time.monotonic()
  going = True
  while going:
    going = engine.turn()
    verdicts = engine.collect()
    gallery.record(verdicts)
    book.record(verdicts)
    now = time.monotonic()
    if now - told >= TELL_SECONDS:
      tell(share_done(engine))
      told = now
    leaving = stop.asked
    if going and (leaving or now - saved >= job.options.save_seconds):
      arrays, meta = take_snapshot(engine)
      arrays |= {f"book.{name}": array for name, array in book.arrays.items()} | gallery.arrays()
      save_partial(path, job.config, arrays, {**meta, "seconds": time.monotonic() - start})
      saved = time.monotonic()
      if leaving:
        raise _stopped(f"at {100 * share_done(engine):.0f} % of", job)


def _resume(engine: Engine, book: VerdictBook, gallery: Gallery, path: Path, config: dict[str, Any]) -> float:
  """Puts a saved state into a fresh engine and returns the seconds already spent; 0 for a fresh start."""
  found = load_partial(path, config)
  if found is None:
    return 0.0
  arrays, meta = found
  saved_book = {name: arrays[f"book.{name}"] for name in book.arrays if f"book.{name}" in arrays}
  fits = all(saved_book[name].shape == array.shape for name, array in book.arrays.items() if name in saved_book)
  if len(saved_book) != len(book.arrays) or not fits or not restore_snapshot(engine, arrays, meta):
    return 0.0
  for name, array in saved_book.items():
    book.arrays[name][:] = array
  gallery.restore(arrays)
  return float(meta["seconds"])
