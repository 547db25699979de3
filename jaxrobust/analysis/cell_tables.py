"""Two tables of NAS-Bench-201 cells side by side: do they rank the cells that both have alike?

Tables may differ in data set, training, attack and reading: those of a small run here and the published one, CIFAR-10
and ImageNet16-120 (rank correlation across data sets), a measure and an accuracy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from jaxrobust.analysis.ranking import kendall, kendall_interval
from jaxrobust.core.errors import InputError
from jaxrobust.core.nas_cells import isomorphs
from jaxrobust.nas.table import Table


class Agreement(NamedTuple):
  """The likeness of two columns in ranking the cells that both tables have.

  Attributes:
    first, second: the columns.
    tau: Kendall's τ_b.
    low, high: its 95 % interval, a bootstrap over cells; NaN with fewer than 8.
    cells: how many both have.
  """

  first: str
  second: str
  tau: float
  low: float
  high: float
  cells: int


def compare_tables(first: Table, second: Table, columns: Sequence[str], draws: int = 500) -> list[Agreement]:
  """Correlates columns of two tables over the cells that both have, isomorphic ones counted as the same.

  Args:
    first, second: of accuracies or measures.
    columns: a name for both, or two as `pgd-10@1=pgd@1`.
    draws: of the bootstrap.

  Returns:
    One row per column.

  >>> ids = np.arange(3)
  >>> one, two = (Table("cifar10", ids, {"clean": np.array(values)}) for values in ([.1, .2, .3], [.5, .4, .9]))
  >>> round(compare_tables(one, two, ["clean"])[0].tau, 4)
  0.3333
  """
  common = np.intersect1d(isomorphs()[first.ids], isomorphs()[second.ids])
  if len(common) < 2:
    raise InputError(f"the tables share {len(common)} cells; a rank correlation needs two")
  rows = []
  for text in columns:
    one, _, other = text.partition("=")
    other = other or one
    values = [table.spread(table[name])[common] for table, name in ((first, one), (second, other))]
    there = np.isfinite(values).all(axis=0)
    values = [column[there] for column in values]
    if there.sum() < 2:
      raise InputError(f"{int(there.sum())} cells have both {one} and {other}; a rank correlation needs two")
    ends = kendall_interval(values[0], values[1], draws)
    rows.append(Agreement(one, other, float(kendall(*values)), ends.low, ends.high, int(there.sum())))
  return rows
