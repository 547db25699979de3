"""Metrics of suites as columns of a zoo: frequency bias, Jacobian norms, areas under curves, whatever a summary holds.

`jaxrobust evaluate` leaves a `….summary.json` beside the cells of a model. Each of its metrics becomes a column
`SUITE: METRIC`, to be correlated with any other.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from jaxrobust.analysis.zoo import Zoo
from jaxrobust.core.errors import StorageError
from jaxrobust.results.folder import open_folder
from jaxrobust.results.plain import loads

SUMMARY = ".summary.json"
LARGEST_FILE = 64 * 2**20


def add_metrics(zoo: Zoo, root: str | os.PathLike) -> Zoo:
  """Adds the metrics of all summaries in a results folder to the zoo of its cells.

  Args:
    zoo: from `zoo_cells.read_cells`.
    root: of the results.

  Returns:
    The zoo with more columns; NaN for models without a summary. Files that cannot be read become notes.
  """
  folder, notes = open_folder(root), []
  files = [file for file in folder.files() if file.path.endswith(SUMMARY) and file.size <= LARGEST_FILE]
  places = {model: row for row, model in enumerate(zoo.models)}
  columns: dict[str, np.ndarray] = {}
  for file, raw in zip(files, folder.read([file.path for file in files]), strict=True):
    try:
      if isinstance(raw, StorageError):
        raise ValueError(str(raw))
      document = loads(raw)
      model, metrics = document["model"], document["metrics"]
      suite = str(document.get("suite") or file.path.rpartition("/")[2].removesuffix(SUMMARY))
      found = metric_values(metrics)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
      notes.append(f"{folder.show(file.path)}: not a summary of metrics ({error})")
      continue
    if model in places:
      for name, value in found.items():
        values = columns.setdefault(f"{suite}: {name}", np.full(len(zoo), np.nan))
        values[places[model]] = value
  return replace(zoo, columns={**zoo.columns, **columns}, notes=(*zoo.notes, *notes))


def metric_values(metrics: Mapping[str, Any]) -> dict[str, float]:
  """Picks the metrics that are one number, or a proportion with its interval.

  >>> metric_values({"frequency bias": 0.4, "accuracy": {"value": 0.9, "low": 0.8, "high": 1.0, "n": 9}, "NSD": None})
  {'frequency bias': 0.4, 'accuracy': 0.9}

  A number that is not whole is none:

  >>> metric_values({"OOD_t": {"value": 0.4, "cells": 2, "of": 6}})
  {}
  """
  found = {}
  for name, entry in metrics.items():
    if isinstance(entry, Mapping) and "of" in entry:
      continue
    value = entry.get("value") if isinstance(entry, Mapping) else entry
    if isinstance(value, int | float) and not isinstance(value, bool):
      found[name] = float(value)
  return found
