"""Jobs that attack: a schedule of attacks on the examples of a data set, or none for the clean accuracy."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from jaxrobust.certify.first import CertifyFirst
from jaxrobust.data.source import DataSource, class_names_of
from jaxrobust.data.subsets import whole_of
from jaxrobust.engine.api import search_eps
from jaxrobust.engine.scheduler import Engine
from jaxrobust.engine.table import Verdicts
from jaxrobust.engine.verdicts import VerdictArrays
from jaxrobust.engine.workload import passes_to_the_end
from jaxrobust.evaluation.certificates import certified_arrays, proved_radii_of
from jaxrobust.evaluation.gallery import Gallery, class_names
from jaxrobust.evaluation.job import Arrays, Job, JobKind, RunOptions, ShareSource
from jaxrobust.evaluation.judged import judged
from jaxrobust.evaluation.suites.entry import SuiteEntry
from jaxrobust.evaluation.verdicts import cell_arrays


class AttackRun:
  """Runs a schedule of attacks on the examples at some positions."""

  def __init__(self, job: Job, positions: np.ndarray):
    options, entry, shape = job.options, job.entry, job.image_shape()
    data = job.context.keep(job.data)
    eps = None if entry.eps is None else entry.eps.value
    self.verdicts = VerdictArrays(len(positions), eps, len(entry.strengths), job.classes)
    self.gallery = Gallery(options.save_images, self.verdicts.eps)
    self.job = job
    source = ShareSource(data, positions, shape, options.seed if entry.targeted else None)
    self.radii = proved_radii_of(job, source)
    schedule = entry.schedule if self.radii is None else CertifyFirst(entry.schedule, tuple(self.radii.tolist()))
    self.engine = Engine(
      job.classifier.naive if entry.oblivious == "gradient" else job.classifier,
      schedule,
      source,
      eps=search_eps(entry.schedule, eps),
      seed=options.seed,
      targeted=entry.targeted,
      samples=samples_of(options, entry),
      verdict_samples=options.verdict_samples,
      options=options.engine,
      clean=job.context.clean(job.data, str(options)),
      wants_image=self.gallery.wants if options.save_images else None,
      budgets=[budget.value for budget in entry.strengths],
      start_pool=start_pool(job.data, shape),
    )

  @property
  def state(self) -> Arrays:
    return self.verdicts.state() | self.gallery.arrays()

  def record(self, verdicts: Verdicts) -> None:
    """Writes verdicts down, and keeps some images."""
    self.gallery.record(verdicts)
    self.verdicts.record(verdicts)

  def restore(self, arrays: Arrays) -> None:
    """Takes over the arrays of a snapshot."""
    self.verdicts.restore(arrays)
    self.gallery.restore(arrays)

  def finish(self, path: Path, positions: np.ndarray) -> list[Arrays]:
    """Saves the images that were kept beside the cell, and returns the cell's arrays."""
    rows, entry = self.gallery.positions, self.job.entry
    if len(rows):
      about = {name: self.job.judging.class_of(self.verdicts[name][rows]) for name in ("label", "prediction")}
      about |= class_names(class_names_of(self.job.data), **about)
      about |= {"distance": self.verdicts["distance"][rows], "index": positions[rows]}
      self.gallery.save(path, self.job.data.take(positions[rows])[0], **about)
    minimal, strengths = entry.schedule.minimal, [budget.text for budget in entry.strengths]
    arrays = cell_arrays(self.verdicts, minimal, strengths, bool(entry.schedule.stages) and not minimal)
    if self.radii is not None:
      arrays |= certified_arrays(arrays, self.radii, entry.eps)
    return [judged(self.job.judging, arrays, positions)]


def samples_of(options: RunOptions, entry: SuiteEntry) -> int | None:
  """Returns passes per query; a naive gradient is that of one draw."""
  return 1 if entry.oblivious == "gradient" and options.samples is None else options.samples


def start_pool(data: DataSource, shape: tuple[int, int, int]) -> ShareSource:
  """Returns the whole data set, which attacks choose starting points and other images from, however few they attack."""
  whole = whole_of(data)
  return ShareSource(whole, np.arange(len(whole)), shape)


ATTACK = JobKind(AttackRun, lambda job: 1 + passes_to_the_end(job.entry.schedule)[0])
