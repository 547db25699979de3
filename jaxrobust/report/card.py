"""The picture that a shared link shows: the best models of the first board, 1200 by 630 pixels (Open Graph)."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jaxrobust.report.boards import Board
from jaxrobust.report.plots import COLORS, label, plotting
from jaxrobust.report.site import CARD, write_if_new
from jaxrobust.report.tables import ranked

MOST = 6
DPI = 100


def write_card(boards: Sequence[Board], models: int, out: Path) -> None:
  """Writes the picture of a report; of the board with a threat that ranks the most models, or of the first."""
  if not boards:
    return
  board = max(boards, key=lambda one: (bool(one.threat), len(one.rows)))
  with plotting() as plt:
    figure = _draw(plt, board, models)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=DPI, facecolor="#FBFBFA")
    plt.close(figure)
  write_if_new(out / CARD, buffer.getvalue())


def _draw(plt: Any, board: Board, models: int) -> Any:
  rows = [(model, numbers[0]) for model, numbers in ranked(board) if numbers[0] is not None][:MOST]
  figure = plt.figure(figsize=(1200 / DPI, 630 / DPI), layout="none")
  axes = figure.add_axes((0.38, 0.12, 0.56, 0.6), facecolor="none")
  figure.text(0.05, 0.87, "How robust is each model?", fontsize=32, fontweight="bold", color="#1C1E21")
  count = "1 model" if models == 1 else f"{models:,} models"
  figure.text(0.05, 0.79, label(f"{board.name}, {count}", 80), fontsize=18, color="#5F656D")
  places = range(len(rows))
  values = [100 * number.value for _, number in rows]
  axes.barh(places, values, color=COLORS[0], height=0.62)
  for place, value in zip(places, values, strict=True):
    axes.text(value + 1, place, f"{value:.1f}", va="center", fontsize=17, fontweight="bold", color="#1C1E21")
  axes.set_yticks(places, [label(model, 30) for model, _ in rows], fontsize=17)
  axes.invert_yaxis()
  axes.set_xlim(0, max(100.0, *values) * 1.08 if values else 100.0)
  axes.set_xticks([])
  axes.grid(visible=False)
  for side in ("bottom", "left"):
    axes.spines[side].set_visible(False)
  axes.tick_params(axis="y", length=0)
  figure.text(0.05, 0.04, f"{board.columns[0].label.lower()} accuracy, %", fontsize=15, color="#5F656D")
  return figure
