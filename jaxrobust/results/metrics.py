"""Metrics of suites as rows: what the summaries beside the cells hold, one row per model, suite and metric.

`jaxrobust evaluate` leaves `MODEL/SUITE….summary.json`: the metrics of a paper, computed from the cells that it lists.
A metric is a number, or an object with `value` and perhaps `low`, `high`, `n`; one that is not whole says of how many
cells it was made and how many belong to it: `{"value": 0.4, "cells": 2, "of": 6}`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from jaxrobust.core.errors import CorruptFileError, StorageError
from jaxrobust.core.reading import loads
from jaxrobust.results.folder import Folder

SUMMARY = ".summary.json"
LARGEST_FILE = 64 * 2**20
# The columns of a row and their DuckDB types.
METRIC_COLUMNS = {
  "path": "VARCHAR",
  "model": "VARCHAR",
  "suite": "VARCHAR",
  "data": "VARCHAR",
  "norm": "VARCHAR",
  "eps": "VARCHAR",
  "metric": "VARCHAR",
  "value": "DOUBLE",
  "low": "DOUBLE",
  "high": "DOUBLE",
  "n": "BIGINT",
  "seed": "BIGINT",
  "cells": "BIGINT",
  "whole": "BIGINT",
  "partial": "BOOLEAN",
}


@dataclass(frozen=True)
class MetricValue:
  """One number of a suite.

  Attributes:
    low, high: its 95 % interval, where it has one.
    n: examples behind it, where it says so.
    cells, whole: of how many cells it was made, and how many it takes; None where it is whole.
  """

  value: float
  low: float | None = None
  high: float | None = None
  n: int | None = None
  cells: int | None = None
  whole: int | None = None

  @property
  def partial(self) -> bool:
    return self.cells is not None and self.whole is not None and self.cells < self.whole


def read_metric(entry: Any) -> MetricValue | None:
  """Reads one entry of a summary; None where it holds no number.

  >>> read_metric(0.4), read_metric({"value": 0.25, "cells": 2, "of": 6}).partial, read_metric(None)
  (MetricValue(value=0.4, low=None, high=None, n=None, cells=None, whole=None), True, None)
  """
  if not isinstance(entry, Mapping):
    entry = {"value": entry}
  value = _number(entry.get("value"))
  if value is None:
    return None
  cells, whole = _whole(entry.get("cells")), _whole(entry.get("of"))
  return MetricValue(value, _number(entry.get("low")), _number(entry.get("high")), _whole(entry.get("n")), cells, whole)


def _number(value: Any) -> float | None:
  known = isinstance(value, int | float) and not isinstance(value, bool)
  return float(value) if known and math.isfinite(value) and abs(value) < 2**63 else None


def _whole(value: Any) -> int | None:
  return value if type(value) is int and abs(value) < 2**63 else None


@dataclass(frozen=True, eq=False)
class SummaryFile:
  """The summary of one model under one suite.

  Attributes:
    path: of the file.
    metrics: by name, those that hold a number.
    tables, curves: as the suite wrote them.
    cells: names of the cells that all of it was computed from.
    n, seed: of the run, where the file says so; else n is that of the first metric that has one.
    partial: whether the run left out parts of the suite.
    units: of the metrics that are no shares of examples.
  """

  path: str
  model: str
  suite: str
  data: str
  norm: str
  eps: str
  metrics: Mapping[str, MetricValue]
  tables: Mapping[str, Any]
  curves: Mapping[str, Any]
  cells: tuple[str, ...]
  n: int | None = None
  seed: int | None = None
  partial: bool = False
  units: Mapping[str, str] = field(default_factory=dict)

  @property
  def completeness(self) -> tuple[bool, int, int, str]:
    """Orders summaries of one model under one suite: whole ones last, then by examples and cells."""
    return not self.partial, self.n or 0, len(self.cells), self.path


def parse_summary(path: str, raw: bytes) -> SummaryFile:
  """Returns the summary of a text; CorruptFileError for anything else."""
  try:
    document = loads(raw)
    model, metrics = document["model"], document["metrics"]
    suite = document.get("suite") or path.rpartition("/")[2].removesuffix(SUMMARY)
    found = {str(name): read_metric(entry) for name, entry in metrics.items()}
    threat = document.get("threat") or {}
    texts = (model, suite, document.get("data") or "", threat.get("norm") or "", threat.get("eps") or "")
    if not all(isinstance(text, str) for text in texts) or not model:
      raise TypeError("a name is not text")
    tables, curves, units, cells = (document.get(name) or {} for name in ("tables", "curves", "units", "cells"))
    if not all(isinstance(part, dict) for part in (tables, curves, units)) or not isinstance(cells, dict | list):
      raise TypeError("tables, curves or units are no objects")
  except (ValueError, KeyError, TypeError, AttributeError) as error:
    raise CorruptFileError(f"not a summary of metrics ({type(error).__name__}: {error})") from None
  known = {name: metric for name, metric in found.items() if metric is not None}
  n = _whole(document.get("n")) or next((metric.n for metric in known.values() if metric.n), None)
  names = tuple(map(str, cells))
  kinds = {name: str(unit) for name, unit in units.items()}
  seed, partial = _whole(document.get("seed")), document.get("partial") is True
  return SummaryFile(path, *texts, known, tables, curves, names, n, seed, partial, kinds)


def read_summaries(folder: Folder, on_error: Callable[[str, str], object]) -> Iterator[SummaryFile]:
  """Reads every summary of a folder; damaged ones go to `on_error` with their path."""
  files = sorted(file for file in folder.files() if file.path.endswith(SUMMARY) and file.size <= LARGEST_FILE)
  for file, raw in zip(files, folder.read([file.path for file in files]), strict=True):
    try:
      if isinstance(raw, StorageError):
        raise raw
      yield parse_summary(file.path, raw)
    except (CorruptFileError, StorageError) as error:
      on_error(file.path, str(error))


def metric_rows(summary: SummaryFile) -> list[dict[str, Any]]:
  """Returns a row per metric, with the columns of `METRIC_COLUMNS`."""
  shared = {name: getattr(summary, name) for name in ("path", "model", "suite", "data", "norm", "eps", "seed")}
  return [
    {
      **{name: text_of(value) for name, value in shared.items()},
      "metric": text_of(name),
      **{part: getattr(metric, part) for part in ("value", "low", "high", "cells", "whole", "partial")},
      "n": metric.n if metric.n is not None else summary.n,
    }
    for name, metric in summary.metrics.items()
  ]


def text_of(value: Any) -> Any:
  """Returns a text that UTF-8 can hold, and anything else as it is."""
  return value.encode("utf-8", "replace").decode("utf-8") if isinstance(value, str) else value
