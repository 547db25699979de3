"""Reports as a table on the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from jaxrobust.evaluation.evaluate import Report


def print_reports(title: str, reports: Sequence[Report]) -> None:
  """Robust accuracy in percent, one row per model and one column per attack."""
  columns = list(dict.fromkeys(column for report in reports for column in report.titles))
  table = Table(title=title)
  table.add_column("model")
  for column in columns:
    table.add_column(column, justify="right")
  for report in reports:
    values = report.accuracies()
    table.add_row(report.model, *(f"{100 * values[column]:.1f}" if column in values else "-" for column in columns))
  # Without a terminal, as wide as it takes: a table in a log file must not be cut.
  console = Console()
  Console(width=None if console.is_terminal else 40 + 24 * len(columns)).print(table)
  for report in reports:
    for column, result in zip(report.titles, report.results, strict=True):
      for finding in result.findings:
        print(
          f"finding: {report.model} {column}: {finding['kind']}: {finding['text']} ({finding['examples']} examples)"
        )
