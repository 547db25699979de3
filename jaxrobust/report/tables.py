"""Boards as tables for papers and spreadsheets: Markdown, CSV and LaTeX.

Markdown and LaTeX show per cent with one decimal; CSV has full precision, the interval and n of every number.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from pathlib import Path

from jaxrobust.evaluation.metrics.proportions import Proportion
from jaxrobust.report.boards import Board
from jaxrobust.report.formats import csv_text, latex_table, latex_text, markdown_table, markdown_text
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
  """Returns the rows of a board, best first number first."""
  value = lambda numbers: -1.0 if numbers[0] is None else numbers[0].value
  return sorted(board.rows.items(), key=lambda row: (-value(row[1]), row[0]))


def as_markdown(board: Board) -> str:
  """Returns a GitHub table; names cannot leave their cell or become markup."""
  head = ["Model", *(column.label for column in board.columns)]
  rows = [[markdown_text(model), *(_shown(number) for number in numbers)] for model, numbers in ranked(board)]
  return f"Accuracy in % on {markdown_text(board.name)}\n\n{markdown_table(head, rows)}"


def as_csv(board: Board) -> str:
  """Returns one line per number."""
  buffer = io.StringIO()
  writer = csv.writer(buffer, lineterminator="\n")
  writer.writerow(["data", "norm", "eps", "model", "column", "accuracy", "low", "high", "n", "threat"])
  for model, numbers in ranked(board):
    for column, number in zip(board.columns, numbers, strict=True):
      if number is not None:
        values = [repr(number.value), repr(number.low), repr(number.high), number.n]
        names = [csv_text(board.data), board.norm, board.eps, csv_text(model), column.key]
        writer.writerow([*names, *values, csv_text(board.threat)])
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
    rows.append([latex_text(model), *shown])
  head = ["Model", *(latex_text(column.label) for column in board.columns)]
  return latex_table(f"Accuracy in per cent on {latex_text(board.name)}", head, rows)


def _shown(number: Proportion | None) -> str:
  return "–" if number is None else f"{100 * number.value:.1f}"
