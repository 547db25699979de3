"""Boards as tables for papers and spreadsheets: Markdown, CSV and LaTeX.

Markdown and LaTeX show per cent with one decimal; CSV has full precision, the interval and n of every number.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from pathlib import Path

from jaxrobust.core.terminal import csv_text
from jaxrobust.evaluation.metrics.proportions import Proportion
from jaxrobust.report.boards import Board
from jaxrobust.report.formats import latex_table, latex_text, markdown_table, markdown_text
from jaxrobust.report.site import write_if_new
from jaxrobust.results.cell import safe_name


def write_tables(boards: Sequence[Board], out: Path) -> list[Path]:
  """Returns one file per board and format."""
  kinds: dict[str, Callable[[Board], str]] = {"md": as_markdown, "csv": as_csv, "tex": as_latex}
  paths = []
  for board in boards:
    name = safe_name("-".join(part.replace("/", "_") for part in (board.data, board.threat, board.eps) if part))
    for kind, render in kinds.items():
      path = out / f"{name}.{kind}"
      write_if_new(path, render(board).encode("utf-8", "replace"))
      paths.append(path)
  return paths


def ranked(board: Board) -> list[tuple[str, tuple[Proportion | None, ...]]]:
  """Returns the rows of a board: the ranked models best first, then those that are not, by name."""
  first = list(board.rankings[0].numbers) if board.rankings else []
  return [(model, board.rows[model]) for model in (*first, *sorted(set(board.rows) - set(first)))]


def ranks(board: Board) -> dict[str, str]:
  """Returns what stands before each model: its rank, or nothing."""
  places = board.rankings[0].places() if board.rankings else {}
  return {model: str(places.get(model, "")) for model in board.rows}


def attacked_by(board: Board, model: str) -> str:
  """Says what a model was attacked by, and on how many examples where that differs."""
  entries = board.attacked.get(model, ())
  sizes = {n for _, n in entries}
  return ", ".join(label if len(sizes) == 1 else f"{label} (n = {n:,})" for label, n in entries)


def examples(board: Board, model: str) -> str:
  """Says how many examples a model's number is about."""
  sizes = sorted({n for _, n in board.attacked.get(model, ())})
  ranked = board.rankings and model in board.rankings[0].numbers
  shown = [board.rankings[0].n] if ranked else sizes[:1] + sizes[1:][-1:]
  return "–".join(f"{n:,}" for n in shown)


def ranked_by(board: Board) -> str:
  """Says what the first column counts, and why some models are listed below without a rank."""
  if not board.rankings:
    return ""
  ranking = board.rankings[0]
  labels = {column.key: column.label for column in board.columns}
  by = ", ".join(labels.get(attack, "clean accuracy") for attack in ranking.attacks)
  reasons = "; ".join(f"{model}: {reason}" for model, reason in sorted(ranking.others.items()))
  return f"Ranked by {by} on {ranking.n:,} examples." + (f" Not ranked: {reasons}." if reasons else "")


def as_markdown(board: Board) -> str:
  """Returns a GitHub table; names cannot leave their cell or become markup."""
  head = ["Rank", "Model", *(column.label for column in board.columns), "n", "Attacked by"]
  places = ranks(board)
  rows = [
    [places[model], markdown_text(model), *map(_shown, numbers), examples(board, model), attacked_by(board, model)]
    for model, numbers in ranked(board)
  ]
  note = f"\n{markdown_text(ranked_by(board))}\n" if board.rankings else ""
  return f"Accuracy in % on {markdown_text(board.name)}\n\n{markdown_table(head, rows, left=2)}{note}"


def as_csv(board: Board) -> str:
  """Returns one line per number."""
  buffer = io.StringIO()
  writer = csv.writer(buffer, lineterminator="\n")
  writer.writerow(["data", "norm", "eps", "model", "column", "accuracy", "low", "high", "n", "threat", "rank"])
  places = ranks(board)
  for model, numbers in ranked(board):
    for column, number in zip(board.columns, numbers, strict=True):
      if number is not None:
        values = [repr(number.value), repr(number.low), repr(number.high), number.n]
        names = [csv_text(board.data), board.norm, board.eps, csv_text(model), column.key]
        writer.writerow([*names, *values, csv_text(board.threat), places[model]])
  return buffer.getvalue()


def as_latex(board: Board) -> str:
  """Returns a `booktabs` table with the best number of each column in bold."""
  best = [
    max((number.value for number in column if number is not None), default=None)
    for column in zip(*board.rows.values(), strict=True)
  ]
  rows = []
  for model, numbers in ranked(board):
    shown = [
      rf"\textbf{{{_shown(number)}}}" if number is not None and number.value == top else _shown(number)
      for number, top in zip(numbers, best, strict=True)
    ]
    texts = [examples(board, model), latex_text(attacked_by(board, model))]
    rows.append([ranks(board)[model], latex_text(model), *shown, *texts])
  head = ["Rank", "Model", *(latex_text(column.label) for column in board.columns), "$n$", "Attacked by"]
  comment = f"Accuracy in per cent on {latex_text(board.name)}. {latex_text(ranked_by(board))}"
  return latex_table(comment, head, rows, left=2)


def _shown(number: Proportion | None) -> str:
  return "–" if number is None else f"{100 * number.value:.1f}"
