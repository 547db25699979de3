"""A job: what decides one cell, which kind of work answers it, and which examples of it this process takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from jaxrobust.certify.certifier import find_methods
from jaxrobust.core.classifier import Classifier, check_logits
from jaxrobust.core.keys import check_seed
from jaxrobust.core.progress import ProgressFn
from jaxrobust.data.judging import Judging, judging_of
from jaxrobust.data.source import DataSource, raw
from jaxrobust.engine.example import Examples
from jaxrobust.engine.options import EngineOptions, check_dtype, check_precision, check_samples
from jaxrobust.engine.scheduler import SAMPLES, Engine
from jaxrobust.engine.table import Verdicts
from jaxrobust.evaluation.confidence import ALWAYS_CLASSES
from jaxrobust.evaluation.context import ModelContext
from jaxrobust.evaluation.measures import measure_passes
from jaxrobust.evaluation.suites.entry import SuiteEntry
from jaxrobust.evaluation.suites.suite import Part, title_of
from jaxrobust.evaluation.targets import random_targets
from jaxrobust.results import Cell, Result

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class RunOptions:
  """Says how jobs are run; nothing here changes a verdict but `precision` and `dtype`, parts of the cell's config.

  Attributes:
    engine: slots, devices, dispatch.
    seed: of all randomness.
    samples: forward passes per query of a randomized classifier; None for 20 with gradients, 1 without.
    verdict_samples: forward passes per verdict on an image.
    precision: of matrix products and convolutions; float32 throughout by default, also on TPU.
    dtype: of the network's own arithmetic, "float32" or "bfloat16"; losses, norms and verification are float32.
    save_seconds: how often a running cell saves its partial verdicts.
    process, processes: which share of the examples this process takes.
    quiet: no progress display.
    save_images: how many adversarial images to keep beside each cell that is computed.
    certify: the bounds by which examples are proved robust before they are attacked; empty for none.
  """

  engine: EngineOptions | None = None
  seed: int = 0
  samples: int | None = None
  verdict_samples: int = SAMPLES
  precision: str = "highest"
  dtype: str = "float32"
  save_seconds: float = 60.0
  process: int = 0
  processes: int = 1
  quiet: bool = False
  save_images: int = 0
  certify: str = ""

  def __post_init__(self) -> None:
    check_precision(self.precision)
    check_dtype(self.dtype)
    check_samples(self.samples, self.verdict_samples)
    check_seed(self.seed)
    if self.certify:
      find_methods(self.certify)


@dataclass(frozen=True)
class ShareSource:
  """Hands out every P-th example of a data source to the engine; with random targets if there is a seed for them."""

  data: DataSource
  positions: np.ndarray
  image_shape: tuple[int, int, int]
  target_seed: int | None = None

  def __len__(self) -> int:
    return len(self.positions)

  def take(self, positions: np.ndarray) -> Examples:
    ids = self.positions[positions]
    images, labels = raw(self.data, ids)
    judging = judging_of(self.data)
    labels = judging.choice_of(labels)
    if self.target_seed is None:
      return Examples(ids, images, labels, np.full(len(ids), -1))
    classes = self.data.num_classes if judging.choices is None else len(judging.choices)
    return Examples(ids, images, labels, random_targets(self.target_seed, ids, labels, classes))


class JobRun(Protocol):
  """Is one job at work, or several that one pass over the examples answers together.

  Attributes:
    engine: what it turns.
    state: every array that verdicts are written into, for snapshots.
  """

  @property
  def engine(self) -> Engine: ...

  @property
  def state(self) -> Arrays: ...

  def record(self, verdicts: Verdicts) -> None: ...

  def restore(self, arrays: Arrays) -> None: ...

  def finish(self, path: Path, positions: np.ndarray) -> list[Arrays]: ...


@dataclass(frozen=True)
class JobKind:
  """Says what one kind of job does that others do not.

  Attributes:
    start: (job, positions of examples) -> the job at work.
    passes: forward passes of one example at the most, if it stands to the end.
    attacks: whether its schedule is run, so that threats and targets mean something.
    run: answers the cell by other jobs, in place of one pass over its examples.
  """

  start: Callable[[Job, np.ndarray], JobRun]
  passes: Callable[[Job], int]
  attacks: bool = True
  run: Callable[[Job, ProgressFn], Result] | None = None


@dataclass(frozen=True)
class Job:
  """Holds all that one cell takes.

  Attributes:
    kind: of work.
    substituted: whether losses had to be replaced for this classifier.
    part: where its suite asks for it; None for jobs of no suite.
    note: what the cell's summary says besides its counts.
  """

  kind: JobKind
  context: ModelContext
  data: DataSource
  entry: SuiteEntry
  cell: Cell
  config: dict[str, Any]
  root: Path
  options: RunOptions
  substituted: bool = False
  part: Part | None = None
  note: Mapping[str, Any] = field(default_factory=dict)

  @property
  def judging(self) -> Judging:
    return judging_of(self.data)

  @property
  def classifier(self) -> Classifier:
    """Returns what is asked: the classifier as it chooses among what the data is judged by."""
    return self.context.choosing(self.judging)

  @property
  def title(self) -> str:
    """Names the job in its suite, as `data/condition/attack@eps`; empty for a job of no suite."""
    return "" if self.part is None else title_of(self.part, self.entry)

  @property
  def path(self) -> Path:
    """Returns the file of its cell."""
    return self.cell.path(self.root)

  @property
  def cost(self) -> int:
    """Returns the forward passes it needs at the most."""
    return self.cell.n * (self.kind.passes(self) + measure_passes(self.entry.measures))

  @property
  def classes(self) -> int:
    """Returns how many columns its confidence matrices have; 0 for none, as where only some classes are asked for."""
    if self.judging.choices is not None:
      return 0
    classes = self.classifier.num_classes
    return classes if self.entry.matrices or classes <= ALWAYS_CLASSES else 0

  def image_shape(self) -> tuple[int, int, int]:
    """Returns the shape of its images, once its classifier is known to take them."""
    shape = tuple(self.data.take(np.zeros(1, int))[0].shape[1:])
    check_logits(self.classifier, shape)
    return shape
