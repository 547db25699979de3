"""Trains a supernet and judges its subnets, in a folder that goes on where it was left.

The folder holds the supernet's checkpoints and `subnets.jsonl`, a line per subnet in the order of `study.candidates`:
what is there is not computed again, whatever ended the process.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from jaxrobust.core.errors import CellMismatchError, InputError
from jaxrobust.core.files import atomic_write, write_json
from jaxrobust.core.reading import loads, read_json, read_text, reading
from jaxrobust.core.registry import unknown_name
from jaxrobust.core.validation import check_count
from jaxrobust.data.source import DataSource
from jaxrobust.nas.supernets.space import SPACES
from jaxrobust.nas.supernets.study import StudyRow, candidates, check_calibration, run_study
from jaxrobust.nas.supernets.training import SupernetRecipe, train_supernet

ROWS, STUDY = "subnets.jsonl", "supernet.json"


@dataclass(frozen=True)
class SupernetStudy:
  """A supernet, how it is trained, and what its subnets are asked.

  Attributes:
    space: a name of `SPACES`.
    recipe: of the training.
    eps: of the FGSM step.
    subnets, each: drawn at random, and with one factor varied.
    calibration: training images that statistics are measured on, a multiple of 64.
    seed: of the subnets.
  """

  space: str
  recipe: SupernetRecipe
  eps: float
  subnets: int = 200
  each: int = 50
  calibration: int = 512
  seed: int = 0

  def __post_init__(self) -> None:
    if self.space not in SPACES:
      raise unknown_name("supernet", self.space, sorted(SPACES))
    for name in ("subnets", "each"):
      check_count(getattr(self, name), name, 1 << 31, 0)

  def run(self, train: DataSource, data: DataSource, folder: str | Path) -> Iterator[StudyRow]:
    """Trains the supernet and judges its subnets, or goes on with what the folder holds.

    Args:
      train: what it learns from, and measures statistics on.
      data: what is judged.
      folder: of the study.

    Yields:
      A row for each subnet, in order; those on disk first.
    """
    space, folder = SPACES[self.space], Path(folder)
    if train.num_classes != data.num_classes:
      raise InputError(f"{train.name} has {train.num_classes} classes, {data.name} has {data.num_classes}")
    shown = train.take(np.arange(min(self.calibration, len(train))))[0]
    check_calibration(len(shown))
    for source in (train, data):
      _check_images(source)
    self._claim(folder, train, data)
    rows = read_rows(folder)
    yield from rows
    chosen = candidates(space, self.seed, self.subnets, self.each)[len(rows) :]
    if not chosen:
      return
    params, _ = train_supernet(space, train, self.recipe, folder / "checkpoints")
    images, labels = data.take(np.arange(len(data)))
    for row in run_study(space, params, chosen, shown, images, labels, self.eps):
      rows.append(row)
      atomic_write(folder / ROWS, "".join(json.dumps(known._asdict()) + "\n" for known in rows))
      yield row

  def _claim(self, folder: Path, train: DataSource, data: DataSource) -> None:
    """Writes what the folder is for, or refuses one that is for something else."""
    asked = asdict(self)
    del asked["recipe"]["save_every"]
    identity = {"study": asked, "train": train.fingerprint(), "data": data.fingerprint()}
    if (folder / STUDY).exists() and read_json(folder / STUDY) != identity:
      raise CellMismatchError(f"{folder} holds another study of supernets; use another folder or remove it")
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / STUDY, identity)


def _check_images(source: DataSource) -> None:
  """Refuses what is no square picture in colors."""
  height, width, channels = source.take(np.zeros(1, int))[0].shape[1:]
  if channels != 3 or height != width:
    raise InputError(f"supernets take square images in three colors; {source.name} has {height}x{width}x{channels}")


def read_rows(folder: str | Path) -> list[StudyRow]:
  """Reads the subnets that a study has judged so far."""
  path = Path(folder) / ROWS
  if not path.exists():
    return []
  with reading(f"{path}: not the rows of a supernet's subnets"):
    return [StudyRow(**loads(line)) for line in read_text(path).splitlines()]
