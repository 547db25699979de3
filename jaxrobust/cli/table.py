"""Reports as a table on the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from jaxrobust.core.terminal import printable, say
from jaxrobust.evaluation.metrics.proportions import robust_proportion
from jaxrobust.evaluation.suites.report import Report

# Beside a number that has findings, which are printed below the table.
FOUND = " !"


def plain_cell(text: object) -> str:
  """Returns text for a table of rich: neither its markup nor a terminal's escapes mean anything in it."""
  return escape(printable(text))


def print_reports(title: str, reports: Sequence[Report]) -> None:
  """Prints robust accuracy in percent with its 95 % interval, one row per model and one column per attack."""
  columns = list(dict.fromkeys(column for report in reports for column in report.titles))
  table = Table(title=plain_cell(title))
  table.add_column("model")
  for column in columns:
    table.add_column(plain_cell(column), justify="right")
  for report in reports:
    found = zip(report.titles, report.results, strict=True)
    values = {
      title: str(robust_proportion(result.examples, result.summary)) + (FOUND if result.findings else "")
      for title, result in found
    }
    table.add_row(plain_cell(report.model), *(values.get(column, "-") for column in columns))
  # Without a terminal, as wide as it takes: a table in a log file must not be cut.
  console = Console()
  Console(width=None if console.is_terminal else 40 + 24 * len(columns)).print(table)
  for report in reports:
    print_findings(report)


def print_texts(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
  """Prints a table of texts, as wide as it takes where there is no terminal."""
  table = Table(title=plain_cell(title))
  for column in header:
    table.add_column(plain_cell(column), overflow="fold")
  for row in rows:
    table.add_row(*map(plain_cell, row))
  Console(width=None if Console().is_terminal else 40 + 24 * len(header)).print(table)


def print_findings(report: Report) -> None:
  """Says what a reader of the numbers must know, once for each kind and attack."""
  seen: dict[tuple[str, str, str], list[int]] = {}
  for title, result in zip(report.titles, report.results, strict=True):
    for finding in result.findings:
      seen.setdefault((title.split()[-1], finding["kind"], finding["text"]), []).append(finding["examples"])
  for (title, kind, text), counts in seen.items():
    cells = f" in {len(counts)} cells" if len(counts) > 1 else ""
    say(f"finding: {report.model} {title}: {kind}: {text} ({sum(counts)} examples{cells})")


def print_metrics(title: str, metrics: Mapping[str, Any], units: Mapping[str, str] | None = None) -> None:
  """Prints metrics: shares in percent with their intervals, others with their units, partial ones with their counts."""
  table = Table(title=plain_cell(title))
  for column in ("metric", "value", "95 %", "n"):
    table.add_column(column, justify="left" if column == "metric" else "right", overflow="fold")
  for name, value in metrics.items():
    table.add_row(plain_cell(name), *metric_texts(value, (units or {}).get(name)))
  console = Console()
  Console(width=None if console.is_terminal else 160).print(table)


def metric_texts(value: Any, unit: str | None = None) -> tuple[str, str, str]:
  """Returns a metric as text: its value, its interval, and the number of examples or what there is of it.

  >>> metric_texts({"value": 0.5, "low": 0.25, "high": 0.75, "n": 8}), metric_texts(30.9, "cycles")
  (('50.0 %', '25.0 … 75.0', '8'), ('30.9 cycles', '', ''))
  >>> metric_texts({"value": 2.5, "low": 1.25, "high": 3.75, "n": 8}, "nats")
  ('2.5 nats', '1.25 … 3.75', '8')
  >>> metric_texts({"value": -0.00652, "cells": 6, "of": 33}), metric_texts(None)
  (('-0.652 %', '', 'partial: 6 of 33 cells'), ('-', '', ''))
  """
  if value is None:
    return "-", "", ""
  if not isinstance(value, Mapping):
    return _number(value, unit), "", ""
  if "of" in value:
    return _number(value["value"], unit), "", f"partial: {value['cells']} of {value['of']} cells"
  if unit is not None:
    return _number(value["value"], unit), f"{value['low']:.4g} … {value['high']:.4g}", str(value["n"])
  return f"{100 * value['value']:.1f} %", f"{100 * value['low']:.1f} … {100 * value['high']:.1f}", str(value["n"])


def _number(value: float, unit: str | None) -> str:
  return f"{100 * value:.4g} %" if unit is None else f"{value:.4g} {unit}"
