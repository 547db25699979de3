"""Runs cells: skips what exists, resumes what was interrupted, writes verdicts and timings.

A run is a set of cells. Several processes share a cell by taking every P-th example each; they never wait
for one another, and whoever finishes last merges the shards.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jaxrobust.core.errors import InputError, StoppedError
from jaxrobust.core.progress import ProgressFn, silent
from jaxrobust.core.stopping import StopRequest
from jaxrobust.engine.snapshot import restore_snapshot, take_snapshot
from jaxrobust.engine.workload import share_done
from jaxrobust.evaluation.gallery import IMAGES, merge_galleries
from jaxrobust.evaluation.job import Arrays, Job, JobRun
from jaxrobust.evaluation.measures import missing_measures, with_measures
from jaxrobust.evaluation.provenance import provenance
from jaxrobust.evaluation.timing import merge_timings, timing_of
from jaxrobust.evaluation.verdicts import find_issues, summarize
from jaxrobust.models.zoo import UNNAMED
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
from jaxrobust.results.cell import INDEX
from jaxrobust.results.shards import SUMMARY_ONLY
from jaxrobust.results.store import TIMING, timing_text

Start = Callable[[np.ndarray], JobRun]
"""Positions of examples -> a pass over them."""

SHOW_SECONDS = 1.0
_UNNAMED_HELP = "it is a function without a name; pass name= (and version=) to Classifier.from_function"
# The summary of a shard without examples, where there are more processes than examples.
_OF_NONE = {**dict.fromkeys(("n", "correct", "robust", "nan", "disagree", "queries"), 0), "robust_accuracy": None}


def find_stored(job: Job) -> Result | None:
  """Returns the result of a cell that is on disk; one without the matrices that are wanted is as good as none.

  So is that of a function without a name: nobody can say whether it is still the same function.
  """
  stored = find_result(job.root, job.cell, job.config)
  if stored is not None:
    remove_partial(job.path)  # Left by a process that was killed after it had written the cell.
  if stored is not None and not is_named(job):
    warnings.warn(f"cells of {job.cell.model!r} are computed again: {_UNNAMED_HELP}", stacklevel=1)
    return None
  return None if stored is not None and job.entry.matrices and "confidence" not in stored.summary else stored


def is_done(job: Job) -> bool:
  """Tells whether all that is asked of a cell is on disk."""
  stored = find_stored(job)
  return stored is not None and not missing_measures(job, stored)


def is_named(job: Job) -> bool:
  """Returns whether all that decides the verdicts can be told from its fingerprints."""
  source = job.config.get("transfer", {}).get("source_fingerprint", "")
  return not any(made.startswith(UNNAMED) for made in (job.config["model_fingerprint"], source))


def run_job(job: Job, progress: ProgressFn = silent) -> Result:
  """Returns the result of a cell: from disk if it is there, computed, resumed or merged if not.

  Args:
    progress: told every so often which share of the work is done.

  Raises:
    StoppedError: the process was asked to end (SIGTERM); the verdicts so far are saved.
  """
  found = find_stored(job)
  if found is None and job.kind.run is not None:
    found = job.kind.run(job, progress)
  elif found is None:
    found = run_together((job,), partial(job.kind.start, job), progress)[0]
  return with_measures(job, found, progress)


def run_together(jobs: Sequence[Job], start: Start, progress: ProgressFn = silent) -> list[Result]:
  """Returns the results of cells that one pass over the examples answers together.

  Args:
    start: positions of examples -> the pass.
  """
  with StopRequest() as stop:
    results = (_run_share if jobs[0].options.processes > 1 else _run_alone)(jobs, start, progress, stop)
  if stop.asked:
    raise _stopped("after", jobs[0], stop)
  return results


def _run_alone(jobs: Sequence[Job], start: Start, progress: ProgressFn, stop: StopRequest) -> list[Result]:
  paths = [job.path for job in jobs]
  results, timing = _compute(jobs, start, paths, progress, stop)
  for job, path, result in zip(jobs, paths, results, strict=True):
    save_timing(path, timing)  # What lies beside a cell is there before it: a cell that is there is not run again.
    save_result(job.root, result)
  remove_partial(paths[0])
  return results


def _run_share(jobs: Sequence[Job], start: Start, progress: ProgressFn, stop: StopRequest) -> list[Result]:
  """Computes this process's shards, and merges the cells if it is the last one."""
  if not all(map(is_named, jobs)):
    raise InputError(f"several processes cannot share {jobs[0].cell.model!r}: {_UNNAMED_HELP}")
  share, shares = jobs[0].options.process, jobs[0].options.processes
  paths = [shard_path(job.path, share, shares) for job in jobs]
  found = [find_shard(job.root, job.cell, job.config, share, shares) for job in jobs]
  shards = [shard for shard in found if shard is not None]
  if len(shards) < len(jobs):
    shards, timing = _compute(jobs, start, paths, progress, stop)
    for job, path, shard in zip(jobs, paths, shards, strict=True):
      save_timing(path, timing)  # What lies beside a shard is there before it, for whoever merges.
      save_shard(job.root, shard, share, shares)
    remove_partial(paths[0])
  results = []
  for job, shard in zip(jobs, shards, strict=True):
    merged = finish_shards(job.root, job.cell, shares, partial(_conclude, job), partial(_beside, job))
    results.append(shard if merged is None else load_result(merged))
  return results


def _beside(job: Job, shards: Sequence[Path]) -> dict[str, bytes | str]:
  """Returns the files beside a merged cell, from those beside its shards."""
  timing, images = merge_timings(shards, job.cell.n), merge_galleries(shards, job.options.save_images)
  found = {TIMING: timing and timing_text(timing), IMAGES: images}
  return {ending: content for ending, content in found.items() if content}


def _stopped(where: str, job: Job, stop: StopRequest) -> StoppedError:
  return stop.error(f"{where} {job.title or job.cell.id}")


def _compute(
  jobs: Sequence[Job],
  start: Start,
  paths: Sequence[Path],
  progress: ProgressFn,
  stop: StopRequest,
) -> tuple[list[Result], dict[str, Any]]:
  options = jobs[0].options
  positions = np.arange(options.process, jobs[0].cell.n, options.processes)
  found, timing = _pass_over(jobs, start, positions, paths[0], progress, stop)
  results = [make_result(job, examples, positions) for job, examples in zip(jobs, found, strict=True)]
  return results, timing


def run_some(
  job: Job, positions: np.ndarray, path: Path, keep: Callable[[Arrays], None], progress: ProgressFn = silent
) -> None:
  """Computes the verdicts of some examples of a cell, which is left to others to write.

  Args:
    path: where progress is kept meanwhile, as that of the cell in this file would be.
    keep: gets the verdicts, before the process may end because it was asked to.
  """
  with StopRequest() as stop:
    found, _ = _pass_over((job,), partial(job.kind.start, job), positions, path, progress, stop)
    keep(found[0])
    remove_partial(path)
  if stop.asked:
    raise _stopped("in", job, stop)


def _pass_over(
  jobs: Sequence[Job], start: Start, positions: np.ndarray, path: Path, progress: ProgressFn, stop: StopRequest
) -> tuple[list[Arrays], dict[str, Any]]:
  """Passes once over some examples, from saved progress if there is any; returns verdicts and times."""
  began = time.monotonic()
  with jax.default_matmul_precision(jobs[0].options.precision):
    run = start(positions)
    spent = _resume(run, path, _config(jobs)) if all(map(is_named, jobs)) else 0.0
    _drive(run, path, jobs, progress, began - spent, stop)
  seconds = time.monotonic() - began + spent
  return run.finish(path, positions), timing_of(run.engine, seconds, len(positions))


def _config(jobs: Sequence[Job]) -> dict[str, Any]:
  """Returns what decides the verdicts of a pass: saved progress of another one is not continued."""
  more = {"together": [f"{job.cell} {job.config['model_fingerprint']}" for job in jobs[1:]]} if len(jobs) > 1 else {}
  return {**jobs[0].config, **more}


def make_result(job: Job, examples: Arrays, positions: np.ndarray) -> Result:
  """Returns the verdicts of some examples of a cell as its result, or as the shard of one process."""
  summary, findings = _conclude(job, examples) if len(positions) else (dict(_OF_NONE), [])
  if job.options.processes > 1:
    examples[INDEX] = positions.astype(np.int32)
  else:
    examples = {name: array for name, array in examples.items() if not name.startswith(SUMMARY_ONLY)}
  known = {"model": dict(job.context.about)} if job.context.about else {}
  if job.context.command is not None:
    known["command"] = job.context.command(job.title)  # type: ignore[assignment]
  origin = provenance(job.options.precision) | known
  return Result(
    cell=job.cell, config=job.config, summary=summary, examples=examples, provenance=origin, findings=findings
  )


def _conclude(job: Job, examples: dict[str, np.ndarray]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
  """Returns what the verdicts add up to, and what a reader of the number must know."""
  access = [stage.attack.access for stage in job.entry.schedule.stages]
  return {**summarize(examples), **job.note}, [*find_issues(examples, access), *_model_findings(job)]


def _model_findings(job: Job) -> list[dict[str, Any]]:
  """Returns what is known before any attack: a randomized classifier, losses that had to be replaced."""
  findings = []
  if job.classifier.randomized and job.entry.attack != "none" and "rand" not in job.entry.attack:
    text = "the classifier is randomized; autoattack-rand averages its gradients"
    findings.append({"kind": "randomised", "examples": job.cell.n, "text": text})
  if job.entry.oblivious:
    text = "the attack ignores the defense: the number says nothing of how robust the model is"
    findings.append({"kind": "oblivious", "examples": job.cell.n, "text": text})
  if job.substituted:
    text = "too few classes for DLR; plain margins stand in for it"
    findings.append({"kind": "substituted-loss", "examples": job.cell.n, "text": text})
  return findings


def _drive(run: JobRun, path: Path, jobs: Sequence[Job], progress: ProgressFn, start: float, stop: StopRequest) -> None:
  """Turns the engine until nothing is left, saving its state every so often and when asked to stop."""
  shown = saved = time.monotonic()
  going = True
  while going:
    going = run.engine.turn()
    run.record(run.engine.collect())
    now = time.monotonic()
    if now - shown >= SHOW_SECONDS:
      progress(share_done(run.engine))
      shown = now
    leaving = stop.asked
    if going and (leaving or now - saved >= jobs[0].options.save_seconds):
      arrays, meta = take_snapshot(run.engine)
      save_partial(path, _config(jobs), arrays | run.state, {**meta, "seconds": time.monotonic() - start})
      saved = time.monotonic()
      if leaving:
        raise _stopped(f"at {100 * share_done(run.engine):.0f} % of", jobs[0], stop)


def _resume(run: JobRun, path: Path, config: dict[str, Any]) -> float:
  """Puts a saved state into a fresh engine and returns the seconds already spent; 0 for a fresh start."""
  found = load_partial(path, config)
  if found is None:
    return 0.0
  arrays, meta = found
  fits = all(name in arrays and arrays[name].shape == array.shape for name, array in run.state.items())
  if not fits or not restore_snapshot(run.engine, arrays, meta):
    return 0.0
  run.restore(arrays)
  return float(meta["seconds"])
