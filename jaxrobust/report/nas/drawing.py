"""What the figures of cells share: the data they are drawn from, maps of numbers, the colors of operations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from jaxrobust.core.nas_cells import OPERATIONS
from jaxrobust.nas.table import Table
from jaxrobust.report.nas.matrices import Confidence
from jaxrobust.report.plots import COLORS, label

Rows = list[dict[str, Any]]
"""The numbers of a figure, one row like the other."""
Drawing = tuple[Any, Rows]
"""A figure and its numbers."""

SHORT = tuple(name.replace("nor_", "").replace("_connect", "").replace("avg_", "") for name in OPERATIONS)
# By operation, in the order of `OPERATIONS`.
OPERATION_COLORS = ("#D9D9D9", COLORS[5], COLORS[4], COLORS[1], COLORS[2])
GROUPS = ("clean", "adversarial", "corruption")
EDGE_NAMES = tuple(f"edge {edge}" for edge in range(1, 7))


@dataclass(frozen=True)
class CellData:
  """All that figures of one data set are drawn from.

  Attributes:
    table: of accuracies.
    objective: column, or several with commas, that searches look for.
    confusions: key to mean matrix.
    confidences: of each attack.
    measures: rows of `nas.measures.measure_cells`.
  """

  table: Table
  objective: str = "clean"
  confusions: Mapping[str, np.ndarray] = field(default_factory=dict)
  confidences: Sequence[Confidence] = ()
  measures: Sequence[Mapping[str, Any]] = ()

  def complete(self) -> CellData:
    """Returns the same without cells that lack an accuracy."""
    return replace(self, table=self.table.complete())

  def groups(self) -> list[str]:
    """Returns clean accuracy and the means over attacks and over corruptions that there are."""
    there = (True, bool(self.table.attacks()), bool(self.table.corruptions()))
    return [name for name, known in zip(GROUPS, there, strict=True) if known]


def draw_matrix(axes: Any, values: np.ndarray, rows: Sequence[str], columns: Sequence[str], span: float) -> None:
  """Draws a map of numbers from -span to span."""
  axes.imshow(values, vmin=-span, vmax=span, cmap="RdBu", aspect="auto")
  axes.grid(visible=False)
  axes.set_xticks(range(len(columns)), [label(name, 22) for name in columns], rotation=60, ha="right", fontsize=6)
  axes.set_yticks(range(len(rows)), [label(name, 26) for name in rows], fontsize=6)
  if values.size > 1200:
    return
  for row, column in np.argwhere(np.isfinite(values)):
    value = values[row, column]
    text = f"{value:.2f}" if span <= 1 else f"{value:g}"
    color = "white" if abs(value) > 0.6 * span else "black"
    axes.text(column, row, text, ha="center", va="center", fontsize=5, color=color)


def matrix_figure(plt: Any, values: np.ndarray, rows: Sequence[str], columns: Sequence[str], title: str) -> Any:
  """Draws a map of rank correlations alone."""
  figure, axes = plt.subplots(figsize=(1.8 + 0.34 * len(columns), 1.4 + 0.28 * len(rows)))
  draw_matrix(axes, values, rows, columns, 1.0)
  axes.set_title(title, fontsize=8)
  return figure


def matrix_rows(first: str, values: np.ndarray, rows: Sequence[str], columns: Sequence[str]) -> Rows:
  """Returns a map as rows; `first` names the column that says which row it is."""
  named = zip(rows, values.tolist(), strict=True)
  return [{first: name, **dict(zip(columns, row, strict=True))} for name, row in named]


def operation_legend(figure: Any, plt: Any) -> None:
  """Says below a figure which color is which operation."""
  handles = [plt.Rectangle((0, 0), 1, 1, color=color) for color in OPERATION_COLORS]
  figure.legend(handles, SHORT, fontsize=6, frameon=False, loc="outside lower center", ncols=len(SHORT))
