"""Evaluates the networks of a study alike.

A study of a paper is judged by the paper's own suites, with the data sets, stored corruptions, budgets and numbers of
examples that they have; each network gets its cells and the summaries of their metrics. Any other study: a clean cell,
PGD-20 and MM5, and a clean cell under each of the fifteen corruptions at each of five severities, whose mean is its
corruption accuracy. Noisy images that several networks share are kept up to a gigabyte, and made again beyond that.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

import numpy as np

from jaxrobust.data.registry import load_data
from jaxrobust.data.source import ArraySource, DataSource, condition_of
from jaxrobust.defenses.stored import load_classifier
from jaxrobust.evaluation.conditions import under
from jaxrobust.evaluation.context import LARGEST_KEPT
from jaxrobust.evaluation.evaluate import evaluate
from jaxrobust.evaluation.job import RunOptions
from jaxrobust.evaluation.suites import attack_entry, clean_entry
from jaxrobust.evaluation.suites.summary import summarize_suite, write_summary
from jaxrobust.noises.tables import BENCHMARK

RESULTS_FOLDER = "results"
SEVERITIES = (1, 2, 3, 4, 5)


@dataclasses.dataclass(frozen=True)
class EvalSpec:
  """Says on which data and with which budget networks are evaluated; `n` 0 is all examples.

  Attributes:
    suite: by which they are judged, with its own budgets and numbers of examples, several joined by `+`; empty for the
      set described above.
  """

  data: str = "digits32"
  norm: str = "linf"
  eps: str = "8/255"
  n: int = 0
  suite: str = ""
  corruptions: tuple[str, ...] = BENCHMARK
  severities: tuple[int, ...] = SEVERITIES

  @property
  def conditions(self) -> Iterator[str]:
    return (f"{name}-{severity}" for name in self.corruptions for severity in self.severities)


@dataclasses.dataclass(frozen=True, eq=False)
class CachedSource(ArraySource):
  """Holds a data set under a condition as the bytes it consists of."""

  condition: str = "clean"
  original: str = ""

  def fingerprint(self) -> str:
    return self.original


class StudyEvaluator:
  """Evaluates networks into one results folder; noisy images are kept between networks."""

  def __init__(self, spec: EvalSpec, out: str | Path, options: RunOptions):
    self.spec, self.out, self.options = spec, Path(out) / RESULTS_FOLDER, options
    self._noisy: dict[str, CachedSource] = {}

  @cached_property
  def data(self) -> DataSource:
    data = load_data(self.spec.data)
    return data.subset(self.spec.n) if self.spec.n else data

  def __call__(self, name: str, folder: str | Path) -> None:
    """Computes all cells of one network."""
    spec = self.spec
    if spec.suite:
      for suite in spec.suite.split("+"):
        self._by_suite(suite, name, folder)
      return
    classifier = load_classifier(folder)
    attacks = [
      clean_entry(),
      attack_entry("pgd", spec.eps, norm=spec.norm, num_steps=20),
      attack_entry("mm5", spec.eps, norm=spec.norm),
    ]
    evaluate(classifier, self.data, attacks, name=name, out=self.out, options=self.options)
    for condition in spec.conditions:
      evaluate(classifier, self._under(condition), [clean_entry()], name=name, out=self.out, options=self.options)

  def _by_suite(self, suite: str, name: str, folder: str | Path) -> None:
    spec = self.spec
    # Of the suites, only this one leaves the norm open.
    norm = spec.norm if suite.startswith("oodrb") else None
    report = evaluate(
      folder, spec.data, suite, norm=norm, n=spec.n or None, name=name, out=self.out, options=self.options
    )
    write_summary(self.out, report, summarize_suite(report))

  def _under(self, condition: str) -> DataSource:
    if condition not in self._noisy:
      source = under(self.data, condition, self.options.seed)
      size = len(source) * int(np.prod(source.take(np.zeros(1, int))[0].shape[1:]))
      if sum(kept.images.nbytes for kept in self._noisy.values()) + size > LARGEST_KEPT:
        return source
      images, labels = source.take(np.arange(len(source)))
      # Corrupted images have 256 gray levels: nothing is lost.
      self._noisy[condition] = CachedSource(
        source.name,
        np.round(images * 255).astype(np.uint8),
        labels,
        source.num_classes,
        condition=condition_of(source),
        original=source.fingerprint(),
      )
    return self._noisy[condition]
