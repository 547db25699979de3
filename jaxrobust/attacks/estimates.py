"""What score-based attacks share: gradients estimated from pairs of queries, draws by number, and budgets of queries.

  g = 1/q · Σ_i (L(x + σ u_i) - L(x - σ u_i)) / (2σ) · u_i        u_i normal (NES) or of random signs (SPSA)

Unbiased up to σ² for either kind of direction, since E[u uᵀ] is the identity. Pairs are evaluated some at a time, so
that memory does not grow with their number; which ones share a batch decides nothing, since each u_i is a function of a
key and its number i.
Sources: Spall 1992; Salimans et al. 2017 (arXiv:1703.03864); Ilyas et al. 2018 (arXiv:1804.08598), section 2.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxrobust.attacks import losses
from jaxrobust.core.summation import sum_of_many
from jaxrobust.core.threefry import computed_once, unrolled
from jaxrobust.core.types import Array, Problem

# Score of an image: the loss that an attack climbs, at the query of a number.
Score = Callable[[Array, Array], Array]

# Evaluations that a step holds in memory at once. A hundred fill a CPU's cores with the smallest networks.
PARALLEL = 100


class GradientEstimate(NamedTuple):
  """A gradient from queries.

  Attributes:
    grad: finite.
    loss: the mean over all queries.
    nan: some answer was not finite; its pair counts as one without a slope.
    flat: all pairs were exactly equal.
  """

  grad: Array
  loss: Array
  nan: Array
  flat: Array


def signs(key: Array, shape: tuple[int, ...]) -> Array:
  """Returns a direction of independent random signs."""
  return computed_once(jax.random.rademacher(unrolled(key), (math.prod(shape),), jnp.float32)).reshape(shape)


def score_of(model: Callable, loss: str, problem: Problem) -> Score:
  """Returns the loss at an image; every query of a randomized model has a number of its own."""
  bound = losses.bind(loss, problem)
  return lambda image, number: bound(model(image, number))


def total(some: Callable[[Array], tuple], count: int, width: int) -> tuple:
  """Returns the sum of `some(numbers)` over 0, …, count - 1, of which at most `width` are asked for at once.

  >>> [int(part) for part in total(lambda numbers: (jnp.sum(numbers), jnp.sum(numbers > 2)), 7, 3)]
  [21, 4]
  """
  batches = -(-count // width)
  width = count // batches
  numbers = jnp.arange(count, dtype=jnp.int32)
  many = numbers[: batches * width].reshape(batches, width)

  def add(sums: tuple, part: Array) -> tuple[tuple, None]:
    return jax.tree.map(jnp.add, sums, some(part)), None

  zeros = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(some, many[0]))
  sums = add(zeros, many[0])[0] if batches == 1 else jax.lax.scan(add, zeros, many)[0]
  # An uneven division leaves fewer than there are batches.
  rest = numbers[batches * width :]
  return add(sums, rest)[0] if rest.size else sums


def estimate_gradient(
  score: Score, image: Array, direction: Callable[[Array], Array], pairs: int, sigma: float | Array
) -> GradientEstimate:
  """Returns the mean of central differences along directions.

  Args:
    score: of an image, by the number of the query.
    image: the point.
    direction: the number of a pair -> its direction, of the image's shape.
    pairs: how many; twice as many queries.
    sigma: how far along them the score is asked for.
  """

  def some(numbers: Array) -> tuple[Array, ...]:
    along = jax.vmap(direction)(numbers)
    points = jnp.concatenate([image + sigma * along, image - sigma * along])
    scores = jax.vmap(score)(points, jnp.concatenate([2 * numbers, 2 * numbers + 1]))
    finite = jnp.isfinite(scores)
    up, down = jnp.split(jnp.where(finite, scores, 0.0), 2)
    both = jnp.all(finite.reshape(2, -1), 0)
    slopes = jnp.where(both, (up - down) / (2.0 * sigma), 0.0)
    # Not a matrix product, whose rounding would depend on how many slots share a batch.
    grad = sum_of_many(slopes.reshape(-1, *[1] * image.ndim) * along)
    return grad, jnp.sum(up + down), jnp.sum(~finite), jnp.sum(slopes != 0.0)

  grad, loss, bad, steep = total(some, pairs, max(PARALLEL // 2, 1))
  return GradientEstimate(grad / pairs, loss / (2 * pairs), bad > 0, steep == 0)
