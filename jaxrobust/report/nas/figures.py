"""The figures of the NAS robustness paper (arXiv:2306.06712) from any data set in its layout.

Each is written as PNG, PDF and SVG, its numbers as CSV, Markdown and LaTeX, where the data set has what it needs.
`FIGURES` says which figure of the paper each is. Not among them are drawings of the network and of how the data set was
made (1, 9), excerpts of its files (10 to 12), and pictures of corruptions (18).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from jaxrobust.core.errors import InputError
from jaxrobust.nas.space import representatives
from jaxrobust.nas.table import Table
from jaxrobust.report.nas import accuracies, architectures, matrices
from jaxrobust.report.nas.drawing import CellData, Drawing, Rows
from jaxrobust.report.plots import KINDS, plotting, save_figure
from jaxrobust.report.trend_tables import Sheet, write_sheets


class Figure(NamedTuple):
  """A figure of one data set.

  Attributes:
    name: of its files.
    title: of it.
    paper: which figures of the paper show this; empty for ours.
    there: whether the data set has what it needs.
    draw: it, and its numbers.
  """

  name: str
  title: str
  paper: str
  there: Callable[[CellData], bool]
  draw: Callable[[Any, CellData], Drawing]


class Drawn(NamedTuple):
  """A figure that was drawn: files are `name` with each of `KINDS` behind; its numbers."""

  name: str
  title: str
  paper: str
  rows: Rows


def _attacked(data: CellData) -> bool:
  return bool(data.table.attacks())


def _corrupted(data: CellData) -> bool:
  return bool(data.table.corruptions())


def _attacks_rank(data: CellData) -> bool:
  return _attacked(data) and len(data.table.ids) > 1


def _corruptions_rank(data: CellData) -> bool:
  return _corrupted(data) and len(data.table.ids) > 1


def _compared(data: CellData) -> bool:
  return _attacked(data) or _corrupted(data)


def _sized(data: CellData) -> bool:
  return _compared(data) and architectures.has_equal(data)


def _whole(data: CellData) -> bool:
  known = np.intersect1d(data.table.ids, representatives())
  return _compared(data) and len(known) == len(representatives())


def _searchable(data: CellData) -> bool:
  return len(data.table.ids) >= 50


def _confused(data: CellData) -> bool:
  return bool(data.confusions)


def _confident(data: CellData) -> bool:
  return bool(data.confidences)


FIGURES = (
  Figure(
    "ranges-attacks", "Accuracy of all cells under attacks", "2, 19, 20", _attacked, accuracies.attack_ranges
  ),
  Figure(
    "ranges-corruptions", "Accuracy of all cells under corruptions", "4, 21, 22", _corrupted,
    accuracies.corruption_ranges,
  ),
  Figure(
    "kendall-attacks", "Rank correlation of clean and attacked accuracy", "3, 23, 24", _attacks_rank,
    accuracies.attack_ranks,
  ),
  Figure(
    "kendall-corruptions", "Rank correlation of clean and corrupted accuracy", "5, 25", _corruptions_rank,
    accuracies.corruption_ranks,
  ),
  Figure("measures", "Measures against robustness", "6", accuracies.can_measure, accuracies.measured),
  Figure("top-cells", "The best cells of equal size", "7, 29", _sized, architectures.top_cells),
  Figure("isomorphic-cells", "One cell in two forms", "8", lambda data: True, architectures.isomorphic_cells),
  Figure(
    "confidence-clean", "Confidence on clean images", "13", _confident,
    lambda plt, data: matrices.draw_clean_confidences(plt, data.confidences),
  ),
  Figure(
    "confidence-attacks", "Confidence under attacks", "14, 15", _confident,
    lambda plt, data: matrices.draw_attacked_confidences(plt, data.confidences),
  ),
  Figure(
    "confusion", "Confusion of classes, mean over cells", "16", _confused,
    lambda plt, data: matrices.draw_confusions(plt, data.confusions),
  ),
  Figure("best-cells", "The best cells and how many edits lie between them", "26", _compared, architectures.best_cells),
  Figure("sizes", "Robust and clean accuracy by kernel parameters", "27, 28", _compared, architectures.sizes),
  Figure("single-changes", "One operation of the best cell exchanged", "30", _whole, architectures.single_changes),
  Figure("edge-effects", "What each operation on each edge adds", "", _whole, architectures.edge_effects),
  Figure("search", "What searches find", "table 1", _searchable, accuracies.searches),
)  # fmt: skip
ACROSS = ("kendall-data-sets", "Rank correlation across data sets", "17")


def write_nas_figures(data: CellData, out: str | Path) -> list[Drawn]:
  """Draws every figure that a data set has the numbers for.

  Args:
    data: accuracies and what else there is; cells without all of their accuracies are left out.
    out: folder for the files.

  Returns:
    What was drawn, in the order of the paper.
  """
  data = data.complete()
  if not len(data.table.ids):
    raise InputError(f"no cell of {data.table.data} has all of its accuracies")
  drawn = []
  with plotting() as plt:
    for name, title, paper, there, draw in FIGURES:
      if there(data):
        drawn.append(_write(plt, Path(out), (name, title, paper), *draw(plt, data)))
  return drawn


def write_across(tables: Sequence[Table], out: str | Path) -> list[Drawn]:
  """Draws the rank correlation of several data sets; nothing where they share fewer than two cells."""
  tables = [table.complete() for table in tables]
  if len(tables) < 2 or len(accuracies.shared_cells(tables)) < 2:
    return []
  with plotting() as plt:
    return [_write(plt, Path(out), ACROSS, *accuracies.ranks_across(plt, tables))]


def _write(plt: Any, out: Path, about: tuple[str, str, str], figure: Any, rows: Rows) -> Drawn:
  """Writes a figure and its numbers."""
  found = Drawn(*about, rows)
  save_figure(figure, out / found.name)
  plt.close(figure)
  shown = [column for column in rows[0] if not column.endswith(("_low", "_high"))]
  write_sheets([Sheet(found.name, found.title, rows, tuple(shown))], out)
  return found


def files_of(drawn: Drawn) -> list[str]:
  """Returns the names of a figure's files, pictures first."""
  return [f"{drawn.name}.{kind}" for kind in (*KINDS, "csv", "md", "tex")]
