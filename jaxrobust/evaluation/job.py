"""One cell as a job: what decides it, which examples of it this process takes, and how it is run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from jaxrobust.core.classifier import Classifier
from jaxrobust.core.errors import InputError
from jaxrobust.core.keys import check_seed
from jaxrobust.data.source import DataSource
from jaxrobust.engine.api import fit_schedule
from jaxrobust.engine.options import EngineOptions, check_precision, check_samples
from jaxrobust.engine.verdict import Examples
from jaxrobust.evaluation.confidence import ALWAYS_CLASSES
from jaxrobust.evaluation.sequences import SequenceSource
from jaxrobust.evaluation.shared import Shared
from jaxrobust.evaluation.suites import Entry, schedule_config
from jaxrobust.evaluation.targets import among, random_targets
from jaxrobust.results import Cell


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
    save_images: how many adversarial images to keep beside each cell that is computed.
  """

  engine: EngineOptions | None = None
  seed: int = 0
  samples: int = 20
  precision: str = "highest"
  save_seconds: float = 60.0
  process: int = 0
  processes: int = 1
  quiet: bool = False
  save_images: int = 0

  def __post_init__(self) -> None:
    check_precision(self.precision)
    check_samples(self.samples)
    check_seed(self.seed)


@dataclass(frozen=True)
class ShareSource:
  """Every P-th example of a data source, as the engine reads it; with random targets if there is a seed for them."""

  data: DataSource
  positions: np.ndarray
  image_shape: tuple[int, int, int]
  target_seed: int | None = None

  def __len__(self) -> int:
    return len(self.positions)

  def take(self, positions: np.ndarray) -> Examples:
    ids = self.positions[positions]
    images, labels = self.data.take(ids)
    if self.target_seed is None:
      return Examples(ids, images, labels, np.full(len(ids), -1))
    return Examples(ids, images, labels, random_targets(self.target_seed, ids, labels, self.data.num_classes))


@dataclass(frozen=True)
class Job:
  """One cell to be computed, with all that it takes; `title` names it in its plan, as `data/condition/attack@eps`."""

  shared: Shared
  data: DataSource
  entry: Entry
  cell: Cell
  config: dict[str, Any]
  root: Path
  options: RunOptions
  substituted: bool = False
  title: str = ""

  @property
  def classifier(self) -> Classifier:
    return self.shared.classifier

  @property
  def classes(self) -> int:
    """How many columns its confidence matrices have; 0 for none."""
    classes = self.classifier.num_classes
    return classes if self.entry.matrices or classes <= ALWAYS_CLASSES else 0


def make_job(
  shared: Shared | Classifier, model: str, data: DataSource, entry: Entry, root: str | Path, options: RunOptions
) -> Job:
  """The cell of an entry, and the configuration that decides its verdicts."""
  shared = Shared(shared) if isinstance(shared, Classifier) else shared
  classifier = shared.classifier
  if entry.first is not None and entry.first < len(data):
    data = data.subset(entry.first)
  _check_classes(data, classifier.num_classes)
  if entry.targeted and not isinstance(data, SequenceSource):  # No attack is made on sequences.
    data = among(data, classifier.num_classes)
  fitted = replace(entry, schedule=fit_schedule(entry.schedule, classifier.num_classes, entry.targeted))
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
    "model_fingerprint": shared.fingerprint,
    "data_fingerprint": data.fingerprint(),
    "precision": options.precision,
    "samples": options.samples if classifier.randomised else 1,
  }
  if entry.targeted:
    config["targets"] = "random"
  return Job(shared, data, fitted, cell, config, Path(root), options, fitted != entry)


def _check_classes(data: DataSource, classes: int) -> None:
  """Refuses data of more classes than the classifier has; fewer are fine, because they may be some of the same."""
  if data.num_classes > classes:
    raise InputError(
      f"{data.name} has {data.num_classes} classes, labels 0 to {data.num_classes - 1};"
      f" the classifier has {classes}, 0 to {classes - 1}"
    )
