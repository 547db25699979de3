"""Boards as tables for papers and spreadsheets: Markdown, CSV and LaTeX.

Markdown and LaTeX show per cent with one decimal; CSV has full precision, the interval and n of every number.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from jaxrobust.analysis.proportions import Proportion
from jaxrobust.report.boards import Board
from jaxrobust.report.site import write_if_new
from jaxrobust.results.cell import safe_name

_LATEX = {
  "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
  "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
}  # fmt: skip


def write_tables(boards: Sequence[Board], out: Path) -> list[Path]:
  """One file per board and format."""
  kinds: dict[str, Callable[[Board], str]] = {"md": as_markdown, "csv": as_csv, "tex": as_latex}
  paths = []
  for board in boards:
    name = safe_name("-".join(part.replace("/", "_") for part in (board.data, board.norm, board.eps) if part))
    for kind, render in kinds.items():
      path = out / f"{name}.{kind}"
      write_if_new(path, render(board).encode("utf-8", "replace"))
      paths.append(path)
  return paths


def ranked(board: Board) -> list[tuple[str, tuple[Proportion | None, ...]]]:
  """The rows of a board, best first number first."""
  value = lambda numbers: -1.0 if numbers[0] is None else numbers[0].value
  return sorted(board.rows.items(), key=lambda row: (-value(row[1]), row[0]))


def as_markdown(board: Board) -> str:
  """A GitHub table; names cannot leave their cell or become markup."""
  head = ["Model", *(column.label for column in board.columns)]
  rows = [[_markdown(model), *(_shown(number) for number in numbers)] for model, numbers in ranked(board)]
  lines = [head, ["---", *("---:" for _ in board.columns)], *rows]
  text = "\n".join(f"| {' | '.join(line)} |" for line in lines)
  return f"Accuracy in % on {_markdown(board.name)}\n\n{text}\n"


def as_csv(board: Board) -> str:
  """One line per number."""
  buffer = io.StringIO()
  writer = csv.writer(buffer, lineterminator="\n")
  writer.writerow(["data", "norm", "eps", "model", "column", "accuracy", "low", "high", "n"])
  for model, numbers in ranked(board):
    for column, number in zip(board.columns, numbers, strict=True):
      if number is not None:
        values = [repr(number.value), repr(number.low), repr(number.high), number.n]
        writer.writerow([_cell(board.data), board.norm, board.eps, _cell(model), column.key, *values])
  return buffer.getvalue()


def as_latex(board: Board) -> str:
  """A `booktabs` table with the best number of each column in bold."""
  best = [
    max((number.value for number in column if number is not None), default=None)
    for column in zip(*board.rows.values(), strict=True)
  ]
  lines = []
  for model, numbers in ranked(board):
    shown = [
      rf"\textbf{{{_shown(number)}}}" if number is not None and number.value == top else _shown(number)
      for number, top in zip(numbers, best, strict=True)
    ]
    lines.append(" & ".join([_latex(model), *shown]) + r" \\")
  head = " & ".join(["Model", *(_latex(column.label) for column in board.columns)]) + r" \\"
  return "\n".join(
    [
      rf"% Accuracy in per cent on {_latex(board.name)}; needs the package booktabs.",
      rf"\begin{{tabular}}{{l{'r' * len(board.columns)}}}",
      r"\toprule",
      head,
      r"\midrule",
      *lines,
      r"\bottomrule",
      r"\end{tabular}",
      "",
    ]
  )


def _shown(number: Proportion | None) -> str:
  return "–" if number is None else f"{100 * number.value:.1f}"


def _one_line(text: str) -> str:
  return re.sub(r"[\x00-\x1f\x7f\u2028\u2029]+", " ", text)


def _markdown(text: str) -> str:
  """Text as text: every character that Markdown or HTML gives a meaning is escaped."""
  escaped = re.sub(r"([\\`*_{}\[\]()#!|~$@])", r"\\\1", _one_line(text))
  return escaped.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _latex(text: str) -> str:
  return "".join(_LATEX.get(character, character) for character in _one_line(text))


def _cell(text: str) -> str:
  """Spreadsheets run what begins like a formula; an apostrophe stops them."""
  text = _one_line(text)
  return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t") else text
