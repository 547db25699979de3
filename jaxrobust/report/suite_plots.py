"""Figures of suites: metrics over size, with and without a technique, curves, radar."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jaxrobust.evaluation.metrics.curves import Curve, crossings, is_success_rate
from jaxrobust.report.plots import COLORS, label, plotting, save_figure
from jaxrobust.report.suite_boards import MetricColumn, SuiteBoard, TechniqueEffect, suite_curves, technique_effects
from jaxrobust.results.cell import safe_name

MOST_MODELS = 8
ACROSS = 4
SIZES = {"params": "parameters, millions", "flops": "multiply-adds, millions"}


def write_suite_plots(boards: Sequence[SuiteBoard], out: Path) -> int:
  """Draws every figure that a board has numbers for and returns how many there are, each in three formats."""
  count = 0
  with plotting() as plt:
    for board in boards:
      figures: list[tuple[str, Any]] = [
        (f"over-{size}", _over_size(plt, board, size)) for size in SIZES if len(_sized(board, size)) > 1
      ]
      figures += [(f"technique-{effect.technique}", _bars(plt, board, effect)) for effect in technique_effects(board)]
      figures += [(f"curve-{title}", _curves(plt, board, title)) for title in suite_curves(board)]
      if len(board.rows) > 1 and len(radar_columns(board)) > 2:
        figures.append(("radar", _radar(plt, board)))
      for name, figure in figures:
        save_figure(figure, out / safe_name(f"{board.file}-{name}".replace("/", "_").replace(" ", "_")))
        plt.close(figure)
      count += len(figures)
  return count


def _sized(board: SuiteBoard, size: str) -> dict[str, float]:
  return {model: value for model in board.rows if (value := board.known(model, size)) is not None}


def _over_size(plt: Any, board: SuiteBoard, size: str) -> Any:
  """Draws every metric over the size of the networks (RobustART's figures 2 and 6 to 15)."""
  sizes, columns = _sized(board, size), board.columns
  down = math.ceil(len(columns) / ACROSS)
  ticks = np.geomspace(min(sizes.values()), max(sizes.values()), 3) / 1e6
  figure, grid = plt.subplots(down, ACROSS, figsize=(2.5 * ACROSS, 2.1 * down), squeeze=False)
  families = sorted({str(board.about.get(model, {}).get("family") or "unknown") for model in sizes})
  for place, axes in enumerate(grid.flat):
    if place >= len(columns):
      axes.set_visible(False)
      continue
    column = columns[place]
    for at, family in enumerate(families):
      points = [
        (sizes[model] / 1e6, (100 if column.share else 1) * metric.value, metric.partial)
        for model in sizes
        if str(board.about.get(model, {}).get("family") or "unknown") == family
        and (metric := board.metric(model, column.name)) is not None
      ]
      for hollow in (False, True):
        xs, ys = [p[0] for p in points if p[2] is hollow], [p[1] for p in points if p[2] is hollow]
        color = COLORS[at % len(COLORS)]
        axes.scatter(xs, ys, s=14, color="none" if hollow else color, edgecolors=color, label=label(family, 20))
    axes.set_xscale("log")
    axes.set_xticks(ticks, [f"{tick:.2g}" for tick in ticks])
    axes.xaxis.minorticks_off()
    axes.set_title(label(column.title, 34), fontsize=7)
    axes.tick_params(labelsize=6)
  for axes in grid[-1]:
    axes.set_xlabel(SIZES[size], fontsize=7)
  if 1 < len(families) <= len(COLORS):
    marks = [plt.Line2D([], [], marker="o", linestyle="", color=color, markersize=4) for color in COLORS]
    names = [label(family, 20) for family in families]
    figure.legend(marks[: len(families)], names, loc="outside lower center", ncols=4, fontsize=7, frameon=False)
  figure.suptitle(label(f"{board.name}; hollow: not whole", 90), fontsize=8)
  return figure


def _bars(plt: Any, board: SuiteBoard, effect: TechniqueEffect) -> Any:
  """Draws all metrics with and without a technique (RobustART's figures 5 and 18 to 29)."""
  names = [column.name for column in board.columns if column.name in effect.means and column.share]
  places = np.arange(len(names))
  figure, axes = plt.subplots(figsize=(1.6 + 0.5 * len(names), 3.2))
  for side, (word, shift) in enumerate((("without", -0.2), ("with", 0.2))):
    values = [100 * effect.means[name][side] for name in names]
    axes.bar(places + shift, values, width=0.38, color=COLORS[1 - side], label=f"{word} {label(effect.technique, 24)}")
  axes.set_xticks(places, [label(name, 26) for name in names], rotation=50, ha="right", fontsize=6)
  axes.grid(axis="x", visible=False)
  axes.set_ylabel("%")
  axes.legend(frameon=False, fontsize=7)
  axes.set_title(label(f"{board.name}: mean of {len(effect.pairs)} architectures", 80), fontsize=8)
  return figure


def _curves(plt: Any, board: SuiteBoard, title: str) -> Any:
  """Draws one curve of up to eight models, those that stand first on the board."""
  text, series = suite_curves(board)[title]
  figure, axes = plt.subplots(figsize=(5.2, 3.6))
  for color, (model, points) in zip(COLORS[:MOST_MODELS], series.items(), strict=False):
    xs, ys = np.array(points).T
    axes.plot(
      xs, ys, color=color, label=label(board.title(model), 44), marker="o" if len(xs) < 12 else None, markersize=3
    )
  if len(series) == 2:
    one, other = (Curve(*np.array(points).T) for points in series.values())
    for x in crossings(one, other):  # Before it one model is better, after it the other (ARES, arXiv:1912.11852).
      axes.plot(x, one.at(x), "o", markersize=9, markerfacecolor="none", markeredgecolor="black")
      axes.annotate(f"{x:.3g}", (x, one.at(x)), xytext=(6, 6), textcoords="offset points", fontsize=7)
  axes.set_ylim(0, None)
  axes.set_xlabel(label(text, 60))
  axes.set_ylabel("success rate, %" if is_success_rate(title) else "accuracy, %")
  more = f"; {MOST_MODELS} of {len(series)} models" if len(series) > MOST_MODELS else ""
  axes.set_title(label(f"{board.name}: {title}{more}", 80), fontsize=8)
  axes.legend(frameon=False, fontsize=7)
  return figure


def radar_columns(board: SuiteBoard) -> list[MetricColumn]:
  """Returns the axes of a radar: shares that every model shown has whole; single attacks only where nothing is left."""
  models = list(board.rows)[:MOST_MODELS]
  whole = [
    column
    for column in board.columns
    if column.share
    and all((m := board.metric(model, column.name)) is not None and not m.partial and m.value >= 0 for model in models)
  ]
  few = [column for column in whole if "@" not in column.name]
  return few if len(few) > 2 else whole


def _radar(plt: Any, board: SuiteBoard) -> Any:
  """Draws each model as a polygon over the metrics, the outer ring the best of each (ARES-Bench's figure 1)."""
  columns = radar_columns(board)
  angles = np.linspace(0, 2 * np.pi, len(columns), endpoint=False)
  figure, axes = plt.subplots(figsize=(5.2, 4.6), subplot_kw={"projection": "polar"})
  best = {c.name: max(_value(board, model, c) for model in list(board.rows)[:MOST_MODELS]) or 1.0 for c in columns}
  for color, model in zip(COLORS[:MOST_MODELS], board.rows, strict=False):
    values = [100 * _value(board, model, column) / best[column.name] for column in columns]
    axes.plot([*angles, angles[0]], [*values, values[0]], color=color, linewidth=1, label=label(board.title(model), 30))
  axes.set_xticks(
    angles, [f"{label(column.name, 22)}\n{100 * best[column.name]:.1f}" for column in columns], fontsize=6
  )
  axes.set_ylim(0, 100)
  axes.tick_params(axis="y", labelsize=5)
  axes.legend(frameon=False, fontsize=6, loc="upper left", bbox_to_anchor=(1.1, 1.1))
  axes.set_title(label(f"{board.name}: of the best, %", 70), fontsize=8)
  return figure


def _value(board: SuiteBoard, model: str, column: MetricColumn) -> float:
  metric = board.metric(model, column.name)
  return 0.0 if metric is None else metric.value
