"""Figure 4 of RobustART: what size, input, depth and kernels of subnets do to robustness, as PNG, PDF and SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jaxrobust.analysis.supernets import correlate, distinct
from jaxrobust.nas.supernets.study import StudyRow
from jaxrobust.report.plots import COLORS, label, plotting, save_figure

# A panel each: the factor, and the group of subnets that it is read from where there is one.
PANELS = (("params", "random"), ("size", "size"), ("last depth", "depth"), ("kernel", "kernel"))


def draw_factors(studies: Mapping[str, Sequence[StudyRow]], stem: str | Path) -> None:
  """Draws robust accuracy against each factor, a color per supernet, with the line of least squares.

  Args:
    studies: rows by the name of their supernet.
    stem: of the files.
  """
  with plotting() as plt:
    figure, grid = plt.subplots(1, len(PANELS), figsize=(3.0 * len(PANELS), 3.0))
    for axes, (factor, group) in zip(grid, PANELS, strict=True):
      for color, (name, rows) in zip(COLORS, studies.items(), strict=False):
        _draw(
          axes,
          distinct([row for row in rows if row.group == group and factor in row.factors]),
          factor,
          label(name),
          color,
        )
      if axes.get_legend_handles_labels()[1]:
        axes.legend(fontsize=6)
      axes.set_xlabel("weights, thousands" if factor == "params" else f"{factor} of the subnets")
    grid[0].set_ylabel("robust accuracy, %")
    save_figure(figure, Path(stem))
    plt.close(figure)


def _draw(axes: Any, rows: Sequence[StudyRow], factor: str, title: str, color: str) -> None:
  if not rows:
    return
  unit = 1e-3 if factor == "params" else 1.0
  x, y = unit * np.array([row.factors[factor] for row in rows]), 100 * np.array([row.robust for row in rows])
  r = correlate(x, y)
  said = f", r {r:+.2f}" if np.isfinite(r) else ""
  axes.scatter(x, y, s=6, color=color, alpha=0.6, linewidths=0, label=f"{title}{said}")
  if np.isfinite(r):
    slope, level = np.polyfit(x, y, 1)
    ends = np.array([x.min(), x.max()])
    axes.plot(ends, level + slope * ends, color=color, linewidth=1)
