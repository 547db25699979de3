"""Plots of a zoo: trends with their lines and limits, degradation as boxes, correlations as a heat map."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jaxrobust.analysis.bootstrap import DRAWS, FEWEST_FOR_INTERVAL, expanded_level, resampled_lines
from jaxrobust.analysis.correlations import Correlations
from jaxrobust.analysis.degradation import box, catastrophic
from jaxrobust.analysis.lines import inverse_probit, to_scale
from jaxrobust.analysis.trends import Trend
from jaxrobust.analysis.zoo import Zoo
from jaxrobust.report.plots import COLORS, MOST_ROWS, label, labels, plotting, save_figure
from jaxrobust.results.cell import safe_name

_POINTS = 60
# Of groups beyond the colors.
_MARKS = "os^Dv"


def write_trend_plots(
  zoo: Zoo, trends: Sequence[Trend], drops: Mapping[str, np.ndarray], found: Correlations | None, out: Path
) -> int:
  """Draws everything there is to draw and returns how many plots there are, each in three formats.

  Args:
    zoo: models.
    trends: of the whole zoo and of its groups; those of a group are drawn into the plot of the whole.
    drops: ID minus OOD performance by shift.
    found: correlations of columns, or None.
    out: folder for the files.
  """
  figures = []
  with plotting() as plt:
    for trend in trends:
      if not trend.group:
        groups = [other for other in trends if other.group and (other.x, other.y) == (trend.x, trend.y)]
        figures.append((f"trend-{trend.x}-{trend.y}", _scatter(plt, trend, groups)))
    if drops:
      figures.append(("degradation", _boxes(plt, zoo, drops)))
    if found is not None and len(found.columns) > 1:
      figures.append(("correlations", _heat(plt, found)))
    for name, figure in figures:
      save_figure(figure, out / safe_name(name.replace("/", "_").replace(" ", "_")))
      plt.close(figure)
  return len(figures)


def _scatter(plt: Any, trend: Trend, groups: Sequence[Trend]) -> Any:
  """Draws models, their line with its 95 % band and, of accuracies, y = x and the upper limit."""
  x, y = trend.zoo.column(trend.x), trend.zoo.column(trend.y)
  top = trend.line.top
  figure, axes = plt.subplots(figsize=(4.8, 4.4))
  if trend.line.of_shares:
    places = np.linspace(0, top, _POINTS)
    axes.plot([0, top], [0, top], color="#8C8C8C", linewidth=0.8, linestyle=":", label="y = x")
    axes.set_xlim(0, top)
    axes.set_ylim(0, top)
  else:
    places = np.linspace(np.nanmin(x), np.nanmax(x), _POINTS)
  low, high = band(trend, places)
  axes.fill_between(places, low, high, color=COLORS[0], alpha=0.15, linewidth=0)
  sign = "+" if trend.line.intercept >= 0 else "−"
  slope = f"{trend.line.slope:.3f}" if trend.line.of_shares else f"{trend.line.slope:.3g}"
  text = f"{slope} x {sign} {abs(trend.line.intercept):.2f}, R² {trend.line.r2:.3f}"
  axes.plot(places, _expected(trend, places), color=COLORS[0], linewidth=1.2, label=text)
  for at, group in enumerate(groups):
    color, mark = COLORS[1 + at % (len(COLORS) - 1)], _MARKS[at // (len(COLORS) - 1) % len(_MARKS)]
    values = group.zoo.column(group.x), group.zoo.column(group.y)
    axes.scatter(*values, s=16, color=color, marker=mark, label=label(group.group, 24))
    axes.plot(places, _expected(group, places), color=color, linewidth=0.8)
  axes.scatter(x, y, s=16, color=COLORS[0], alpha=0.25 if groups else 0.8, zorder=0.9)
  if trend.limit is not None:
    ends = trend.intervals["limit"]
    bracket = f" [{ends.low:.1f}, {ends.high:.1f}]" if np.isfinite(ends.low) else ""
    text = f"limit {trend.limit:.1f}{bracket}"
    axes.axhline(trend.limit, color=COLORS[1], linewidth=0.8, linestyle="--", zorder=0.8, label=text)
  unit = ", %" if top == 100 else ""
  axes.set_xlabel(label(trend.x, 50) + unit)
  axes.set_ylabel(label(trend.y, 50) + unit)
  about = [part for part in (trend.zoo.source or "models", trend.zoo.date, f"n = {trend.line.n}") if part]
  axes.set_title(label(", ".join(about), 90), fontsize=6)
  axes.legend(frameon=True, framealpha=0.85, edgecolor="none", fontsize=7, loc="upper left")
  return figure


def band(trend: Trend, places: np.ndarray, draws: int = DRAWS) -> tuple[np.ndarray, np.ndarray]:
  """Bounds a line at every x by the lines through resampled models; at the top it is as wide as the limit's interval.

  Args:
    trend: the line and its models.
    places: x values.
    draws: zoos to resample.

  Returns:
    The lower and the upper edge, of accuracies inside [0, top]; the line itself where there are too few models.
  """
  line = trend.line
  x, y = trend.zoo.column(trend.x), trend.zoo.column(trend.y)
  known = np.isfinite(x) & np.isfinite(y)
  if known.sum() < FEWEST_FOR_INTERVAL:
    edges = [line.predict(places)] * 2
  else:
    x, y, at = (to_scale(values, line.scale, line.top) for values in (x[known], y[known], places))
    slope, intercept, _ = resampled_lines(x, y, draws)
    tail = (1 - expanded_level(x.size)) / 2
    edges = list(np.nanquantile(slope[:, None] * at + intercept[:, None], [tail, 1 - tail], axis=0))
    if line.scale == "probit":
      edges = [inverse_probit(edge, line.top) for edge in edges]
  low, high = (np.clip(edge, 0, line.top) if line.of_shares else edge for edge in edges)
  return low, high


def _expected(trend: Trend, places: np.ndarray) -> np.ndarray:
  """Returns the line at every x, inside the frame of accuracies."""
  expected = trend.line.predict(places)
  return np.clip(expected, 0, trend.line.top) if trend.line.of_shares else expected


def _boxes(plt: Any, zoo: Zoo, drops: Mapping[str, np.ndarray]) -> Any:
  """Draws what models lose under each shift; catastrophic falls in another color and with their names."""
  known = {name: values for name, values in drops.items() if np.isfinite(values).any()}
  falls = catastrophic(known, zoo.models)
  middle = {name: box(values).median for name, values in known.items()}
  # Where there are too many, shifts with catastrophic drops and then those with the largest.
  kept = sorted(known, key=lambda name: (name in {fall.shift for fall in falls}, middle[name]))[-MOST_ROWS:]
  names = sorted(kept, key=lambda name: middle[name])
  figure, axes = plt.subplots(figsize=(6, 1.2 + 0.28 * max(len(names), 1)))
  shapes = [box(known[name]) for name in names]
  statistics = [
    {
      "med": s.median,
      "q1": s.q1,
      "q3": s.q3,
      "whislo": s.low,
      "whishi": s.high,
      "fliers": known[name][list(s.outliers)],
    }
    for name, s in zip(names, shapes, strict=True)
  ]
  style = {"markersize": 3, "markeredgecolor": COLORS[0]}
  places = list(range(len(names)))
  axes.bxp(statistics, positions=places, vert=False, widths=0.6, flierprops=style, medianprops={"color": COLORS[1]})
  for shift in dict.fromkeys(fall.shift for fall in falls if fall.shift in names):
    # One text for all of a shift, the worst last: names side by side would cover one another.
    those = sorted((fall for fall in falls if fall.shift == shift), key=lambda fall: fall.drop)
    axes.plot([fall.drop for fall in those], [names.index(shift)] * len(those), "o", color=COLORS[1], markersize=4)
    text, place = ", ".join(label(fall.model, 24) for fall in those), (those[-1].drop, names.index(shift))
    axes.annotate(label(text, 80), place, xytext=(4, 7), textcoords="offset points", fontsize=6, ha="right")
  axes.set_yticks(places, labels(names))
  axes.set_xlabel("ID minus OOD, points")
  some = f", {len(names)} of {len(known)} shifts" if len(names) < len(known) else ""
  axes.set_title(label(f"{len(zoo)} models of {zoo.source or 'a table'}{some}", 90), fontsize=6)
  return figure


def _heat(plt: Any, found: Correlations) -> Any:
  """Draws the correlations of columns, from -1 to 1; those whose interval holds 0, or that have none, in gray."""
  names = found.columns[:MOST_ROWS]
  values = found.values[: len(names), : len(names)]
  figure, axes = plt.subplots(figsize=(2.6 + 0.46 * len(names), 2.0 + 0.4 * len(names)))
  axes.imshow(values, vmin=-1, vmax=1, cmap="RdBu", aspect="auto")
  axes.grid(visible=False)
  axes.set_xticks(range(len(names)), labels(names, 22), rotation=60, ha="right", fontsize=7)
  axes.set_yticks(range(len(names)), labels(names, 26), fontsize=7)
  for row, column in np.argwhere(np.isfinite(values)):
    value = values[row, column]
    # Also where there is no interval.
    unsure = row != column and not (found.low[row, column] > 0 or found.high[row, column] < 0)
    dark = abs(value) > 0.6
    color = ("#BBBBBB" if dark else "#777777") if unsure else "white" if dark else "black"
    axes.text(column, row, f"{value:.2f}", ha="center", va="center", fontsize=6, color=color)
  some = f", {len(names)} of {len(found.columns)} columns" if len(names) < len(found.columns) else ""
  axes.set_title({"pearson": "Pearson's r", "kendall": "Kendall's τ"}[found.kind] + some)
  return figure
