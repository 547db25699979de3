"""Figures of the cells themselves: the best ones, their size, their operations, and what one operation changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxrobust.core.nas_cells import EDGES, NONE, OPERATIONS, cell_string, operations_of
from jaxrobust.nas import analyses
from jaxrobust.nas.space import edit_distance, isomorph, live_edges
from jaxrobust.report.nas.drawing import (
  EDGE_NAMES,
  OPERATION_COLORS,
  SHORT,
  CellData,
  Drawing,
  draw_matrix,
  matrix_rows,
  operation_legend,
)
from jaxrobust.report.plots import COLORS

KERNELS, TOP = 18, 20
# Of figure 8: one cell in two forms.
ISOMORPHIC = (991, 3365)
# Where nodes stand, and how far along an edge its operation is written: two of them cross in the middle.
_NODES = ((0.0, 0.5), (0.34, 0.95), (0.66, 0.05), (1.0, 0.5))
_PLACES = (0.5, 0.5, 0.3, 0.25, 0.5, 0.5)
_SAID = {
  "clean": "clean accuracy",
  "adversarial": "mean accuracy under attacks",
  "corruption": "mean accuracy under corruptions",
}


def has_equal(data: CellData) -> bool:
  """Tells whether any cell has the paper's number of kernel parameters."""
  return bool((analyses.kernel_counts(data.table) == KERNELS).any())


def draw_cell(axes: Any, operations: Sequence[int]) -> None:
  """Draws a cell: nodes 0 to 3, an arrow in the color of its operation for every edge; dead ones are dotted."""
  for operation, live, (source, target), place in zip(operations, live_edges(operations), EDGES, _PLACES, strict=True):
    style = {"arrowstyle": "-|>", "color": OPERATION_COLORS[operation], "linewidth": 1.8, "shrinkA": 8, "shrinkB": 8}
    axes.annotate("", _NODES[target], _NODES[source], arrowprops={**style, "linestyle": "-" if live else ":"})
    x, y = ((1 - place) * np.array(_NODES[source]) + place * np.array(_NODES[target])).tolist()
    if operation != NONE:
      axes.text(x, y, SHORT[operation], fontsize=5, ha="center", va="center", bbox={"fc": "white", "lw": 0, "pad": 0.6})
  for node, (x, y) in enumerate(_NODES):
    axes.text(
      x, y, str(node), ha="center", va="center", fontsize=7, bbox={"boxstyle": "circle", "fc": "white", "lw": 0.6}
    )
  axes.set(xlim=(-0.12, 1.12), ylim=(-0.15, 1.15))
  axes.axis("off")


def isomorphic_cells(plt: Any, data: CellData) -> Drawing:
  """Draws two cells that are one."""
  del data
  figure, grid = plt.subplots(1, len(ISOMORPHIC), figsize=(5.2, 2.2))
  rows = []
  for axes, uid in zip(grid, ISOMORPHIC, strict=True):
    draw_cell(axes, operations_of(uid))
    axes.set_title(f"cell {uid}, evaluated as {isomorph(uid)}", fontsize=7)
    rows.append({"cell": uid, "evaluated as": isomorph(uid), "string": cell_string(operations_of(uid))})
  return figure, rows


def best_cells(plt: Any, data: CellData) -> Drawing:
  """Draws the best cell by clean accuracy and by the means over attacks and corruptions."""
  names = data.groups()
  figure, grid = plt.subplots(1, len(names), figsize=(2.6 * len(names), 2.5), squeeze=False)
  best = analyses.optima(data.table, names)
  first, rows = operations_of(best[0].ids[0]), []
  for axes, optimum in zip(grid[0], best, strict=True):
    uid = optimum.ids[0]
    draw_cell(axes, operations_of(uid))
    axes.set_title(f"cell {uid}: {_SAID[optimum.name]} {optimum.value:.4f}", fontsize=6)
    rows.append(
      {"best by": optimum.name, "cell": uid, "accuracy": optimum.value, "ties": len(optimum.ids)}
      | {"edits from the first": edit_distance(first, operations_of(uid)), "string": cell_string(operations_of(uid))}
    )
  operation_legend(figure, plt)
  return figure, rows


def sizes(plt: Any, data: CellData) -> Drawing:
  """Draws robust against clean accuracy, in the color of the number of kernel parameters, and against that number."""
  table, counts = data.table, analyses.kernel_counts(data.table)
  names = data.groups()[1:]
  figure, grid = plt.subplots(1, len(names) + 1, figsize=(3.6 * (len(names) + 1), 3.2), squeeze=False)
  for axes, name in zip(grid[0], names, strict=False):
    dots = axes.scatter(table["clean"], table[name], s=3, c=counts, cmap="viridis", vmin=0, vmax=54)
    axes.set(xlabel="clean accuracy", ylabel=_SAID[name])
  figure.colorbar(dots, ax=grid[0, len(names) - 1], label="kernel parameters")
  last, same = grid[0, -1], counts == KERNELS
  last.scatter(counts, table[names[0]], s=3, color=COLORS[7])
  last.scatter(counts[same], table[names[0]][same], s=5, color=COLORS[4], label=f"{KERNELS}: {same.sum()} cells")
  last.set(xlabel="kernel parameters of a cell", ylabel=_SAID[names[0]])
  if same.any():
    span = table[names[0]][same]
    last.set_title(f"{KERNELS} kernel parameters: {span.min():.4f} to {span.max():.4f}", fontsize=8)
    last.legend(fontsize=6)
  rows = []
  for count in np.unique(counts).tolist():
    chosen = counts == count
    row: dict[str, Any] = {"kernel parameters": count, "cells": int(chosen.sum())}
    for name in ("clean", *names):
      values = table[name][chosen]
      row |= {name: float(values.mean()), f"{name}_low": float(values.min()), f"{name}_high": float(values.max())}
    rows.append(row)
  return figure, rows


def top_cells(plt: Any, data: CellData) -> Drawing:
  """Draws the operations of the best cells of equal size, a row each, and how often each stands on each edge."""
  names = data.groups()[1:]
  figure, grid = plt.subplots(
    2, len(names), figsize=(3.4 * len(names), 5.6), squeeze=False, gridspec_kw={"height_ratios": (3, 1.2)}
  )
  rows = []
  for (axes, below), name in zip(grid.T, names, strict=True):
    top = analyses.top_cells(data.table, name, TOP, KERNELS)
    axes.imshow(top.operations, cmap=_operation_map(), vmin=-0.5, vmax=len(OPERATIONS) - 0.5, aspect="auto")
    axes.grid(visible=False)
    axes.set_xticks(range(6), range(1, 7), fontsize=6)
    axes.set_yticks(
      range(len(top.ids)), [f"{uid}  {value:.3f}" for uid, value in zip(top.ids, top.values, strict=True)], fontsize=5
    )
    axes.set_title(f"best {len(top.ids)} of equal size, {_SAID[name]}", fontsize=7)
    draw_matrix(below, top.counts.astype(float), EDGE_NAMES, SHORT, float(max(top.counts.max(), 2)))
    found = zip(top.ids.tolist(), top.values.tolist(), top.operations.tolist(), strict=True)
    for place, (uid, value, cell) in enumerate(found, 1):
      edges = dict(zip(EDGE_NAMES, (OPERATIONS[operation] for operation in cell), strict=True))
      rows.append({"by": name, "place": place, "cell": uid, "accuracy": value, **edges})
  operation_legend(figure, plt)
  return figure, rows


def _operation_map() -> Any:
  from matplotlib.colors import ListedColormap

  return ListedColormap(OPERATION_COLORS)


def single_changes(plt: Any, data: CellData) -> Drawing:
  """Draws all cells, the best by clean accuracy in red, and those that differ from it by one operation."""
  table, names = data.table, data.groups()
  best = analyses.optima(table, ["clean"])[0].ids[0]
  changes = analyses.single_changes(table, best, names)
  here = {name: table.at(best, name) for name in names}
  figure, grid = plt.subplots(1, len(names) - 1, figsize=(4.6 * (len(names) - 1), 4.0), squeeze=False)
  for axes, name in zip(grid[0], names[1:], strict=True):
    axes.scatter(table["clean"], table[name], s=2, color=COLORS[7], alpha=0.5)
    for number, change in enumerate(changes, 1):
      x, y = (here[one] + change.gains[one] for one in ("clean", name))
      axes.scatter(x, y, s=14, color=COLORS[4])
      text = f"{number} [{change.edge}] {change.before} → {change.after}".replace("nor_", "").replace("avg_", "")
      axes.annotate(str(number), (x, y), fontsize=4.5, xytext=(2, 1), textcoords="offset points")
      axes.plot([], [], " ", label=text)
    axes.scatter(here["clean"], here[name], s=18, color="#C00000", label=f"cell {best}")
    axes.set(xlabel="clean accuracy", ylabel=_SAID[name])
    near = [here["clean"] + change.gains["clean"] for change in changes]
    axes.set_xlim(min(near) - 0.02, here["clean"] + 0.01)
    values = [here[name], *(here[name] + change.gains[name] for change in changes)]
    axes.set_ylim(min(values) - 0.02, max(values) + 0.02)
  figure.legend(*grid[0, 0].get_legend_handles_labels(), loc="outside right upper", fontsize=5, handlelength=0.5)
  rows = [
    {"edge": change.edge, "before": change.before, "after": change.after, "cell": change.uid, **change.gains}
    for change in changes
  ]
  return figure, rows


def edge_effects(plt: Any, data: CellData) -> Drawing:
  """Draws what each operation on each edge adds to mean accuracies, and how much two edges do together."""
  names = data.groups()[1:]
  figure, grid = plt.subplots(2, len(names), figsize=(3.6 * len(names), 5.2), squeeze=False)
  rows = []
  for (above, below), name in zip(grid.T, names, strict=True):
    found = analyses.edge_effects(data.table, name)
    edges = [f"{edge} ({share:.0%})" for edge, share in zip(EDGE_NAMES, found.shares, strict=True)]
    draw_matrix(above, found.effects, edges, SHORT, 0.1)
    above.set_title(f"effect on {_SAID[name]} (share of variance)", fontsize=7)
    draw_matrix(below, found.pairs, EDGE_NAMES, EDGE_NAMES, 0.1)
    below.set_title("share of the variance by two edges together", fontsize=7)
    for row, share in zip(matrix_rows("edge", found.effects, EDGE_NAMES, SHORT), found.shares.tolist(), strict=True):
      rows.append({"of": name, **row, "share of variance": share})
  return figure, rows
