"""The figures of the NAS robustness paper (arXiv:2306.06712) from any data set in its layout, as PNG, PDF and SVG.

  ranges-attacks, ranges-corruptions   accuracies over all cells by budget and severity       figures 2, 4, 19 to 22
  kendall-attacks, kendall-corruptions rank correlations with clean accuracy and each other   figures 3, 5, 17, 23 to 25
  equal-size                           cells of 18 kernel parameters: mean robust accuracy    figures 27, 28
  top-cells                            operations by edge in the best 20 of them              figures 7, 29
  single-changes                       one operation of the best cell exchanged               figure 30
  edge-effects                         what each operation on each edge adds                  ours
  search                               best value by query, four methods                      table 1 as curves
  measures                             Kendall's τ of Jacobian and Hessian with accuracies    figure 6
  confusion                            mean confusion matrices, clean and attacked            figure 16
  confidence                           confidence by class, by budget, right against wrong    figures 13 to 15

Each is drawn where the data set has what it needs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jaxrobust.core.nas_cells import OPERATIONS
from jaxrobust.nas import analyses
from jaxrobust.nas.rank_correlation import kendall_map
from jaxrobust.nas.search import METHODS, Landscape, curve, search
from jaxrobust.nas.space import representatives
from jaxrobust.nas.table import Table
from jaxrobust.report.nas_matrices import Confidence, draw_confidences, draw_confusions
from jaxrobust.report.plots import COLORS, label, plotting, save_figure

KERNELS = 18
_SHORT = tuple(name.replace("nor_", "").replace("_connect", "").replace("avg_", "") for name in OPERATIONS)

Draw = Callable[[Any, Table], Any]


def write_nas_figures(
  table: Table,
  out: str | Path,
  *,
  objective: str = "clean",
  confusions: Mapping[str, np.ndarray] | None = None,
  confidences: Sequence[Confidence] = (),
  measures: Sequence[Mapping[str, float]] = (),
) -> list[str]:
  """Draws every figure that a table has the numbers for.

  Args:
    table: of accuracies.
    out: folder for the files.
    objective: column that searches look for.
    confusions: title to mean matrix (`nas_matrices.read_confusions`).
    confidences: of `nas_matrices.read_confidences`.
    measures: rows of `nas.measures.measure_cells`.

  Returns:
    Names of what was drawn.
  """
  attacks, noises = bool(table.attacks()), bool(table.corruptions())
  whole = len(np.intersect1d(table.ids, representatives())) == len(representatives())
  drawings: list[tuple[str, bool, Draw]] = [
    ("ranges-attacks", attacks, lambda plt, t: _ranges(plt, t, ["clean", *t.attacks()])),
    ("ranges-corruptions", noises, lambda plt, t: _ranges(plt, t, ["clean", *t.corruptions()])),
    ("kendall-attacks", attacks, lambda plt, t: _kendall(plt, t, ["clean", *t.attacks()])),
    ("kendall-corruptions", noises, lambda plt, t: _kendall(plt, t, ["clean", *_middle(t)])),
    ("equal-size", attacks and _has_equal(table), _equal_size),
    ("top-cells", attacks and _has_equal(table), _top_cells),
    ("single-changes", attacks and whole, _single_changes),
    ("edge-effects", attacks and whole, _edge_effects),
    ("search", len(table.ids) >= 50, lambda plt, t: _search(plt, t, objective)),
    ("confusion", bool(confusions), lambda plt, t: draw_confusions(plt, confusions or {})),
    ("confidence", bool(confidences), lambda plt, t: draw_confidences(plt, confidences)),
    ("measures", bool(measures) and attacks, lambda plt, t: _measures(plt, t, measures)),
  ]
  drawn = []
  with plotting() as plt:
    for name, there, draw in drawings:
      if there:
        figure = draw(plt, table)
        save_figure(figure, Path(out) / f"nas-{name}")
        plt.close(figure)
        drawn.append(name)
  return drawn


def _has_equal(table: Table) -> bool:
  return bool((analyses.kernel_counts(table) == KERNELS).any())


def _middle(table: Table) -> list[str]:
  """Returns one column per corruption, that of severity 3 or the only other one."""
  chosen: dict[str, str] = {}
  for name in table.corruptions():
    kind, _, severity = name.partition("@")
    if kind not in chosen or severity == "3":
      chosen[kind] = name
  return list(chosen.values())


def _ranges(plt: Any, table: Table, names: Sequence[str]) -> Any:
  """Draws a box for each column: extremes, quartiles, median, mean."""
  boxes = [
    {"med": r.median, "q1": r.quarter, "q3": r.three_quarters, "whislo": r.low, "whishi": r.high, "mean": r.mean}
    for r in analyses.ranges(table, names)
  ]
  figure, axes = plt.subplots(figsize=(1.5 + 0.24 * len(names), 3.6))
  axes.bxp(boxes, showfliers=False, showmeans=True, widths=0.6, medianprops={"color": COLORS[1]})
  axes.set_xticks(range(1, len(names) + 1), [label(name, 22) for name in names], rotation=70, ha="right", fontsize=6)
  axes.set_ylim(0, 1)
  axes.set_ylabel("accuracy")
  axes.set_title(f"{label(table.data)}, {len(table.ids)} cells")
  return figure


def _matrix(plt: Any, values: np.ndarray, rows: Sequence[str], columns: Sequence[str], title: str, span: float) -> Any:
  """Draws a map of numbers from -span to span."""
  figure, axes = plt.subplots(figsize=(1.8 + 0.34 * len(columns), 1.4 + 0.28 * len(rows)))
  axes.imshow(values, vmin=-span, vmax=span, cmap="RdBu", aspect="auto")
  axes.grid(visible=False)
  axes.set_xticks(range(len(columns)), [label(name, 22) for name in columns], rotation=60, ha="right", fontsize=6)
  axes.set_yticks(range(len(rows)), [label(name, 26) for name in rows], fontsize=6)
  if values.size <= 600:
    for row, column in np.argwhere(np.isfinite(values)):
      value = values[row, column]
      text = f"{value:.2f}" if span <= 1 else f"{value:g}"
      color = "white" if abs(value) > 0.6 * span else "black"
      axes.text(column, row, text, ha="center", va="center", fontsize=5, color=color)
  axes.set_title(title, fontsize=8)
  return figure


def _kendall(plt: Any, table: Table, names: Sequence[str]) -> Any:
  return _matrix(plt, analyses.correlations(table, names), names, names, f"Kendall's τ, {label(table.data)}", 1.0)


def _equal_size(plt: Any, table: Table) -> Any:
  """Draws robust against clean accuracy of all cells, those of equal size in another color."""
  same = analyses.equal_size(table, KERNELS)
  figure, axes = plt.subplots(figsize=(4.4, 4.0))
  axes.scatter(table["clean"], table["adversarial"], s=3, color=COLORS[7], label=f"all {len(table.ids)}")
  axes.scatter(same["clean"], same["adversarial"], s=5, color=COLORS[1], label=f"{KERNELS} kernel parameters")
  axes.set_xlabel("clean accuracy")
  axes.set_ylabel("mean accuracy under attacks")
  span = f"{same['adversarial'].min():.3f} to {same['adversarial'].max():.3f}"
  axes.set_title(f"{len(same.ids)} cells of equal size: {span}", fontsize=8)
  axes.legend(fontsize=6)
  return figure


def _top_cells(plt: Any, table: Table) -> Any:
  found = analyses.top_cells(table)
  edges = [f"edge {edge}" for edge in range(1, 7)]
  title = f"best {len(found.ids)} cells of equal size (first {found.ids[0]})"
  return _matrix(plt, found.counts.astype(float), edges, _SHORT, title, float(max(found.counts.max(), 1)))


def _single_changes(plt: Any, table: Table) -> Any:
  """Draws what each exchange of one operation does to the most robust cell."""
  best = int(table.ids[table["adversarial"].argmax()])
  names = ["clean", "adversarial", *(["corruption"] if table.corruptions() else [])]
  changes = analyses.single_changes(table, best, names)
  figure, axes = plt.subplots(figsize=(5.6, 4.6))
  places = np.arange(len(changes))
  for number, name in enumerate(names):
    values = [change.gains[name] for change in changes]
    axes.barh(places + 0.27 * (number - 1), values, height=0.26, color=COLORS[number], label=name)
  titles = [f"{change.edge}: {change.before} → {change.after}".replace("nor_", "") for change in changes]
  axes.set_yticks(places, titles, fontsize=5)
  axes.set_xlabel("change of accuracy")
  axes.set_title(f"one operation of cell {best} exchanged", fontsize=8)
  axes.legend(fontsize=6)
  return figure


def _edge_effects(plt: Any, table: Table) -> Any:
  found = analyses.edge_effects(table, "adversarial")
  edges = [f"edge {edge} ({share:.0%})" for edge, share in enumerate(found.shares, 1)]
  return _matrix(plt, found.effects, edges, _SHORT, "effect on mean robust accuracy (share of variance)", 0.1)


def _search(plt: Any, table: Table, objective: str) -> Any:
  """Draws the best value so far of each method, with its interval."""
  landscape = Landscape.of(table, *objective.split(","))
  figure, axes = plt.subplots(figsize=(4.8, 3.4))
  for color, method in zip(COLORS, (*METHODS, "bananas"), strict=False):
    line = curve(search(method, landscape, runs=30, queries=150))
    places = np.arange(1, len(line.mean) + 1)
    axes.plot(places, line.mean, color=color, linewidth=1.2, label=method)
    axes.fill_between(places, line.low, line.high, color=color, alpha=0.2, linewidth=0)
  axes.set_xlabel("queries")
  axes.set_ylabel(label(objective) if "," not in objective else "share of the hypervolume")
  axes.legend(fontsize=6)
  return figure


def _measures(plt: Any, table: Table, rows: Sequence[Mapping[str, float]]) -> Any:
  """Draws Kendall's τ between each measure and accuracy under each attack and corruption."""
  names = [name for name in rows[0] if name != "uid" and not name.endswith("gradients")]
  columns = ["clean", *table.attacks(), *_middle(table)]
  uids = [int(row["uid"]) for row in rows]
  accuracies = [table.spread(table[name])[uids] for name in columns]
  values = kendall_map([np.array([row[name] for row in rows]) for name in names], accuracies)
  return _matrix(plt, values, names, columns, f"Kendall's τ with accuracy, {len(rows)} cells", 1.0)
