"""Measures of many cells in a file of lines, one for each cell, which goes on where it was left.

A line is what `nas.measures.measure_cells` yields and, as `about`, what it was measured on and how; a file of other
measurements is refused. A line that a kill cut off is measured again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from jaxrobust.core.errors import CellMismatchError, InputError
from jaxrobust.core.files import atomic_write
from jaxrobust.core.reading import loads, read_text, reading
from jaxrobust.data.source import DataSource
from jaxrobust.evaluation.nas.run import LoadedCells, check_classes
from jaxrobust.models.families.nas_bench_201 import normalization
from jaxrobust.nas.measures import Batch, check_measures, measure_cells, measured_columns
from jaxrobust.nas.one_program import OneProgram


@dataclass(frozen=True, eq=False)
class MeasureRun:
  """Measurements of cells.

  Attributes:
    uids: the cells.
    program: the network of all of them.
    trained: where their trained weights are; None to measure them at initialization alone.
    data: images and labels.
    names: of measures.
    n: images, the first ones.
    batches: of equal size that these are divided into; a measure is the mean over them. What is left over is left out.
    seed: of initial weights and draws.
    projections: for the Jacobian; 0 for its exact norm.
  """

  uids: tuple[int, ...]
  program: OneProgram
  trained: LoadedCells | None
  data: DataSource
  names: tuple[str, ...]
  n: int = 64
  batches: int = 1
  seed: int = 0
  projections: int = 4

  def __post_init__(self) -> None:
    check_measures(self.names)
    check_classes(self.program, self.data)
    n = min(self.n, len(self.data))
    if not 1 <= self.batches <= n:
      raise InputError(f"{n} images cannot be divided into {self.batches} batches")
    if self.projections < 0:
      raise InputError(f"projections must be at least 0, got {self.projections}")

  def about(self) -> dict[str, Any]:
    """Returns what must be equal for two rows to be measurements of one kind."""
    network = {"width": self.program.width, "depth": self.program.depth, "num_classes": self.program.num_classes}
    how = {"n": self.n, "batches": self.batches, "seed": self.seed, "projections": self.projections}
    trained = None if self.trained is None else str(self.trained.folder)
    return {"data": self.data.fingerprint(), "network": network, "trained": trained, "measures": [*self.names], **how}

  def rows(self, out: Path | None = None) -> Iterator[dict[str, Any]]:
    """Measures cells, or takes what a file holds of them.

    Args:
      out: the file; None to keep nothing.

    Yields:
      A row for each cell, in order.
    """
    known = {} if out is None else self._known(out)
    for uid in self.uids:
      if uid not in known:
        row = {**self._measure(uid), "about": self.about()}
        if out is not None:
          with out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        known[uid] = row
      yield known[uid]

  def _measure(self, uid: int) -> dict[str, Any]:
    load = None if self.trained is None else self.trained.train
    place = normalization(self.data.name)
    found = measure_cells(self.program, [uid], load, self._batches, place, self.names, self.seed, self.projections)
    return next(found)

  @property
  def _batches(self) -> list[Batch]:
    size = min(self.n, len(self.data)) // self.batches
    return [self.data.take(np.arange(at * size, (at + 1) * size)) for at in range(self.batches)]

  def _known(self, out: Path) -> dict[int, dict[str, Any]]:
    """Returns the rows of a file, from which a line that was cut off is taken away."""
    rows = {int(row["uid"]): row for row in read_rows(out)} if out.exists() else {}
    if any(row.get("about") != self.about() for row in rows.values()):
      raise CellMismatchError(f"{out} holds other measurements; use another file or remove it")
    out.parent.mkdir(parents=True, exist_ok=True)
    atomic_write(out, "".join(json.dumps(row) + "\n" for row in rows.values()))
    return rows


def read_rows(path: Path) -> list[dict[str, Any]]:
  """Reads the whole lines of a file of measurements."""
  with reading(f"{path}: not the lines that `nas measure` writes"):
    rows = [dict(loads(line)) for line in read_text(path).split("\n")[:-1]]
    for row in rows:
      measured_columns(np.array([int(row["uid"])]), [row])  # Refuses what is no cell and what is no number.
  return rows
