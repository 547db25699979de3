"""Boards of suites as the page reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jaxrobust.report.suite_boards import SuiteBoard, suite_curves, technique_effects
from jaxrobust.report.suite_tables import note
from jaxrobust.results.metrics import MetricValue

DIGITS = 6


def suite_documents(boards: Sequence[SuiteBoard], order: Mapping[str, int]) -> list[dict[str, Any]]:
  """Returns one document per board; models by their place in the index, or None where only a summary knows them."""
  return [_document(board, order) for board in boards]


def _document(board: SuiteBoard, order: Mapping[str, int]) -> dict[str, Any]:
  names = list(board.rows)
  at = {model: place for place, model in enumerate(names)}
  rows = [
    {
      "model": order.get(model),
      "name": model,
      "title": board.title(model),
      "path": summary.path,
      "partial": summary.partial,
      "cells": list(summary.cells),
      "numbers": [_number(board.metric(model, column.name), column.share) for column in board.columns],
      "ranks": [board.ranks[column.name].get(model) for column in board.columns],
      "average": None if model not in board.averages else round(100 * board.averages[model], 4),
      "rank": None if (rank := board.mean_rank(model)) is None else round(rank, 3),
      "params": board.known(model, "params"),
      "flops": board.known(model, "flops"),
      "family": board.about.get(model, {}).get("family"),
    }
    for model, summary in board.rows.items()
  ]
  curves = [
    {"title": title, "x": text, "series": [[at[model], points] for model, points in series.items()]}
    for title, (text, series) in suite_curves(board).items()
  ]
  effects = [
    {
      "technique": effect.technique,
      "pairs": [list(pair) for pair in effect.pairs],
      "means": [
        [round(100 * value, 4) for value in effect.means[column.name]]
        if column.share and column.name in effect.means
        else None
        for column in board.columns
      ],
    }
    for effect in technique_effects(board)
  ]
  return {
    "name": board.name,
    "note": note(board),
    "averaged": list(board.averaged) if board.averages else [],
    "columns": [{part: getattr(column, part) for part in ("name", "title", "share", "n")} for column in board.columns],
    "rows": rows,
    "curves": curves,
    "effects": effects,
  }


def _number(metric: MetricValue | None, share: bool) -> list[Any] | None:
  """Returns value, low, high (per cent for shares), n, and the cells it has and takes where it is not whole."""
  if metric is None:
    return None
  scale = 100 if share else 1
  ends = [None if end is None else round(scale * end, DIGITS) for end in (metric.low, metric.high)]
  part = [metric.cells, metric.whole] if metric.partial else [None, None]
  return [round(scale * metric.value, DIGITS), *ends, metric.n, *part]
