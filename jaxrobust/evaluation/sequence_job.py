"""Jobs over perturbation sequences: how often does the prediction change from frame to frame?

A cell of this kind has one row per sequence: `flips`, the share of frame pairs whose predictions differ (the flip
probability of the whole is their mean), `correct` for the first frame and `robust` for all frames.
"""

from __future__ import annotations

from pathlib import Path
from typing import cast

import numpy as np

from jaxrobust.attacks.schedule import CleanPass
from jaxrobust.data.judging import judging_of
from jaxrobust.data.source import SequenceSource
from jaxrobust.engine.example import Examples
from jaxrobust.engine.scheduler import Engine
from jaxrobust.engine.table import Verdicts
from jaxrobust.engine.verdicts import VerdictArrays
from jaxrobust.evaluation.job import Arrays, Job
from jaxrobust.evaluation.judged import judged
from jaxrobust.evaluation.metrics.flips import flips_per_sequence
from jaxrobust.evaluation.verdicts import cell_arrays


class SequenceRun:
  """Sends every frame of the sequences at some positions through the classifier; a row of the cell is a sequence."""

  def __init__(self, job: Job, positions: np.ndarray):
    options, data, self.judging = job.options, cast(SequenceSource, job.data), job.judging
    self.name, self.frames = data.perturbation, FrameSource(data, positions, job.image_shape())
    self.predictions = np.zeros((len(positions), self.frames.count), np.int32)
    self.engine = Engine(
      job.classifier,
      CleanPass(),
      self.frames,
      eps=0.0,
      seed=options.seed,
      verdict_samples=options.verdict_samples,
      options=options.engine,
    )

  @staticmethod
  def passes(job: Job) -> int:
    """Returns the number of frames."""
    return cast(SequenceSource, job.data).num_frames

  @property
  def state(self) -> Arrays:
    return {"predictions": self.predictions, "labels": self.frames.labels}

  def record(self, verdicts: Verdicts) -> None:
    """Writes the predictions of frames down; -1 for an output that is not finite."""
    self.predictions.flat[verdicts["position"]] = verdicts["clean_prediction"]

  def restore(self, arrays: Arrays) -> None:
    """Takes over the arrays of a snapshot."""
    self.predictions[:], self.frames.labels[:] = arrays["predictions"], arrays["labels"]

  def finish(self, path: Path, positions: np.ndarray) -> list[Arrays]:
    """Turns predictions of frames into verdicts on sequences: right at first, right throughout, how often changed."""
    del path
    verdicts, right = VerdictArrays(len(positions), None), self.predictions == self.frames.labels[:, None]
    verdicts["label"][:] = self.frames.labels
    verdicts["clean_prediction"][:] = verdicts["prediction"][:] = self.predictions[:, 0]
    verdicts["correct"][:], verdicts["robust"][:] = right[:, 0], right.all(1)
    verdicts["nan"][:] = (self.predictions < 0).any(1)
    arrays = cell_arrays(verdicts, minimal=False) | {"flips": flips_per_sequence(self.name, self.predictions)}
    return [judged(self.judging, arrays, positions)]


class FrameSource:
  """Hands out the frames of some sequences one after the other to the engine; an example's are made once."""

  def __init__(self, data: SequenceSource, positions: np.ndarray, image_shape: tuple[int, int, int]):
    self.data, self.positions, self.image_shape = data, positions, image_shape
    self.count = data.num_frames
    self.labels = np.full(len(positions), -1, np.int32)  # Known once a sequence has been read.
    self._kept: dict[int, np.ndarray] = {}

  def __len__(self) -> int:
    return len(self.positions) * self.count

  def take(self, positions: np.ndarray) -> Examples:
    """Returns the frames at these places; place p is frame p % count of sequence p // count."""
    owners, frames = np.divmod(positions, self.count)
    needed = np.unique(owners).tolist()
    new = [owner for owner in needed if owner not in self._kept]
    kept = {owner: self._kept[owner] for owner in needed if owner in self._kept}
    if new:
      made, labels = self.data.frames(self.positions[new])
      self.labels[new] = judging_of(self.data).choice_of(labels)
      kept |= zip(new, made, strict=True)
    self._kept = kept
    images = np.stack([kept[owner][frame] for owner, frame in zip(owners.tolist(), frames.tolist(), strict=True)])
    return Examples(positions, images, self.labels[owners], np.full(len(positions), -1))
