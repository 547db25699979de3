"""Metrics of suites as columns of a zoo: frequency bias, Jacobian norms, areas under curves, whatever a summary holds.

`jaxrobust evaluate` leaves a `SUITE….summary.json` beside the cells of a model. Each of its metrics becomes a column
`SUITE: METRIC`, to be correlated with any other; one that is not whole says so, `oodrb: OOD_t [2 of 6]`. What the zoo
has already is not added twice.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from jaxrobust.analysis.zoo import METRIC, Zoo
from jaxrobust.results.folder import open_folder
from jaxrobust.results.metrics import SummaryFile, read_summaries


def add_metrics(zoo: Zoo, root: str | os.PathLike) -> Zoo:
  """Adds the metrics of all summaries in a results folder to the zoo of its cells.

  Args:
    zoo: from `zoo_cells.read_cells`.
    root: of the results.

  Returns:
    The zoo with more columns; NaN for models without a summary. Files that cannot be read become notes.
  """
  folder, notes = open_folder(root), []
  refuse = lambda path, reason: notes.append(f"{folder.show(path)}: {reason}")
  found = add_summaries(zoo, read_summaries(folder, refuse))
  return replace(found, notes=(*found.notes, *notes))


def add_summaries(zoo: Zoo, summaries: Iterable[SummaryFile]) -> Zoo:
  """Adds the metrics of summaries that have been read, but those that the zoo has computed from the same cells.

  Of several of a model the most complete counts. Columns of a suite that was run on several data sets or threats name
  them.
  """
  places = {model: row for row, model in enumerate(zoo.models)}
  best: dict[tuple[str, ...], SummaryFile] = {}
  for summary in summaries:
    key = summary.model, summary.suite, summary.data, summary.norm, summary.eps
    if summary.model in places and (key not in best or summary.completeness > best[key].completeness):
      best[key] = summary
  kinds = {key[1:] for key in best}
  columns: dict[str, np.ndarray] = {}
  for (model, *kind), summary in best.items():
    alone = sum(other[0] == summary.suite for other in kinds) == 1
    suite = summary.suite if alone else " ".join(filter(None, kind))
    for name, metric in summary.metrics.items():
      part = f" [{metric.cells} of {metric.whole}]" if metric.partial else ""
      values = columns.setdefault(f"{suite}{METRIC}{name}{part}", np.full(len(zoo), np.nan))
      values[places[model]] = metric.value
  added = {name: values for name, values in columns.items() if not _is_there(zoo, values)}
  return replace(zoo, columns={**zoo.columns, **added})


def _is_there(zoo: Zoo, shares: np.ndarray) -> bool:
  """Tells whether a metric is a column of the zoo already, in per cent: a suite's own means of the same cells are.

  Not all models need have the metric. One number may be anything's, and so may nothing but zeros, as of networks that
  every attack breaks.
  """
  known = np.isfinite(shares)
  wanted = 100 * shares[known]
  alike = (np.allclose(wanted, values[known], rtol=1e-9, atol=1e-9) for values in zoo.columns.values())
  return bool(wanted.size > 1 and np.any(wanted)) and any(alike)
