"""Measures of single images: numbers that neither a clean pass nor an attack gives.

  jacobian-K  |J|_F, the Frobenius norm of the Jacobian of logits by pixels in [0, 1], from at most K backward passes:
              exact up to K classes, beyond that by K random projections (Hoffman et al. 2019, arXiv:1908.02729)
  gradient    the l1 norm of the gradient of the cross-entropy by pixels: what a small linf step adds to the loss, per
              unit of its budget (Simon-Gabriel et al. 2019, arXiv:1802.01421)

An entry of a suite names those it wants, and each becomes an array of its cell, a number for each example. They are
added to a cell that is there already, whose verdicts stay as they are. A number is a function of the classifier, the
image and the key of the example: programs have one size for any number of examples and devices. Of a defended
classifier the gradient is the one that an adaptive attack follows. Both measures follow the scale of the logits, which
no prediction depends on.

A new one is a function of (images, labels, words of keys, classifier) and a line in `find_measure`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrobust.core.classifier import Classifier
from jaxrobust.core.keys import MEASURE_STAGE, item_keys
from jaxrobust.core.mesh import map_rows
from jaxrobust.core.progress import ProgressFn, silent
from jaxrobust.core.registry import unknown_name
from jaxrobust.core.stopping import StopRequest
from jaxrobust.core.types import Array
from jaxrobust.engine.workload import BACKWARD
from jaxrobust.evaluation.certificates import examples_of
from jaxrobust.nas.jacobian import all_rows, random_rows, squared_norms
from jaxrobust.results import Result, save_result
from jaxrobust.results.cell import INDEX

if TYPE_CHECKING:
  from jaxrobust.evaluation.job import Job

GRADIENT, JACOBIAN = "gradient", "jacobian-"
# Images that are read at once, and that a device works on at once, of small and of large ones.
_CHUNK = 256
_ROWS_SMALL, _ROWS_LARGE = 32, 8


class ImageMeasure(NamedTuple):
  """A measure.

  Attributes:
    program: (images, labels, two words of a key for each, classifier) -> a number for each; traced, and the same
      object for the same measure.
    passes: what it costs for an image at the most, in forward passes.
  """

  program: Callable[[Array, Array, Array, Classifier], Array]
  passes: int


@functools.cache
def find_measure(name: str) -> ImageMeasure:
  """Returns a measure by name.

  >>> find_measure("jacobian-16").passes
  33
  >>> find_measure("jacobian-0")
  Traceback (most recent call last):
  jaxrobust.core.errors.UnknownNameError: unknown measure 'jacobian-0'; did you mean 'jacobian-16'?
  """
  if name == GRADIENT:
    return ImageMeasure(_gradient, 1 + BACKWARD)
  count = name.removeprefix(JACOBIAN)
  if count != name and count.isdecimal() and int(count) and count == str(int(count)):
    return ImageMeasure(functools.partial(_jacobian, int(count)), 1 + BACKWARD * int(count))
  raise unknown_name("measure", name, [GRADIENT, f"{JACOBIAN}16"])


def measure_passes(names: Iterable[str]) -> int:
  """Returns what some measures cost for an image, in forward passes."""
  return sum(find_measure(name).passes for name in names)


def _jacobian(count: int, images: Array, labels: Array, words: Array, classifier: Classifier) -> Array:
  del labels
  classes = classifier.num_classes
  exact = classes <= count
  keys = jax.random.wrap_key_data(words)
  directions = all_rows(len(images), classes) if exact else random_rows(keys, count, classes)
  return jnp.sqrt(squared_norms(classifier, images, directions))


def _gradient(images: Array, labels: Array, words: Array, classifier: Classifier) -> Array:
  del words

  def total_loss(images: Array) -> Array:
    logs = jax.nn.log_softmax(classifier(images))
    return -jnp.take_along_axis(logs, labels[:, None], 1).sum()

  gradient = jax.grad(total_loss)(images)
  return jnp.sum(jnp.abs(gradient), axis=tuple(range(1, gradient.ndim)))


def measure_images(
  name: str, classifier: Classifier, images: np.ndarray, labels: np.ndarray, ids: np.ndarray, seed: int = 0
) -> np.ndarray:
  """Measures images on all devices of this process.

  Args:
    name: of the measure.
    classifier: deterministic.
    images: (N, H, W, C) in [0, 1].
    labels: (N,) classes.
    ids: (N,) of the examples, by which they get their keys.
    seed: of all keys.

  Returns:
    (N,) numbers, float32.

  >>> twice = Classifier.from_function(lambda x: 2 * x.reshape(len(x), -1)[:, :3], num_classes=3)
  >>> image, zero = np.ones((1, 2, 2, 1), np.float32), np.zeros(1, int)
  >>> measure_images("jacobian-3", twice, image, zero, zero).tolist()  # The root of 3 times 2².
  [3.464101552963257]
  """
  words = item_keys(seed, [(int(example), MEASURE_STAGE, 0) for example in ids])
  rows = _ROWS_SMALL if np.prod(images.shape[1:]) <= 96 * 96 * 3 else _ROWS_LARGE
  columns = (np.asarray(images, np.float32), np.asarray(labels, np.int32), words)
  return map_rows(find_measure(name).program, rows, columns, classifier.adaptive_view)


def missing_measures(job: Job, result: Result) -> list[str]:
  """Returns what the entry of a job wants to be measured and its result does not hold."""
  return [name for name in job.entry.measures if name not in result.examples]


def with_measures(job: Job, result: Result, progress: ProgressFn = silent) -> Result:
  """Returns the result of a job with what its entry wants to be measured; what was missing is stored in its cell.

  The part of a cell that one of several processes has computed stays as it is: whoever merges them measures all.

  Raises:
    StoppedError: the process was asked to end; the cell is stored as it was before.
  """
  names = missing_measures(job, result)
  if not names or INDEX in result.examples:
    return result
  found: dict[str, list[np.ndarray]] = {name: [] for name in names}
  with StopRequest() as stop, jax.default_matmul_precision(job.options.precision):
    for start in range(0, job.cell.n, _CHUNK):
      ids = np.arange(start, min(start + _CHUNK, job.cell.n))
      images, labels = examples_of(job.data, ids)
      for name, parts in found.items():
        parts.append(measure_images(name, job.classifier, images, labels, ids, job.options.seed))
      progress(ids[-1] / job.cell.n)
      if stop.asked:
        raise stop.error(f"while {' and '.join(names)} of {job.title or job.cell.id} were measured")
  measured = {name: np.concatenate(parts).astype(np.float32) for name, parts in found.items()}
  whole = replace(result, examples={**result.examples, **measured})
  save_result(job.root, whole)
  return whole
