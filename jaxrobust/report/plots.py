"""Plots for publications: curves, heat maps, bars and scatter, as PNG, PDF and SVG.

Drawn without a display and without the date, so that the same results give the same files.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jaxrobust.core.optional import require
from jaxrobust.report.boards import CLEAN, WORST, Board
from jaxrobust.report.cell_rows import CellRow
from jaxrobust.report.documents import budget_curves, transfer_maps
from jaxrobust.report.gap_plots import ProvedGap, find_gaps
from jaxrobust.report.site import write_if_new
from jaxrobust.report.tables import ranked
from jaxrobust.results.cell import safe_name
from jaxrobust.results.ids import is_certificate

KINDS = ("png", "pdf", "svg")
MOST_BARS, MOST_CURVES, MOST_GAPS, MOST_ROWS = 30, 8, 3, 40
# Okabe and Ito's colors, which people with color-vision deficiencies can tell apart.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C8C8C")
STYLE = {
  "font.size": 9,
  "axes.spines.top": False,
  "axes.spines.right": False,
  "axes.grid": True,
  "grid.color": "#E4E4E0",
  "axes.axisbelow": True,
  "figure.constrained_layout.use": True,
  "svg.hashsalt": "jaxrobust",
  "svg.fonttype": "none",
  "pdf.fonttype": 42,
  "savefig.dpi": 200,
}


def write_plots(models: Mapping[str, Sequence[CellRow]], boards: Sequence[Board], out: Path) -> int:
  """Writes all plots of a report and returns how many there are (each in three formats)."""
  drawings: list[tuple[str, Callable[[Any, Any], Any], Any]] = [
    *((f"bars-{_board_name(board)}", _bars, board) for board in boards),
    *((f"scatter-{_board_name(board)}", _scatter, board) for board in boards if board.threat and len(board.rows) > 1),
    *((f"curves-{'-'.join(key[:3])}", _curves, (key, curves)) for key, curves in _curve_groups(models).items()),
    *((f"gap-{'-'.join(key[:2])}", _gaps, (key, gaps)) for key, gaps in find_gaps(models).items()),
    *(
      (f"{part}-{item['data']}-{item['attack']}-n{item['n']}-{item['sources'][0]}", _transfer, (item, models, part))
      for item in transfer_maps(models)
      for part, (key, _) in TRANSFERS.items()
      if any(value is not None for row in item[key] for value in row)
    ),
    *((f"corruptions-{data}", _corruptions, (data, values)) for data, values in _corruption_groups(models).items()),
  ]
  with plotting() as plt:
    for name, draw, content in drawings:
      figure = draw(plt, content)
      save_figure(figure, out / safe_name(name.replace("/", "_")))
      plt.close(figure)
  return len(drawings)


@contextlib.contextmanager
def plotting() -> Iterator[Any]:
  """Gives matplotlib's pyplot, in our style and without a display."""
  matplotlib = require("matplotlib", "report", "drawing plots")
  plt = require("matplotlib.pyplot", "report", "drawing plots")
  plt.switch_backend("agg")
  with matplotlib.rc_context(STYLE), warnings.catch_warnings():
    # A glyph that no font has is drawn as a box, which is all there is to say about it.
    warnings.simplefilter("ignore")
    yield plt


def save_figure(figure: Any, stem: Path) -> None:
  """Writes a figure in every format, `stem` with the kind behind."""
  for kind in KINDS:
    buffer = io.BytesIO()
    dateless = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}.get(kind)
    figure.savefig(buffer, format=kind, metadata=dateless)
    write_if_new(stem.with_name(f"{stem.name}.{kind}"), buffer.getvalue())


def label(text: str, most: int = 34) -> str:
  """Returns any text as one line that matplotlib takes as text, not as formulas; of a long one both ends.

  >>> label("a$b$"), label("linf-robust accuracy", 12)
  ('a\\\\$b\\\\$', 'linf-r…uracy')
  """
  line = re.sub(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+", " ", text).encode("utf-8", "replace").decode("utf-8")
  line = line if len(line) <= most else line[: most // 2] + "…" + line[len(line) - (most - 1) // 2 :]
  return line.replace("$", r"\$")


def labels(texts: Sequence[str], most: int = 34) -> list[str]:
  """Returns labels of an axis: as short as `label` makes them, and longer where different texts would read the same.

  >>> labels(["network-a-of-long-name accuracy", "network-b-of-long-name accuracy"], 20)
  ['network-a-… accuracy', 'network-b-… accuracy']
  >>> len(set(labels(["lpips-of-a-network-lpa-200 robustness", "lpips-of-a-network-ppgd-40 robustness"], 20)))
  2
  """
  while len({label(text, most) for text in texts}) < len(set(texts)) and most < max(map(len, texts)):
    most += 4
  return [label(text, most) for text in texts]


def _board_name(board: Board) -> str:
  return "-".join(part for part in (board.data, board.threat, board.eps) if part)


def _bars(plt: Any, board: Board) -> Any:
  """Returns the first column of a board with its intervals, best first."""
  rows = [(model, numbers[0]) for model, numbers in ranked(board) if numbers[0] is not None][:MOST_BARS]
  figure, axes = plt.subplots(figsize=(6, 1.2 + 0.26 * max(len(rows), 1)))
  places = np.arange(len(rows))
  values = np.array([100 * number.value for _, number in rows])
  spread = [[100 * (n.value - n.low) for _, n in rows], [100 * (n.high - n.value) for _, n in rows]]
  axes.barh(places, values, color=COLORS[0], height=0.65)
  if rows:
    axes.errorbar(values, places, xerr=spread, fmt="none", ecolor="#333333", elinewidth=1, capsize=2)
  axes.set_yticks(places, [label(model) for model, _ in rows])
  axes.invert_yaxis()
  axes.grid(axis="y", visible=False)
  axes.set_xlim(0, 100)
  axes.set_xlabel(f"{board.columns[0].label.lower()} accuracy, % (95 % intervals)")
  axes.set_title(label(board.name, 70))
  return figure


def _scatter(plt: Any, board: Board) -> Any:
  """Draws robust against clean accuracy."""
  keys = [column.key for column in board.columns]
  pairs = [(model, numbers[keys.index(CLEAN.key)], numbers[keys.index(WORST.key)]) for model, numbers in ranked(board)]
  known = [(model, 100 * c.value, 100 * w.value) for model, c, w in pairs if c is not None and w is not None]
  figure, axes = plt.subplots(figsize=(4.6, 4.2))
  axes.scatter([clean for _, clean, _ in known], [worst for _, _, worst in known], s=22, color=COLORS[0])
  for model, clean, worst in known if len(known) <= 15 else ():
    axes.annotate(label(model, 20), (clean, worst), xytext=(4, 3), textcoords="offset points", fontsize=7)
  axes.set_xlabel("clean accuracy, %")
  axes.set_ylabel("robust accuracy, %")
  axes.set_title(label(board.name, 60))
  return figure


CurveKey = tuple[str, str, str, str]
"""Data set, threat, attack and the unit of the threat."""


def _curve_groups(models: Mapping[str, Sequence[CellRow]]) -> dict[CurveKey, list[tuple[str, list]]]:
  """Curves of all models by data set, threat and attack."""
  groups: dict[CurveKey, list[tuple[str, list]]] = {}
  for model, rows in models.items():
    for curve in budget_curves(rows):
      key = (curve["data"], curve["threat"], curve["attack"], curve["unit"])
      groups.setdefault(key, []).append((model, curve["points"]))
  return groups


def budget_label(threat: str, unit: str = "") -> str:
  """Returns the text at the axis of budgets.

  >>> budget_label("linf"), budget_label("l2"), budget_label("stadv", "pixels")
  ('budget × 255', 'l2 budget', 'stadv budget, pixels')
  """
  return "budget × 255" if threat == "linf" else f"{threat} budget{f', {unit}' if unit else ''}"


def _curves(plt: Any, content: tuple[CurveKey, list[tuple[str, list]]]) -> Any:
  """Draws accuracy against budget of the models with the largest areas under their curves."""
  (data, threat, attack, unit), curves = content
  figure, axes = plt.subplots(figsize=(5.2, 3.6))
  area = lambda points: -sum((x1 - x0) * (y0 + y1) for (x0, y0), (x1, y1) in itertools.pairwise(points))
  scale, drawn = 255 if threat == "linf" else 1, "steps-pre" if is_certificate(attack) else "default"
  for color, (model, points) in zip(
    COLORS, sorted(curves, key=lambda c: (area(c[1]), c[0]))[:MOST_CURVES], strict=False
  ):
    xs, ys = np.array(points).T
    marker = "o" if len(xs) < 12 else None
    axes.plot(scale * xs, ys, color=color, label=label(model), marker=marker, markersize=3, drawstyle=drawn)
  return _finish_curves(figure, axes, threat, unit, f"{data}, {attack}")


def _gaps(plt: Any, content: tuple[tuple[str, str, str], Mapping[str, ProvedGap]]) -> Any:
  """Draws what is proved, what attacks leave, and what is neither proved nor broken between, by budget."""
  (data, threat, unit), gaps = content
  figure, axes = plt.subplots(figsize=(5.2, 3.6))
  scale = 255 if threat == "linf" else 1
  for color, (model, gap) in zip(COLORS, list(gaps.items())[:MOST_GAPS], strict=False):
    axes.fill_between(scale * gap.budgets, gap.proved, gap.attacked, color=color, alpha=0.15, linewidth=0)
    axes.plot(scale * gap.budgets, gap.attacked, color=color, label=f"{label(model)}: under attack")
    axes.plot(scale * gap.budgets, gap.proved, color=color, linestyle="--", label=f"{label(model)}: proved")
  return _finish_curves(figure, axes, threat, unit, f"{data}: shaded is what is neither proved nor broken")


def _finish_curves(figure: Any, axes: Any, threat: str, unit: str, title: str) -> Any:
  axes.set_ylim(0, 100)
  axes.set_xlim(left=0)
  axes.set_xlabel(label(budget_label(threat, unit), 60))
  axes.set_ylabel("accuracy, %")
  axes.set_title(label(title, 60))
  axes.legend(frameon=False, fontsize=7)
  return figure


def _heat(plt: Any, title: str, rows: Sequence[str], columns: Sequence[str], values: np.ndarray) -> Any:
  figure, axes = plt.subplots(figsize=(2.4 + 0.42 * len(columns), 1.6 + 0.3 * len(rows)))
  axes.imshow(values, vmin=0, vmax=100, cmap="Blues", aspect="auto")
  axes.grid(visible=False)
  axes.set_xticks(range(len(columns)), [label(name, 22) for name in columns], rotation=60, ha="right", fontsize=7)
  axes.set_yticks(range(len(rows)), [label(name, 26) for name in rows], fontsize=7)
  for row, column in np.argwhere(np.isfinite(values)):
    value = values[row, column]
    axes.text(
      column, row, f"{value:.0f}", ha="center", va="center", fontsize=6, color="white" if value > 60 else "black"
    )
  axes.set_title("\n".join(label(line, 60) for line in title.split("\n")), fontsize=8)
  return figure


# The papers' maps show how often an attack succeeds (RobustART's figures 3, 16, 17; ARES-Bench's 7 and 8).
TRANSFERS = {
  "transfer": ("values", "accuracy"),
  "success": ("success", "attack success rate"),
  "both": ("both", "success where both are right"),
}


def _transfer(plt: Any, content: tuple[dict[str, Any], Iterable[str], str]) -> Any:
  """Draws what adversarial images made for sources (rows) do to targets (columns)."""
  item, part = content[0], content[2]
  names = list(content[1])
  key, word = TRANSFERS[part]
  values = np.array([[np.nan if v is None else v for v in row] for row in item[key]], float)
  title = f"{item['data']}, transfer of {item['attack']}\n{word}, %, n = {item['n']}"
  return _heat(plt, title, item["sources"], [names[target] for target in item["targets"]], values)


def _corruption_groups(models: Mapping[str, Sequence[CellRow]]) -> dict[str, dict[str, dict[str, list[float]]]]:
  """Returns accuracies by data set, model and corruption."""
  found: dict[str, dict[str, dict[str, list[float]]]] = {}
  for model, rows in models.items():
    for row in rows:
      if row.corruption and row.cell.attack == "none":
        names = found.setdefault(row.cell.data, {}).setdefault(model, {})
        names.setdefault(row.corruption[0], []).append(100 * row.number.value)
  return found


def _corruptions(plt: Any, content: tuple[str, dict[str, dict[str, list[float]]]]) -> Any:
  """Draws the accuracy of models (rows) under corruptions (columns), averaged over severities."""
  data, found = content
  columns = sorted({name for names in found.values() for name in names})
  values = np.array([[np.mean(names[c]) if c in names else np.nan for c in columns] for names in found.values()], float)
  return _heat(
    plt, f"{data}, mean accuracy over severities", list(found), [c.replace("_", " ") for c in columns], values
  )
