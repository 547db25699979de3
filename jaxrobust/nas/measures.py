"""Measures of cells beside each other: Jacobian norms and Hessian eigenvalues, at initialization and after training.

`measure` takes one classifier; `measure_cells` many cells, whose programs are compiled once. Values are the mean over
images of the Jacobian's Frobenius norm (`Jacobian.norm`), the mean over images of the largest eigenvalue of the input
Hessian, and that of the weights' Hessian for the whole batch; each comes with its cost in gradients per image.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import jax

from jaxrobust.core.classifier import Classifier
from jaxrobust.core.nas_cells import operations_of
from jaxrobust.core.registry import unknown_name
from jaxrobust.nas.hessian import largest_eigenvalue
from jaxrobust.nas.jacobian import jacobian
from jaxrobust.nas.one_program import OneProgram

MEASURES = ("jacobian", "hessian-input", "hessian-weights")


class CellMeasure(NamedTuple):
  """A measure of a network.

  Attributes:
    value: of it.
    gradients: that it took for each image; a product with the Hessian counts as two.
  """

  value: float
  gradients: int


def measure(
  name: str, classifier: Classifier, images: Any, labels: Any, seed: int = 0, projections: int = 4
) -> CellMeasure:
  """Computes one measure of a classifier.

  Args:
    name: one of `MEASURES`.
    classifier: to measure.
    images, labels: of a batch.
    seed: of projections and of Lanczos' start.
    projections: for the Jacobian; 0 computes its exact norm.

  Returns:
    Its value and cost.
  """
  key = jax.random.key(seed)
  if name == "jacobian":
    found = jacobian(classifier, images, key, projections or None)
    return CellMeasure(found.norm, found.gradients)
  if name not in MEASURES:
    raise unknown_name("measure", name, list(MEASURES))
  values = largest_eigenvalue(classifier, images, labels, name.removeprefix("hessian-"), key=key)
  return CellMeasure(float(values.value.mean()), 2 * values.products)


def measure_cells(
  program: OneProgram,
  uids: Iterable[int],
  trained: Callable[[int], Any] | None,
  images: Any,
  labels: Any,
  names: Iterable[str] = MEASURES,
  seed: int = 0,
  projections: int = 4,
) -> Iterator[dict[str, Any]]:
  """Measures many cells.

  Args:
    program: the network of all cells.
    uids: cells.
    trained: from a cell to its weights; None to measure them at initialization alone.
    images, labels: of a batch.
    names: of measures.
    seed: of initial weights and draws.
    projections: as in `measure`.

  Yields:
    For each cell `uid` and by measure `NAME` (trained), `NAME init`, and `NAME gradients`.
  """
  names = list(names)
  for uid in uids:
    operations = operations_of(uid)
    weights = {" init": program.init(jax.random.key(seed), operations, images.shape[1])}
    if trained is not None:
      weights[""] = trained(uid)
    row: dict[str, Any] = {"uid": uid}
    for when, variables in weights.items():
      classifier = program.classifier(operations, variables)
      for name in names:
        row[f"{name}{when}"], row[f"{name} gradients"] = measure(name, classifier, images, labels, seed, projections)
    yield row
