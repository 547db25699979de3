"""Evaluates the networks of a study alike.

Every network gets a clean cell, PGD-20 and MM5, and a clean cell under each of the fifteen corruptions at each of five
severities, whose mean is its corruption accuracy. The noisy images are made once and shared by all networks.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from jaxrobust.data.registry import load_data
from jaxrobust.data.source import ArraySource
from jaxrobust.evaluation.conditions import under
from jaxrobust.evaluation.context import condition_of
from jaxrobust.evaluation.evaluate import evaluate
from jaxrobust.evaluation.job import RunOptions
from jaxrobust.evaluation.suites import attack_entry, clean_entry
from jaxrobust.models.zoo import load_classifier
from jaxrobust.noises.tables import BENCHMARK

RESULTS_FOLDER = "results"
SEVERITIES = (1, 2, 3, 4, 5)


@dataclasses.dataclass(frozen=True)
class EvalSpec:
  """Says on which data and with which budget networks are evaluated; `n` 0 is all examples."""

  data: str = "digits32"
  norm: str = "linf"
  eps: str = "8/255"
  n: int = 0
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
    data = load_data(spec.data)
    self.data = data.subset(spec.n) if spec.n else data
    self._noisy: dict[str, CachedSource] = {}

  def __call__(self, name: str, folder: str | Path) -> None:
    """Computes all cells of one network."""
    spec, classifier = self.spec, load_classifier(folder)
    attacks = [
      clean_entry(),
      attack_entry("pgd", spec.eps, norm=spec.norm, num_steps=20),
      attack_entry("mm5", spec.eps, norm=spec.norm),
    ]
    evaluate(classifier, self.data, attacks, name=name, out=self.out, options=self.options)
    for condition in spec.conditions:
      evaluate(classifier, self._under(condition), [clean_entry()], name=name, out=self.out, options=self.options)

  def _under(self, condition: str) -> CachedSource:
    if condition not in self._noisy:
      source = under(self.data, condition, self.options.seed)
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
