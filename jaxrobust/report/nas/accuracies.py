"""Figures of accuracies alone: their ranges, how they rank cells, what searches find, what measures say of them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np

from jaxrobust.core.nas_cells import isomorphs
from jaxrobust.nas import analyses
from jaxrobust.nas.measures import measured_columns
from jaxrobust.nas.rank_correlation import kendall, kendall_map
from jaxrobust.nas.search import METHODS, Landscape, curve, search
from jaxrobust.nas.table import Table
from jaxrobust.report.nas.drawing import CellData, Drawing, draw_matrix, matrix_figure, matrix_rows
from jaxrobust.report.plots import COLORS, label

GUESSING = "#C00000"
# The severity of figure 25; figure 5 has 3.
SEVERITIES = {"cifar100": 4}
RUNS, QUERIES = 30, 150


def at_severity(table: Table) -> list[str]:
  """Returns one column per corruption, that of the paper's severity, or the last one there is."""
  wanted = str(SEVERITIES.get(table.data, 3))
  chosen: dict[str, str] = {}
  for name in table.corruptions():
    kind, _, severity = name.partition("@")
    if not chosen.get(kind, "").endswith(f"@{wanted}") or severity == wanted:
      chosen[kind] = name
  return list(chosen.values())


def attack_ranges(plt: Any, data: CellData) -> Drawing:
  return _ranges(plt, data.table, ["clean", *data.table.attacks()])


def corruption_ranges(plt: Any, data: CellData) -> Drawing:
  return _ranges(plt, data.table, ["clean", *data.table.corruptions()])


def _ranges(plt: Any, table: Table, names: Sequence[str]) -> Drawing:
  """Draws a box for each column: extremes, quartiles, median, mean; guessing as a red line."""
  found = analyses.ranges(table, names)
  boxes = [
    {"med": r.median, "q1": r.quarter, "q3": r.three_quarters, "whislo": r.low, "whishi": r.high, "mean": r.mean}
    for r in found
  ]
  figure, axes = plt.subplots(figsize=(1.5 + 0.24 * len(names), 3.6))
  axes.bxp(boxes, showfliers=False, showmeans=True, widths=0.6, medianprops={"color": COLORS[1]})
  if table.num_classes:
    axes.axhline(1 / table.num_classes, color=GUESSING, linewidth=0.9)
  axes.set_xticks(range(1, len(names) + 1), [label(name, 22) for name in names], rotation=70, ha="right", fontsize=6)
  axes.set_ylim(0, 1)
  axes.set_ylabel("accuracy")
  axes.set_title(f"{label(table.data)}, {len(table.ids)} cells")
  return figure, [row._asdict() for row in found]


def attack_ranks(plt: Any, data: CellData) -> Drawing:
  return _ranks(plt, data.table, ["clean", *data.table.attacks()])


def corruption_ranks(plt: Any, data: CellData) -> Drawing:
  return _ranks(plt, data.table, ["clean", *at_severity(data.table)])


def _ranks(plt: Any, table: Table, names: Sequence[str]) -> Drawing:
  values = analyses.correlations(table, names)
  figure = matrix_figure(plt, values, names, names, f"Kendall's τ, {label(table.data)}, {len(table.ids)} cells")
  return figure, matrix_rows("column", values, names, names)


def shared_cells(tables: Sequence[Table]) -> np.ndarray:
  """Lists the cells that all of some tables have, isomorphic ones as their representative."""
  return reduce(np.intersect1d, [isomorphs()[table.ids] for table in tables])


def ranks_across(plt: Any, tables: Sequence[Table]) -> Drawing:
  """Draws how clean and attacked accuracies of several data sets rank the cells that all of them have."""
  common = shared_cells(tables)
  columns = {
    f"{table.data} {name}": table.spread(table[name])[common]
    for table in tables
    for name in ("clean", *table.attacks())
  }
  names, values = list(columns), kendall_map(list(columns.values()))
  figure = matrix_figure(plt, values, names, names, f"Kendall's τ across data sets, {len(common)} cells")
  return figure, matrix_rows("column", values, names, names)


def searches(plt: Any, data: CellData) -> Drawing:
  """Draws the best value so far of each method, with its interval."""
  landscape = Landscape.of(data.table, *data.objective.split(","))
  figure, axes = plt.subplots(figsize=(4.8, 3.4))
  rows = []
  for color, method in zip(COLORS, (*METHODS, "bananas"), strict=False):
    line = curve(search(method, landscape, runs=RUNS, queries=QUERIES))
    places = np.arange(1, len(line.mean) + 1)
    axes.plot(places, line.mean, color=color, linewidth=1.2, label=method)
    axes.fill_between(places, line.low, line.high, color=color, alpha=0.2, linewidth=0)
    ends = {"best": float(line.mean[-1]), "best_low": float(line.low[-1]), "best_high": float(line.high[-1])}
    rows.append({"method": method, "objective": data.objective, "runs": line.runs, "queries": QUERIES, **ends})
  axes.set_xlabel("queries")
  axes.set_ylabel(label(data.objective) if "," not in data.objective else "share of the hypervolume")
  axes.legend(fontsize=6)
  return figure, rows


def measured(plt: Any, data: CellData) -> Drawing:
  """Draws Kendall's τ between each measure and accuracies: under attacks above, under corruptions below."""
  table, columns = data.table, _measures(data)
  groups = [["clean", *table.attacks()], *([["clean", *at_severity(table)]] if table.corruptions() else [])]
  size = (2.2 + 0.34 * max(map(len, groups)), len(groups) * (1.3 + 0.28 * len(columns)))
  figure, grid = plt.subplots(len(groups), 1, figsize=size, squeeze=False)
  rows: list[dict[str, Any]] = []
  for axes, group in zip(grid[:, 0], groups, strict=True):
    values = np.empty((len(columns), len(group)))
    for (a, (measure, column)), (b, name) in itertools.product(enumerate(columns.items()), enumerate(group)):
      there = np.isfinite(column)
      values[a, b] = kendall(column[there], table[name][there])
      rows.append({"measure": measure, "column": name, "tau": float(values[a, b]), "cells": int(there.sum())})
    draw_matrix(axes, values, list(columns), group, 1.0)
  grid[0, 0].set_title(f"Kendall's τ of measures with accuracy, {max(row['cells'] for row in rows)} cells", fontsize=8)
  return figure, rows


def _measures(data: CellData) -> dict[str, np.ndarray]:
  """Returns the measures that at least two cells of the table have, by its ids."""
  columns = measured_columns(data.table.ids, data.measures)
  return {name: column for name, column in columns.items() if np.isfinite(column).sum() > 1}


def can_measure(data: CellData) -> bool:
  """Tells whether at least two measured cells are in the table."""
  return bool(data.table.attacks()) and bool(_measures(data))
