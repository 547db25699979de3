"""Tables of many models as rows of a board: a few columns and means, in place of a hundred numbers for each."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from jaxrobust.report.boards import short_name
from jaxrobust.results.folder import Folder
from jaxrobust.results.metrics import MetricValue, SummaryFile
from jaxrobust.results.rows import parse_corruption
from jaxrobust.results.tables import ACCURACY, ResultTable, read_tables

# The budget at which attacks tell models apart, where a table has it (arXiv:2306.06712 searches at 1/255).
SHOWN_EPS = "1/255"


def table_summaries(folder: Folder, problems: list[str]) -> list[SummaryFile]:
  """Returns for each model of the tables its clean accuracy, accuracy under attacks at 1/255, and means."""
  groups: dict[tuple[str, str], list[tuple[str, ResultTable]]] = {}
  for path, table in read_tables(folder, lambda error: problems.append(str(error))):
    if ACCURACY in table.measures:
      groups.setdefault((table.name.partition("/")[0], table.data), []).append((path, table))
  return [summary for (name, data), tables in groups.items() for summary in _summaries(name, data, tables)]


def _summaries(name: str, data: str, tables: Iterable[tuple[str, ResultTable]]) -> list[SummaryFile]:
  parts: dict[str, dict[str, list[np.ndarray]]] = {"clean": {}, "attack": {}, "mean": {}}
  models: dict[str, int] = {}
  tables = list(tables)
  for _, table in tables:
    for model in table.models:
      models.setdefault(model, len(models))
  for _, table in tables:
    values = np.array(table.measures[ACCURACY], np.float64)
    rows = np.array([models[model] for model in table.models])
    for column, (condition, attack, eps) in enumerate(table.cells):
      spread = np.full(len(models), np.nan)
      spread[rows] = values[:, column]
      if attack != "none":
        parts["mean"].setdefault("adversarial accuracy", []).append(spread)
        if eps == SHOWN_EPS:
          parts["attack"].setdefault(f"{short_name(attack)}@{eps}", []).append(spread)
      elif parse_corruption(condition):
        parts["mean"].setdefault("corruption accuracy", []).append(spread)
      else:
        parts["clean"]["clean accuracy"] = [spread]
  columns = {title: np.mean(found, axis=0) for group in parts.values() for title, found in group.items()}
  n, path = tables[0][1].n, tables[0][0]
  folder = path.rpartition("/")[0] or path
  found = []
  for model, row in models.items():
    metrics = {
      title: MetricValue(float(values[row]), n=n) for title, values in columns.items() if np.isfinite(values[row])
    }
    found.append(SummaryFile(folder, model, name, data, "", "", metrics, {}, {}, (), n))
  return found
