"""`evaluate`: a suite of attacks on one classifier, as cells on disk and a table."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from jaxrobust.core.classifier import Classifier
from jaxrobust.core.classifier_forms import in_dtype
from jaxrobust.core.compilation import kept_programs
from jaxrobust.core.defense import defenses_of, ways_to_ignore
from jaxrobust.core.errors import InputError
from jaxrobust.data.adapters import adapted
from jaxrobust.data.encoded import CLASSES
from jaxrobust.data.registry import FOLDER_PREFIX, load_data
from jaxrobust.data.source import DataSource, class_names_of
from jaxrobust.defenses.registry import defended_by, defenses_id
from jaxrobust.defenses.stored import load_classifier
from jaxrobust.engine.api import check_classifier
from jaxrobust.engine.options import EngineOptions
from jaxrobust.evaluation.context import ModelContext
from jaxrobust.evaluation.job import RunOptions
from jaxrobust.evaluation.preprocess import model_preprocessing, preprocessing_for, side_of
from jaxrobust.evaluation.provenance import about_model
from jaxrobust.evaluation.suite_jobs import SuiteJobs, find_jobs, measure_forward
from jaxrobust.evaluation.suites.entry import SuiteEntry
from jaxrobust.evaluation.suites.report import Report, SuiteCell
from jaxrobust.evaluation.suites.suite import (
  AUDIT,
  CASCADE,
  AuditSetting,
  CascadeSetting,
  Setting,
  attack_set,
  make_suite,
)
from jaxrobust.results import check_writable


def as_source(data: Any, num_classes: int, preprocess: str = "", n: int | None = None) -> DataSource:
  """Returns a data set by name, a source, or whatever `data.adapters` makes one of; n as there."""
  if isinstance(data, str):
    source = load_data(data, preprocess=preprocess)
    names = class_names_of(source) or ()
    if data.startswith(FOLDER_PREFIX) and len(names) < num_classes and not all(name.isdecimal() for name in names):
      # Counted among themselves, the classes would have other numbers than the network's.
      where = f"list all of them in its order in {data.removeprefix(FOLDER_PREFIX)}/{CLASSES}"
      raise InputError(f"{data} has folders of {len(names)} classes, the classifier has {num_classes}: {where}")
    return source
  if all(hasattr(data, part) for part in ("name", "num_classes", "take", "fingerprint", "subset")):
    return data
  return adapted(data, num_classes, n)


@kept_programs()
def evaluate(
  classifier: Classifier | str | Path,
  data: Any,
  suite: str | Sequence[SuiteEntry] = "basic",
  *,
  norm: str | None = None,
  eps: str | float | None = None,
  n: int | None = None,
  seed: int = 0,
  condition: str = "none",
  name: str | None = None,
  out: str | Path | None = None,
  batch_size: int | None = None,
  options: RunOptions | None = None,
  only: str | None = None,
  preprocess: str | None = None,
  partial: bool = False,
  defense: str = "",
  oblivious: str = "",
  audit: AuditSetting = AUDIT,
  cascade: CascadeSetting = CASCADE,
  transfer_from: str | Path = "",
  announce: Callable[[str], None] | None = None,
  command: Callable[[str], str] | None = None,
) -> Report:
  """Evaluates a classifier against a suite; cells that are already in `out` are not computed again.

  Args:
    classifier: a `Classifier`, or the folder of a saved one.
    data: a registered name, `npz:PATH`, a data source, (images, labels), or a data set, loader or iterator of such
      pairs or of mappings with `image` and `label` (PyTorch, Hugging Face, tf.data).
    suite: a suite's name, with options after commas (`oodrb,small`), or entries of your own.
    norm, eps: the threat model, of suites that do not fix it; linf and the usual budget by default.
    n: this many examples of each data set, in its pinned order; by default what the suite says, or all.
    seed: of all randomness.
    condition: natural noise put on the images before anything else, as `gaussian_noise-3`; none by default.
    name: of the model in cells and tables; the folder's name by default.
    out: the results folder; a temporary one by default.
    batch_size: examples worked on at once.
    options: everything else about the run; excludes batch_size and seed.
    only: of the suite's cells those whose `data/condition/attack@eps` matches this shell pattern.
    preprocess: how pictures become arrays (`resize256-crop224`); by default the suite's way, or else the network's own.
    partial: whether metrics may be built on others that are not whole.
    defense: that the classifier stands behind, as `jpeg,quality=75`, several joined by `+`; part of its name and
      fingerprint. Attacks know of it (BPDA, EOT), and the defended classifier has the last word.
    oblivious: `gradient` to follow the naive gradient through the defense, `images` to show images made on the
      classifier inside it; these cells are named apart and ranked with no others. Empty for adaptive attacks.
    audit: what the suite `audit` compares and how exactly.
    cascade: the stages of the suite `cascade`, and their order.
    transfer_from: the folder of another classifier, for suites with an attack by transfer (`robustart`).
    announce: told in lines what will run, what it will cost at the most, and which data is missing.
    command: of a cell, as `only` names it, the command line that computes it again, for its provenance.

  Example:
    >>> import numpy as np
    >>> model = Classifier.from_function(lambda x: x.mean((1, 2))[:, :2], num_classes=2)
    >>> x = np.full((4, 4, 4, 2), 0.5, np.float32); x[..., 0] += 0.01
    >>> report = evaluate(model, (x, np.zeros(4, int)), "basic", eps="8/255", options=RunOptions(quiet=True))
    >>> report.accuracies()
    {'clean': 1.0, 'linf-fgsm@8/255': 0.0, 'linf-pgd-20@8/255': 0.0}
  """
  about: dict[str, Any] = {}
  own = ""
  if not isinstance(classifier, Classifier | str | Path):
    check_classifier(classifier)
  if not isinstance(classifier, Classifier):
    folder, name = classifier, name or Path(classifier).name
    classifier = load_classifier(folder)
    about, own = about_model(folder, classifier), model_preprocessing(folder)
  if options is not None and options.dtype != "float32":
    classifier = in_dtype(classifier, options.dtype)
  if defense:
    classifier, text = defended_by(classifier, defense), name or "model"
    name = f"{text}+{defenses_id(classifier)}"
  if defenses_of(classifier):
    about = {**about, "defense": defenses_id(classifier)}
  moved = {"source": Path(transfer_from).name} if transfer_from else {}
  setting = _setting_of(data, classifier, norm, eps, condition=condition, audit=audit, cascade=cascade, **moved)
  wanted = make_suite(suite, setting) if isinstance(suite, str) else attack_set(setting, suite)
  wanted = wanted.oblivious(oblivious) if oblivious else wanted
  wanted = wanted if only is None else wanted.only(only)
  seen = preprocess or wanted.preprocess or own or preprocessing_for(classifier)
  source = as_source(data, classifier.num_classes, seen, n)
  if options is None:
    options = RunOptions(engine=EngineOptions.for_platform(batch_size), seed=seed)
  makers = {title: ModelContext(load_classifier(transfer_from)) for title in moved.values()}
  context = ModelContext(classifier, about, command, makers=makers)
  if out is None:
    with tempfile.TemporaryDirectory() as folder:
      jobs = find_jobs(wanted, context, name or "model", source, n, folder, options, seen)
      return replace(_run(jobs, name, options, announce), partial=partial)
  check_writable(out)
  jobs = find_jobs(wanted, context, name or "model", source, n, out, options, seen)
  return replace(_run(jobs, name, options, announce), partial=partial)


def _setting_of(data: Any, classifier: Classifier, norm: str | None, eps: str | float | None, **more: Any) -> Setting:
  """Returns what a suite depends on, for this classifier."""
  name = data if isinstance(data, str) else getattr(data, "name", "arrays")
  return Setting.of(name, norm, eps, side=side_of(classifier), ignorable=ways_to_ignore(classifier), **more)


def _run(jobs: SuiteJobs, name: str | None, options: RunOptions, announce: Callable[[str], None] | None) -> Report:
  if announce is not None:
    left = jobs.left
    for line in jobs.describe(measure_forward(left[0]) if left else None):
      announce(line)
  answered = zip(jobs.jobs, jobs.run(options.quiet), strict=True)
  cells = tuple(SuiteCell(job.part, job.entry, result) for job, result in answered if job.part is not None)
  return Report(name or "model", jobs.suite, cells, jobs.missing)
