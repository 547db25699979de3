"""Transfer attacks: adversarial images made against one network, shown to others (source × target).

Images are made once per source (`transfer_job`). A universal perturbation (`uap`) is trained on the source first, on
the first examples of the data set, half of it at the most. Its cells say which examples those were (`fitted`), which
predictions changed (`fooled`), and the share of the latter among the others, the fooling rate.

A transfer cell belongs to the target: model = target, attack = `transfer:SOURCE:linf-pgd-20`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from jaxrobust.core.progress import ProgressFn, silent
from jaxrobust.data.source import DataSource
from jaxrobust.evaluation.context import ModelContext
from jaxrobust.evaluation.job import Job, RunOptions
from jaxrobust.evaluation.kinds import make_job
from jaxrobust.evaluation.runner import find_stored, run_together
from jaxrobust.evaluation.suites.entry import SuiteEntry
from jaxrobust.evaluation.transfer_job import TransferRun, TransferSpec
from jaxrobust.results import Result
from jaxrobust.results.ids import transfer_id


def transfer_jobs(
  source: str, sources: Mapping[str, ModelContext], targets: Mapping[str, ModelContext], data: DataSource,
  spec: TransferSpec, root: str | Path, options: RunOptions,
) -> list[Job]:  # fmt: skip
  """Returns the cells of one source: every target at every budget."""
  moved = replace(spec.entry, attack=transfer_id(source, spec.entry.attack))
  about = {"source": source, "source_fingerprint": sources[source].fingerprint}
  if spec.stops:
    about["stops"] = list(spec.stops)  # type: ignore[assignment]
  found = []
  for target, context in targets.items():
    for budget in spec.budgets:
      job = make_job(context, target, data, replace(moved, eps=budget), root, options)
      found.append(replace(job, config={**job.config, "transfer": about}))
  return found


def run_transfer(
  models: Mapping[str, ModelContext],
  data: DataSource,
  spec: TransferSpec | SuiteEntry,
  root: str | Path,
  options: RunOptions,
  *,
  targets: Mapping[str, ModelContext] | None = None,
  progress: ProgressFn = silent,
) -> dict[tuple[str, str, str], Result]:
  """Returns all cells by (source, target, eps); images are made only for cells that are missing.

  Args:
    models: the sources.
    targets: what the images are shown to; the sources themselves by default.
  """
  spec = spec if isinstance(spec, TransferSpec) else TransferSpec(spec)
  targets = models if targets is None else targets
  results: dict[tuple[str, str, str], Result] = {}
  for number, source in enumerate(models):
    jobs = transfer_jobs(source, models, targets, data, spec, root, options)
    stored = [find_stored(job) for job in jobs]
    missing = [job for job, result in zip(jobs, stored, strict=True) if result is None]
    fresh = iter(_run_source(models[source], spec, missing, _part(progress, number, len(models))) if missing else ())
    for job, result in zip(jobs, stored, strict=True):
      results[source, job.cell.model, str(job.cell.eps)] = result or next(fresh)
  return results


def _part(progress: ProgressFn, number: int, count: int) -> ProgressFn:
  return lambda done, text="": progress((number + done) / count, text)


def _run_source(source: ModelContext, spec: TransferSpec, jobs: list[Job], progress: ProgressFn) -> list[Result]:
  return run_together(jobs, lambda positions: TransferRun(source, spec, jobs, positions), progress)
