"""Boards of suites as tables for papers: Markdown, CSV and LaTeX, and the best models by each metric."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from jaxrobust.core.terminal import csv_text
from jaxrobust.report.formats import latex_table, latex_text, markdown_table, markdown_text
from jaxrobust.report.site import write_if_new
from jaxrobust.report.suite_boards import AVERAGE, MEAN_RANK, SuiteBoard, top_models
from jaxrobust.results.cell import safe_name

TOP = 5


def write_suite_tables(boards: Sequence[SuiteBoard], out: Path) -> list[Path]:
  """Writes every board and its best models in each format."""
  paths = []
  for board in boards:
    texts = {"md": as_markdown(board), "csv": as_csv(board), "tex": as_latex(board)}
    top = {"md": top_markdown(board), "tex": top_latex(board)}
    files = {f"{board.file}": texts, f"{board.file}-top-{TOP}": top}
    for name, kinds in files.items():
      for kind, text in kinds.items():
        paths.append(out / f"{safe_name(name)}.{kind}")
        write_if_new(paths[-1], text.encode("utf-8", "replace"))
  return paths


def _head(board: SuiteBoard) -> list[str]:
  more = [AVERAGE] if board.averages else []
  return ["Model", *(column.title for column in board.columns), *more, MEAN_RANK]


def _texts(board: SuiteBoard, model: str) -> list[str]:
  numbers = [column.shown(board.metric(model, column.name)) for column in board.columns]
  average, rank = board.averages.get(model), board.mean_rank(model)
  more = ["–" if average is None else f"{100 * average:.1f}"] if board.averages else []
  return [*numbers, *more, "–" if rank is None else f"{rank:.2f}"]


def note(board: SuiteBoard) -> str:
  """Says how to read a board."""
  text = "Per cent; ranks are among whole numbers of equally many examples, (2 of 6) marks one that lacks cells."
  return text + (f" {AVERAGE} is over {', '.join(board.averaged)}." if board.averages else "")


def as_markdown(board: SuiteBoard) -> str:
  """Returns a GitHub table, the best of each column in bold."""
  rows = [[markdown_text(model), *_bold(board, model, "**{}**")] for model in board.rows]
  head = [markdown_text(text) for text in _head(board)]
  return f"{markdown_text(board.name)}\n\n{markdown_table(head, rows)}\n{markdown_text(note(board))}\n"


def as_latex(board: SuiteBoard) -> str:
  """Returns a `booktabs` table, the best of each column in bold."""
  rows = [[latex_text(model), *_bold(board, model, r"\textbf{{{}}}")] for model in board.rows]
  head = [latex_text(text) for text in _head(board)]
  return latex_table(f"{latex_text(board.name)}. {latex_text(note(board))}", head, rows)


def _bold(board: SuiteBoard, model: str, mark: str) -> list[str]:
  texts = _texts(board, model)
  for place, column in enumerate(board.columns):
    if board.ranks[column.name].get(model) == 1 and len(board.rows) > 1:
      texts[place] = mark.format(texts[place])
  return texts


def as_csv(board: SuiteBoard) -> str:
  """Returns one line per number, in full precision, with the summary it was read from."""
  buffer = io.StringIO()
  writer = csv.writer(buffer, lineterminator="\n")
  shared = ["suite", "data", "norm", "eps", "model"]
  writer.writerow([*shared, "metric", "value", "low", "high", "n", "cells", "whole", "rank", "path"])
  for model, summary in board.rows.items():
    names = [csv_text(text) for text in (board.suite, board.data, board.norm, board.eps, model)]
    for column in board.columns:
      metric = summary.metrics.get(column.name)
      if metric is not None:
        numbers = [metric.value, metric.low, metric.high, metric.n, metric.cells, metric.whole]
        texts = ["" if number is None else repr(number) for number in numbers]
        rank = board.ranks[column.name].get(model, "")
        writer.writerow([*names, csv_text(column.name), *texts, rank, csv_text(summary.path)])
  return buffer.getvalue()


def _top_rows(board: SuiteBoard) -> list[list[str]]:
  shown = {column.name: column.shown for column in board.columns}
  rows = []
  for name, entries in top_models(board, TOP).items():
    texts = [f"{model} ({shown[name](metric)})" for model, metric in entries]
    rows.append([name, *texts, *[""] * (TOP - len(texts))])
  return rows


def top_markdown(board: SuiteBoard) -> str:
  """Returns the best models by each metric."""
  rows = [[markdown_text(text) for text in row] for row in _top_rows(board)]
  head = ["Metric", *(str(place) for place in range(1, TOP + 1))]
  return f"The best {TOP} by each metric: {markdown_text(board.name)}\n\n{markdown_table(head, rows, left=TOP + 1)}"


def top_latex(board: SuiteBoard) -> str:
  """Returns the same for LaTeX."""
  rows = [[latex_text(text) for text in row] for row in _top_rows(board)]
  head = ["Metric", *(str(place) for place in range(1, TOP + 1))]
  return latex_table(f"The best {TOP} by each metric: {latex_text(board.name)}", head, rows, left=TOP + 1)
