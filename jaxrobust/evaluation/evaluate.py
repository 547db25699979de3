"""`evaluate`: a suite of attacks on one classifier, as cells on disk and a table."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from jaxrobust.core.classifier import Classifier
from jaxrobust.core.validation import check_images
from jaxrobust.data.registry import load_data
from jaxrobust.data.source import ArraySource, DataSource
from jaxrobust.engine.options import EngineOptions
from jaxrobust.evaluation.conditions import under
from jaxrobust.evaluation.runner import RunOptions, make_job, run_job
from jaxrobust.evaluation.suites import Entry, make_suite
from jaxrobust.models.zoo import load_classifier
from jaxrobust.results import Result, check_writable


@dataclass(frozen=True)
class Report:
  """Results of one classifier, in the order of the suite."""

  model: str
  titles: tuple[str, ...]
  results: tuple[Result, ...]

  def rows(self) -> list[dict[str, Any]]:
    """One plain row per cell."""
    return [
      {"model": self.model, "attack": title, **result.summary, "findings": list(result.findings)}
      for title, result in zip(self.titles, self.results, strict=True)
    ]

  def accuracies(self) -> dict[str, float]:
    """Clean accuracy under "clean", robust accuracy under each attack's id."""
    return {title: result.summary["robust_accuracy"] for title, result in zip(self.titles, self.results, strict=True)}


def as_source(data: str | DataSource | tuple[np.ndarray, np.ndarray], num_classes: int) -> DataSource:
  """A data set by name, a source, or plain arrays (images, labels)."""
  if isinstance(data, str):
    return load_data(data)
  if isinstance(data, tuple):
    images, labels = data
    check_images(images, labels, num_classes)
    return ArraySource("arrays", np.asarray(images, np.float32), np.asarray(labels), num_classes)
  return data


def evaluate(
  classifier: Classifier | str | Path,
  data: str | DataSource | tuple[np.ndarray, np.ndarray],
  suite: str | Sequence[Entry] = "basic",
  *,
  norm: str = "linf",
  eps: str | float = "8/255",
  n: int | None = None,
  seed: int = 0,
  condition: str = "none",
  name: str | None = None,
  out: str | Path | None = None,
  batch_size: int | None = None,
  options: RunOptions | None = None,
) -> Report:
  """Evaluates a classifier against a suite; cells that are already in `out` are not computed again.

  Args:
    classifier: a `Classifier`, or the folder of a saved one.
    data: a registered name, `npz:PATH`, a data source, or (images, labels).
    suite: a suite's name, or entries of your own.
    norm, eps: the threat model of a named suite.
    n: the first n examples; all by default.
    seed: of all randomness.
    condition: natural noise put on the images before anything else, as `gaussian_noise-3`; none by default.
    name: of the model in cells and tables; the folder's name by default.
    out: the results folder; a temporary one by default.
    batch_size: examples worked on at once.
    options: everything else about the run; excludes batch_size and seed.

  Example:
    >>> import jax.numpy as jnp
    >>> model = Classifier.from_function(lambda x: x.mean((1, 2))[:, :2], num_classes=2)
    >>> x = np.full((4, 4, 4, 2), 0.5, np.float32); x[..., 0] += 0.01
    >>> report = evaluate(model, (x, np.zeros(4, int)), "basic", eps="8/255", options=RunOptions(quiet=True))
    >>> report.accuracies()
    {'clean': 1.0, 'linf-fgsm@8/255': 0.0, 'linf-pgd-20@8/255': 0.0}
  """
  if not isinstance(classifier, Classifier):
    name = name or Path(classifier).name
    classifier = load_classifier(classifier)
  source = as_source(data, classifier.num_classes)
  if n is not None:
    source = source.subset(n)
  source = under(source, condition, seed if options is None else options.seed)
  entries = make_suite(suite, norm, eps) if isinstance(suite, str) else list(suite)
  if options is None:
    options = RunOptions(engine=EngineOptions.for_platform(batch_size), seed=seed)
  if out is None:
    with tempfile.TemporaryDirectory() as folder:
      return _run(classifier, name or "model", source, entries, folder, options)
  check_writable(out)
  return _run(classifier, name or "model", source, entries, out, options)


def _run(
  classifier: Classifier,
  name: str,
  source: DataSource,
  entries: Sequence[Entry],
  root: str | Path,
  options: RunOptions,
) -> Report:
  results = [run_job(make_job(classifier, name, source, entry, root, options)) for entry in entries]
  return Report(name, tuple(entry.title for entry in entries), tuple(results))
