"""What a table of all cells says about architecture: the analyses of arXiv:2306.06712, each a function of a `Table`.

  correlations     Kendall's τ between columns                      figures 3, 5, 17, 23–25
  ranges           quartiles of a column over all cells             figures 2, 4, 19–22
  optima           the best cell by each column                     table 1, figure 26
  equal_size       cells with the same number of kernel parameters  figures 27, 28
  top_cells        the best of them, and their operations by edge   figures 7, 29
  single_changes   one operation exchanged                          figure 30
  edge_effects     what each operation on each edge adds            ours

All 15,625 cells are a complete factorial design: each operation stands on each edge in 3,125 of them, with every
combination of the others. So plain means are exact main effects, and variances add up without a fit.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from jaxrobust.core.errors import InputError
from jaxrobust.core.nas_cells import EDGES, OPERATIONS, all_cells, operations_of
from jaxrobust.nas.rank_correlation import kendall_map
from jaxrobust.nas.space import id_of, kernel_params
from jaxrobust.nas.table import Table


def correlations(table: Table, names: Sequence[str], others: Sequence[str] | None = None) -> np.ndarray:
  """Computes Kendall's τ_b between columns over all unique cells.

  Args:
    table: of accuracies.
    names: of K columns.
    others: of L columns; the same by default.

  Returns:
    (K, L) matrix.
  """
  columns = [table[name] for name in names]
  return kendall_map(columns, None if others is None else [table[name] for name in others])


class Range(NamedTuple):
  """A box of a box plot: extremes, quartiles, mean."""

  name: str
  low: float
  quarter: float
  median: float
  three_quarters: float
  high: float
  mean: float


def ranges(table: Table, names: Sequence[str]) -> list[Range]:
  """Summarizes columns over all unique cells."""
  found = []
  for name in names:
    values = table[name]
    low, quarter, median, three_quarters, high = np.quantile(values, (0, 0.25, 0.5, 0.75, 1)).tolist()
    found.append(Range(name, low, quarter, median, three_quarters, high, float(values.mean())))
  return found


class Optimum(NamedTuple):
  """The best value of a column, and the cells that have it: rounded accuracies tie."""

  name: str
  value: float
  ids: tuple[int, ...]


def optima(table: Table, names: Sequence[str]) -> list[Optimum]:
  """Finds the best cells by each column."""
  best = {name: table[name].max() for name in names}
  return [Optimum(name, float(best[name]), tuple(table.ids[table[name] == best[name]].tolist())) for name in names]


def kernel_counts(table: Table) -> np.ndarray:
  """Counts the live kernel parameters of each cell of a table."""
  return np.array([kernel_params(cell) for cell in table.operations.tolist()])


def equal_size(table: Table, kernels: int = 18) -> Table:
  """Keeps the cells with this many live kernel parameters; 18 are two 3×3 convolutions.

  Args:
    table: of accuracies.
    kernels: 0 to 54, counted by `space.kernel_params`.

  Returns:
    A table of them; 408 cells for 18.
  """
  chosen = kernel_counts(table) == kernels
  if not chosen.any():
    raise InputError(f"no cell has {kernels} kernel parameters")
  return table.take(chosen)


class TopCells(NamedTuple):
  """The best cells by a column, best first.

  Attributes:
    ids: (n,) cells.
    values: (n,) of the column.
    operations: (n, 6).
    counts: (6, 5) how often each operation stands on each edge.
  """

  ids: np.ndarray
  values: np.ndarray
  operations: np.ndarray
  counts: np.ndarray


def top_cells(table: Table, name: str = "adversarial", n: int = 20, kernels: int | None = 18) -> TopCells:
  """Ranks cells by a column, among those of equal size.

  Args:
    table: of accuracies.
    name: of the column.
    n: how many.
    kernels: live kernel parameters; None ranks all cells.

  Returns:
    The best, ties by the smaller id.
  """
  chosen = table if kernels is None else equal_size(table, kernels)
  order = np.lexsort((chosen.ids, -chosen[name]))[:n]
  cells = chosen.operations[order]
  counts = np.stack([(cells == operation).sum(axis=0) for operation in range(len(OPERATIONS))], axis=1)
  return TopCells(chosen.ids[order], chosen[name][order], cells, counts)


class Change(NamedTuple):
  """One operation of a cell exchanged.

  Attributes:
    edge: 1 to 6, as the paper counts.
    before, after: names of the operations.
    uid: the cell afterwards.
    gains: by column, value afterwards less value before.
  """

  edge: int
  before: str
  after: str
  uid: int
  gains: dict[str, float]


def single_changes(
  table: Table, uid: int, names: Sequence[str] = ("clean", "adversarial", "corruption")
) -> list[Change]:
  """Lists what each of the 24 single exchanges does to a cell.

  Args:
    table: of accuracies.
    uid: the cell to start from.
    names: of the columns to compare.

  Returns:
    24 changes by edge and new operation; isomorphic cells share their values.
  """
  cell = operations_of(uid)
  values = {name: table.spread(table[name]) for name in names}
  changes = []
  for edge, after in itertools.product(range(len(EDGES)), range(len(OPERATIONS))):
    if after != cell[edge]:
      new = id_of((*cell[:edge], after, *cell[edge + 1 :]))
      gains = {name: float(column[new] - column[uid]) for name, column in values.items()}
      changes.append(Change(edge + 1, OPERATIONS[cell[edge]], OPERATIONS[after], new, gains))
  return changes


class EdgeEffects(NamedTuple):
  """Says how a column depends on operations and edges, over all 15,625 cells.

  Attributes:
    mean: of the column.
    effects: (6, 5) mean with an operation on an edge, less `mean`.
    shares: (6,) of the variance, by edge alone.
    pairs: (6, 6) of the variance, by what two edges do together beyond their own effects; symmetric, zero diagonal.
  """

  mean: float
  effects: np.ndarray
  shares: np.ndarray
  pairs: np.ndarray


def edge_effects(table: Table, name: str) -> EdgeEffects:
  """Splits the variance of a column into edges and pairs of edges: an analysis of variance without a residual model.

  Args:
    table: of accuracies of every unique cell.
    name: of the column.

  Returns:
    Effects, and shares of the variance; what they leave to 1 takes three edges or more.
  """
  values = table.spread(table[name])
  if np.isnan(values).any():
    raise InputError("effects of edges need a table of all unique cells")
  grid = np.empty((len(OPERATIONS),) * len(EDGES))
  grid[tuple(all_cells().T)] = values
  centered, axes = grid - grid.mean(), range(len(EDGES))
  keep = lambda *kept: centered.mean(axis=tuple(axis for axis in axes if axis not in kept))
  effects, total = np.stack([keep(edge) for edge in axes]), float(np.square(centered).mean())
  pairs = np.zeros((len(EDGES), len(EDGES)))
  for first, second in itertools.combinations(axes, 2):
    joint = keep(first, second) - effects[first][:, None] - effects[second]
    pairs[first, second] = pairs[second, first] = np.square(joint).mean() / total
  return EdgeEffects(float(grid.mean()), effects, np.square(effects).mean(axis=1) / total, pairs)
