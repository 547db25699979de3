"""Architecture search over a table: random, local, regularized evolution, BANANAS; one objective or several.

  landscape = Landscape.of(table, "fgsm@1")                        # or several columns: a Pareto search
  found = search("evolution", landscape, runs=100, queries=300, seed=0)
  found.best()                                                     # (100,) the best cell of each run
  curve(found)                                                     # best so far by query, mean with interval

A query looks up one cell; isomorphic cells share their value. Every run has its own generator, drawn from the seed and
its number, so runs do not depend on how many there are (those of BANANAS do: their predictors share draws). Constants
are NASLib's defaults (github.com/automl/NASLib), as arXiv:2306.06712 names methods but no settings; deviations are said
where they are. With several objectives every tournament, climb or batch weighs them anew at random (`pareto.Scale`),
and the result is a front.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from jaxrobust.core.errors import InputError
from jaxrobust.core.nas_cells import isomorphs
from jaxrobust.core.registry import unknown_name
from jaxrobust.nas import pareto
from jaxrobust.nas.space import connected, neighbors
from jaxrobust.nas.table import Table


@dataclasses.dataclass(frozen=True)
class Landscape:
  """Holds what a search may look up.

  Attributes:
    values: (15625, K) objectives of every cell, larger is better; NaN where unknown, which no method visits.
    starts: ids that random draws come from: known, and connected.
    names: of the objectives.
  """

  values: np.ndarray
  starts: np.ndarray
  names: tuple[str, ...]

  @classmethod
  def of(cls, table: Table, *names: str) -> Landscape:
    """Takes columns of a table as objectives; a leading "-" asks for small values, as of a measure or a size."""
    if not names:
      raise InputError("a search needs at least one objective")
    columns = [-table[name[1:]] if name.startswith("-") else table[name] for name in names]
    values = table.spread(np.stack(columns, axis=1))
    known = ~np.isnan(values).any(axis=1)
    starts = np.flatnonzero(known & connected())
    if not len(starts):
      raise InputError("no connected cell has all objectives")
    return cls(values, starts, names)

  def draw(self, rng: np.random.Generator) -> int:
    """Draws a cell at random."""
    return int(self.starts[rng.integers(len(self.starts))])

  def around(self, uid: int) -> np.ndarray:
    """Lists the known cells that differ by one operation."""
    near = neighbors()[uid]
    return near[~np.isnan(self.values[near]).any(axis=1)]

  def mutate(self, rng: np.random.Generator, uid: int) -> int:
    """Exchanges one operation at random."""
    near = self.around(uid)
    return int(near[rng.integers(len(near))]) if len(near) else self.draw(rng)


class Found(NamedTuple):
  """Holds what some runs of a search looked up.

  Attributes:
    ids: (runs, queries) cells in the order of their queries.
    landscape: that was searched.
  """

  ids: np.ndarray
  landscape: Landscape

  def best(self) -> np.ndarray:
    """Finds the best cell of each run, the first of equals; with several objectives by equal weights."""
    values = self.landscape.values[self.ids]
    shape = values.shape[2]
    scale = pareto.Scale(np.ones(shape), values.min(axis=(0, 1)), values.max(axis=(0, 1)))
    return np.take_along_axis(self.ids, scale(values).argmax(axis=1)[:, None], axis=1)[:, 0]

  def front(self) -> np.ndarray:
    """Finds the cells that no other cell of any run dominates, by id; of isomorphic ones the representative."""
    cells = np.unique(isomorphs()[self.ids])
    return cells[pareto.front(self.landscape.values[cells])]


def random_search(landscape: Landscape, rng: np.random.Generator, queries: int) -> list[int]:
  """Draws cells at random, with replacement (Li & Talwalkar 2019)."""
  return [landscape.draw(rng) for _ in range(queries)]


def local_search(landscape: Landscape, rng: np.random.Generator, queries: int, num_start: int = 10) -> list[int]:
  """Climbs to the best neighbor until none is better, then starts anew (White et al. 2021, arXiv:2005.02960).

  Args:
    landscape: to search.
    rng: draws starts and the order of neighbors.
    queries: to make.
    num_start: random cells, the best of which is the first start.

  Returns:
    Cells by query.
  """
  values = landscape.values
  asked = [landscape.draw(rng) for _ in range(num_start)]
  scale = pareto.Scale.draw(rng, values[asked])
  here = asked[scale(values[asked]).argmax()]
  while len(asked) < queries:
    around = rng.permutation(landscape.around(here))
    asked += around.tolist()
    scores = scale(values[around])
    if len(around) and scores.max() > scale(values[[here]])[0]:
      here = int(around[scores.argmax()])
    else:
      scale = pareto.Scale.draw(rng, values[asked])
      here = landscape.draw(rng)
      asked.append(here)
  return asked[:queries]


def evolution(
  landscape: Landscape, rng: np.random.Generator, queries: int, population: int = 30, sample: int = 10
) -> list[int]:
  """Mutates the best of a random sample of the youngest cells: regularized evolution (Real et al. 2019).

  Args:
    landscape: to search.
    rng: draws the first population, samples (with replacement) and mutations.
    queries: to make.
    population: cells alive; the oldest leaves for each new one.
    sample: cells of a tournament.

  Returns:
    Cells by query.
  """
  asked = [landscape.draw(rng) for _ in range(min(population, queries))]
  while len(asked) < queries:
    chosen = np.array(asked[-population:])[rng.integers(min(population, len(asked)), size=sample)]
    scale = pareto.Scale.draw(rng, landscape.values[asked])
    asked.append(landscape.mutate(rng, int(chosen[scale(landscape.values[chosen]).argmax()])))
  return asked


Method = Callable[..., list[int]]
METHODS: dict[str, Method] = {"random": random_search, "local": local_search, "evolution": evolution}


def search(
  method: str, landscape: Landscape, runs: int = 100, queries: int = 300, seed: int = 0, **options: int
) -> Found:
  """Runs a method several times.

  Args:
    method: "random", "local", "evolution" or "bananas".
    landscape: to search.
    runs: independent repetitions.
    queries: of each run.
    seed: of all draws.
    **options: of the method.

  Returns:
    The cells that every run looked up.
  """
  if runs < 1 or queries < 1:
    raise InputError(f"a search needs runs and queries, got {runs} and {queries}")
  generators = [np.random.default_rng((seed, run)) for run in range(runs)]
  if method == "bananas":
    from jaxrobust.nas.bananas import bananas  # Knows JAX; the others need none.

    return Found(bananas(landscape, generators, queries, **options), landscape)
  if method not in METHODS:
    raise unknown_name("search method", method, [*METHODS, "bananas"])
  ids = [METHODS[method](landscape, rng, queries, **options) for rng in generators]
  return Found(np.array(ids), landscape)


class SearchCurve(NamedTuple):
  """Says how good a search is after each query.

  Attributes:
    mean: (queries,) over runs.
    low, high: (queries,) normal 95 % interval of the mean: mean ± 1.96 deviations / sqrt(runs).
    runs: how many.
  """

  mean: np.ndarray
  low: np.ndarray
  high: np.ndarray
  runs: int


def curve(found: Found) -> SearchCurve:
  """Follows the best value so far; with several objectives the share of the table's hypervolume dominated so far.

  The hypervolume's reference point is the worst value of each objective in the table.
  """
  values = found.landscape.values[found.ids]
  if values.shape[2] == 1:
    best = np.maximum.accumulate(values[:, :, 0], axis=1)
  else:
    known = found.landscape.values[~np.isnan(found.landscape.values).any(axis=1)]
    reference = known.min(axis=0)
    whole = pareto.hypervolume(known, reference)
    best = np.array([_volumes(run, reference) for run in values]) / whole
  half = 1.96 * best.std(axis=0, ddof=1) / np.sqrt(len(best)) if len(best) > 1 else np.full(best.shape[1], np.nan)
  mean = best.mean(axis=0)
  return SearchCurve(mean, mean - half, mean + half, len(best))


def _volumes(values: np.ndarray, reference: np.ndarray) -> list[float]:
  """Returns the hypervolume after each query; computed only where the front changes."""
  kept, volumes, volume = np.empty((0, values.shape[1])), [], 0.0
  for row in values:
    if not np.any(np.all(kept >= row, axis=1)):
      kept = np.vstack([kept[~pareto.dominates(row, kept)], row])
      volume = pareto.hypervolume(kept, reference)
    volumes.append(volume)
  return volumes


def report(found: Found, table: Table, names: list[str]) -> dict[str, float]:
  """Averages columns of a table over the best cells of all runs, as the rows of the paper's table 1.

  Args:
    found: by a search.
    table: with the columns.
    names: of the columns, whatever the objective was.

  Returns:
    Means by column.
  """
  best = found.best()
  return {name: float(table.spread(table[name])[best].mean()) for name in names}
