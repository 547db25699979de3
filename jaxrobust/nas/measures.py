"""Measures of cells beside each other: Jacobian norms and Hessian eigenvalues, at initialization and after training.

`measure` takes one classifier; `measure_cells` many cells, whose programs are compiled once. Values are the mean over
images of the Jacobian's Frobenius norm (`Jacobian.norm`), the mean over images of the largest eigenvalue of the input
Hessian, and that of the weights' Hessian for a whole batch; over several batches their mean, as arXiv:2306.06712 takes
it over ten of 256. Each comes with its cost in gradients per image.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxrobust.core.classifier import Classifier
from jaxrobust.core.nas_cells import operations_of
from jaxrobust.core.registry import unknown_name
from jaxrobust.nas.hessian import largest_eigenvalue
from jaxrobust.nas.jacobian import jacobian
from jaxrobust.nas.one_program import OneProgram
from jaxrobust.nas.space import isomorph

MEASURES = ("jacobian", "hessian-input", "hessian-weights")
# Behind the name of a measure: of untrained weights; gradients that it took.
INIT, COST = " init", " gradients"
Batch = tuple[Any, Any]


class CellMeasure(NamedTuple):
  """A measure of a network.

  Attributes:
    value: of it.
    gradients: that it took for each image; a product with the Hessian counts as two.
  """

  value: float
  gradients: float


def check_measures(names: Iterable[str]) -> None:
  """Refuses what is no measure."""
  for name in names:
    if name not in MEASURES:
      raise unknown_name("measure", name, list(MEASURES))


def measure(
  name: str, classifier: Classifier, batches: Sequence[Batch], seed: int = 0, projections: int = 4
) -> CellMeasure:
  """Computes one measure of a classifier.

  Args:
    name: one of `MEASURES`.
    classifier: to measure.
    batches: images and labels, all of one shape.
    seed: of projections and of Lanczos' start.
    projections: for the Jacobian; 0 computes its exact norm.

  Returns:
    Mean value and mean cost over batches.
  """
  check_measures([name])
  values, costs = [], []
  for number, (images, labels) in enumerate(batches):
    key = jax.random.fold_in(jax.random.key(seed), number)
    if name == "jacobian":
      slopes = jacobian(classifier, images, key, projections or None)
      values.append(slopes.norm)
      costs.append(slopes.gradients)
    else:
      found = largest_eigenvalue(classifier, images, labels, name.removeprefix("hessian-"), key=key)
      values.append(float(found.value.mean()))
      costs.append(2 * found.products)
  return CellMeasure(float(np.mean(values)), float(np.mean(costs)))


def measure_cells(
  program: OneProgram,
  uids: Iterable[int],
  trained: Callable[[int], Classifier] | None,
  batches: Sequence[Batch],
  normalization: tuple[Sequence[float], Sequence[float]],
  names: Iterable[str] = MEASURES,
  seed: int = 0,
  projections: int = 4,
) -> Iterator[dict[str, Any]]:
  """Measures many cells.

  Args:
    program: the network of all cells.
    uids: cells.
    trained: from a cell to its classifier; None to measure them at initialization alone.
    batches: images and labels, all of one shape.
    normalization: mean and deviation of pixels, for untrained networks.
    names: of measures.
    seed: of initial weights and draws.
    projections: as in `measure`.

  Yields:
    For each cell `uid` and by measure `NAME` (trained), `NAME init`, and the gradients that each took; None for what
    is no number.
  """
  names = list(names)
  check_measures(names)
  for uid in uids:
    operations = operations_of(uid)
    weights = program.init(jax.random.key(seed), operations, batches[0][0].shape[1])
    classifiers = {INIT: program.classifier(operations, weights, *normalization)}
    if trained is not None:
      classifiers[""] = trained(uid)
    row: dict[str, Any] = {"uid": uid}
    for when, classifier in classifiers.items():
      for name in names:
        found = measure(name, classifier, batches, seed, projections)
        row |= {
          f"{name}{when}": found.value if np.isfinite(found.value) else None,
          f"{name}{when}{COST}": found.gradients,
        }
    yield row


def measured_columns(ids: np.ndarray, rows: Iterable[Mapping[str, Any]]) -> dict[str, np.ndarray]:
  """Returns the measures of cells as columns, without what they cost and what else rows say.

  Args:
    ids: (N,) cells.
    rows: of `measure_cells`; isomorphic cells share theirs.

  Returns:
    By measure, (N,) numbers; NaN where there is none.

  >>> measured_columns(np.array([3365, 5]), [{"uid": 991, "jacobian init": 2.5, "jacobian init gradients": 4}])
  {'jacobian init': array([2.5, nan])}
  """
  known = {isomorph(int(row["uid"])): row for row in rows}
  names = [name for name in dict.fromkeys(itertools.chain(*known.values())) if name.removesuffix(INIT) in MEASURES]
  found = [known.get(isomorph(int(uid)), {}) for uid in ids]
  number = lambda value: np.nan if value is None else float(value)
  return {name: np.array([number(row.get(name)) for row in found]) for name in names}
