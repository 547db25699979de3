"""Certificates of many images: which of them no perturbation within a budget can change, and up to which budget.

An image is certified at eps where every margin (logit of its label minus that of another class) has a positive lower
bound over all images within eps and [0, 1]. Bounds are computed in float32 with rounding to nearest, not outward: a
margin counts as positive only beyond `SLACK` times the sum of the magnitudes that it was computed from, which is many
times the largest difference to float64 that was seen. The ball is larger by the tolerance with which an attack's
perturbation counts as inside it.

Sizes of batches are fixed, so that an image's certificate does not depend on what it is asked together with.
"""

from __future__ import annotations

import copy
import functools
import math
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrobust.certify.crown import BoundMethod, lower_bounds
from jaxrobust.certify.program import check_program, read_program
from jaxrobust.certify.region import Region
from jaxrobust.core.budget import BALL_RTOL, Budget, check_norm, rounding_tolerance
from jaxrobust.core.classifier import Classifier, check_logits
from jaxrobust.core.errors import InputError
from jaxrobust.core.registry import unknown_name
from jaxrobust.core.types import Array
from jaxrobust.core.validation import check_images

# Relative to the sum of magnitudes; 2^-24 is one rounding.
SLACK = 2.0**-18
# Images in one dispatch.
BATCH = 4

# Parallel lines need one pass for lower and upper bounds, and are at times the better ones.
_CROWN = BoundMethod(layers=False), BoundMethod(parallel=True), BoundMethod()
METHODS: dict[str, tuple[BoundMethod, ...]] = {
  "ibp": (BoundMethod(backward=False),),
  "crown-ibp": _CROWN[:1],
  "crown": _CROWN,
  "alpha-crown": (*_CROWN, BoundMethod(ascents=20)),
  "kw": (BoundMethod(parallel=True, box=False, meet=False),),
}
"""Bounds by name. Where there are several, an image goes on to the next where the last has not proved it."""

NORMS = ("linf", "l2")


class Certificates(NamedTuple):
  """What was proved, per image.

  Attributes:
    correct: classified as labeled.
    margin: the best lower bound of the smallest margin, less its slack; -inf where the class is wrong.
    certified: the margin is positive.
  """

  correct: np.ndarray
  margin: np.ndarray
  certified: np.ndarray


def find_methods(name: str) -> tuple[BoundMethod, ...]:
  """Returns the bounds of a name, cheapest first.

  >>> [method.ascents for method in find_methods("alpha-crown")]
  [0, 0, 0, 20]
  """
  if name not in METHODS:
    raise unknown_name("method", name, sorted(METHODS))
  return METHODS[name]


def widened(eps: Any, norm: str, image_shape: tuple[int, ...]) -> Any:
  """Returns the radius of a ball that holds all that counts as within eps."""
  return eps * (1 + BALL_RTOL) + rounding_tolerance(norm, math.prod(image_shape))


@functools.partial(jax.jit, static_argnames=("norm", "method"))
def _margins(classifier: Classifier, images: Array, labels: Array, eps: Array, norm: str, method: BoundMethod) -> Array:
  """Returns for each image the lower bound of its smallest margin, less its slack."""
  program = read_program(classifier, images.shape[1:])
  classes = jnp.eye(classifier.num_classes)

  def smallest(image: Array, label: Array, radius: Array) -> Array:
    # The row of the label itself is the zero row: one shape for every label, and its bound is ignored.
    bound = lower_bounds(program, Region.around(norm, image, radius, method.box), classes[label] - classes, method)
    safe = bound.value - SLACK * bound.mass
    return jnp.min(jnp.where(jnp.arange(len(classes)) == label, jnp.inf, safe))

  return jax.vmap(smallest)(images, labels, eps)


@jax.jit
def _predict(classifier: Classifier, images: Array) -> Array:
  logits = classifier(images)
  return jnp.where(jnp.isfinite(logits).all(-1), jnp.argmax(logits, -1), -1)


class Certifier:
  """Proves images of one classifier robust, on all devices at hand.

  Args:
    classifier: what is certified; raises InputError where it has no bounds.
    image_shape: of its images.
    norm: linf or l2.
    method: a name in `METHODS`.

  >>> mix = jnp.array([[1.0, 1.0], [1.0, -1.0]])
  >>> model = Classifier.from_function(lambda x: jax.nn.relu(x[:, 0, 0] @ mix), num_classes=2)
  >>> certifier = Certifier(model, (1, 1, 2))
  >>> images = np.array([[[[0.5, 0.4]]], [[[0.1, 0.9]]]], np.float32)  # The margin is 2 x2 at least, or x1 + x2.
  >>> certifier(images, np.array([0, 0]), np.array([0.1, 0.1])).certified.tolist()
  [True, True]
  """

  def __init__(
    self, classifier: Classifier, image_shape: tuple[int, int, int], norm: str = "linf", method: str = "crown"
  ):
    check_norm(norm, NORMS)
    self.norm, self.methods, self.image_shape = norm, find_methods(method), image_shape
    self.num_classes = classifier.num_classes
    check_logits(classifier, image_shape)
    check_program(classifier, image_shape)
    self.devices = jax.local_devices()
    self.copies = [jax.device_put(classifier, device) for device in self.devices]

  def limited(self, methods: tuple[BoundMethod, ...]) -> Certifier:
    """Returns the same with other bounds."""
    other = copy.copy(self)
    other.methods = methods
    return other

  def __call__(self, images: np.ndarray, labels: np.ndarray, eps: np.ndarray) -> Certificates:
    """Returns certificates at a budget for each image."""
    images, labels = np.asarray(images, np.float32), np.asarray(labels, np.int32)
    radii = widened(np.broadcast_to(np.asarray(eps, np.float64), labels.shape), self.norm, self.image_shape)
    # The slack is that of float32: products of less, an accelerator's default, would be wrong by more.
    with jax.default_matmul_precision("highest"):
      correct = self._over(lambda model, rows: _predict(model, rows[0]), np.arange(len(labels)), images) == labels
      margin = np.where(correct, -np.finfo(np.float32).max, -np.inf)
      for method in self.methods:
        rows = np.flatnonzero(correct & ~(margin > 0))
        ask = functools.partial(self._bound, method)
        # fmax: a bound that overflowed to NaN is none, and takes no other away.
        margin[rows] = np.fmax(margin[rows], self._over(ask, rows, images, labels, radii.astype(np.float32)))
    return Certificates(correct, margin, margin > 0)

  def _bound(self, method: BoundMethod, model: Classifier, rows: list[Array]) -> Array:
    return _margins(model, *rows, norm=self.norm, method=method)

  def _over(
    self, ask: Callable[[Classifier, list[Array]], Array], rows: np.ndarray, *columns: np.ndarray
  ) -> np.ndarray:
    """Asks about some rows, in batches of one size, on each device in turn."""
    found, waiting = np.zeros(len(rows)), deque[tuple[np.ndarray, Array]]()

    def read() -> None:
      places, answer = waiting.popleft()
      found[places] = np.asarray(answer)[: len(places)]

    for number, start in enumerate(range(0, len(rows), BATCH)):
      places = np.arange(start, min(start + BATCH, len(rows)))
      padded = rows[np.resize(places, BATCH)]
      device = number % len(self.devices)
      batch = [jax.device_put(column[padded], self.devices[device]) for column in columns]
      waiting.append((places, ask(self.copies[device], batch)))
      if len(waiting) > 2 * len(self.devices):
        read()
    while waiting:
      read()
    return found


def certify_images(
  classifier: Classifier,
  images: np.ndarray,
  labels: np.ndarray,
  eps: str | float | Budget,
  *,
  norm: str = "linf",
  method: str = "crown",
) -> Certificates:
  """Proves which images no perturbation within `eps` changes.

  Args:
    classifier: what is certified.
    images: (N, H, W, C) in [0, 1].
    labels: true classes.
    eps: the budget, such as "2/255".
    norm: linf or l2.
    method: ibp, crown-ibp, crown, alpha-crown or kw.

  >>> model = Classifier.from_function(lambda x: jax.nn.relu(x[:, 0, 0] - 0.5), num_classes=2)
  >>> certify_images(model, np.array([[[[0.9, 0.2]]]]), np.array([0]), "8/255").certified.tolist()
  [True]
  """
  check_images(images, labels, classifier.num_classes)
  budget = Budget.parse(eps, norm).value
  return Certifier(classifier, images.shape[1:], norm, method)(images, labels, np.full(len(labels), budget))


# A search that has come so far down gives up: the radius is 0.
_SMALLEST = 1 / 64


def certified_radii(
  certifier: Certifier,
  images: np.ndarray,
  labels: np.ndarray,
  start: float,
  *,
  tolerance: float = 0.02,
  tries: int = 12,
) -> np.ndarray:
  """Returns per image the largest budget at which it was certified; 0 for none, NaN where its class is wrong.

  The search doubles or halves `start` until it has a budget that is proved and one that is not, then bisects, for each
  image on its own. What is proved at a budget holds at every smaller one, so the answer is a bound in any case.

  Args:
    certifier: for one classifier.
    images, labels: what is certified.
    start: the first budget.
    tolerance: relative distance of the two budgets at which the search of an image ends.
    tries: budgets at the most.

  >>> model = Classifier.from_function(lambda x: x[:, 0, 0], num_classes=2)
  >>> certifier = Certifier(model, (1, 1, 2), method="ibp")
  >>> radii = certified_radii(certifier, np.array([[[[0.8, 0.4]]]], np.float32), np.array([0]), 0.05)
  >>> bool(0.195 < radii[0] < 0.2)
  True
  """
  if start <= 0 or not 0 < tolerance < 1:
    raise InputError(f"a search needs a first budget above 0 and a tolerance in (0, 1), got {start} and {tolerance}")
  low, high, eps = np.zeros(len(labels)), np.full(len(labels), np.inf), np.full(len(labels), float(start))
  for _ in range(tries):
    # A wrong class has the radius NaN, which ends its search.
    rows = np.flatnonzero((high > (1 + tolerance) * low) & (eps > _SMALLEST * start) & (eps <= 1 / _SMALLEST))
    if not len(rows):
      break
    found = certifier(images[rows], labels[rows], eps[rows])
    low[rows] = np.where(found.correct, np.where(found.certified, eps[rows], low[rows]), np.nan)
    high[rows] = np.where(found.certified, high[rows], eps[rows])
    between = np.sqrt(low * np.where(np.isinf(high), 4 * low, high))
    eps = np.where(low > 0, between, high / 2)
  return low
