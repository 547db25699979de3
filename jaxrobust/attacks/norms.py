"""The geometry of l1, l2 and linf balls inside the image box [0, 1], for one image.

Every attack uses these functions; there is no other projection in the package.
  distance   the norm of a perturbation
  project    the nearest point of ball ∩ box (l1, linf exactly; l2: ball, then box, which stays in the ball)
  steepest   the move of a given length that raises a linear loss most without leaving the box
  climb      a steepest move, projected: one step of most gradient attacks
  random_start  a point drawn uniformly from the ball, clipped into the box
  random_in_ball  a perturbation drawn uniformly from the ball of radius one
  random_direction  noise of length one
"""

from __future__ import annotations

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp

from jaxrobust.core.summation import ordered_sum
from jaxrobust.core.threat import norm_distance as distance
from jaxrobust.core.threefry import unrolled
from jaxrobust.core.types import Array

# Halvings after which an interval of float32 numbers in [0, max] cannot shrink any further.
_BISECTIONS = 30


def normalize(norm: str, grad: Array) -> Array:
  """Returns `grad` scaled to norm 1, whatever its size; zero stays exactly zero."""
  scale = jnp.max(jnp.abs(grad))
  unit = grad / jnp.where(scale > 0, scale, 1.0)
  # The largest entry is 1 by now, and needs no scaling of its own.
  size = jnp.sqrt(ordered_sum(jnp.square(unit))) if norm == "l2" else distance(norm, unit)
  return unit / jnp.where(size > 0, size, 1.0)


def project(norm: str, image: Array, center: Array, eps: Array) -> Array:
  """Maps `image` into the eps-ball around `center` and the box.

  >>> center = jnp.array([0.5, 0.5])
  >>> project("linf", jnp.array([0.9, 0.4]), center, 0.2).tolist()
  [0.699999988079071, 0.4000000059604645]
  """
  if norm == "linf":
    return jnp.clip(image, jnp.maximum(center - eps, 0.0), jnp.minimum(center + eps, 1.0))
  if norm == "l2":
    # A point of the ball moves toward the center when it is clipped into a box that holds the center.
    # (optax's projection divides 0 by 0 at the center of an empty ball and inf by inf in an endless one.)
    delta = image - center
    length = distance("l2", delta)
    shrink = jnp.where(length > eps, eps / jnp.where(length > 0, length, 1.0), 1.0)
    return jnp.clip(center + shrink * delta, 0.0, 1.0)
  return _project_l1_box(image, center, eps)


def _project_l1_box(image: Array, center: Array, eps: Array) -> Array:
  """Returns the exact Euclidean projection onto {|u - center|_1 <= eps} ∩ [0, 1]^d.

  The solution is |delta_i| = clip(|w_i| - lam, 0, room_i) with w = image - center and room_i the way to the
  box in w_i's direction; lam >= 0 solves sum |delta_i| = eps. The sum is piecewise linear and falling in
  lam: bisection finds the piece, one division the exact lam on it. (Croce and Hein 2021, arXiv:2103.01208,
  give the problem; they sort the breakpoints, which costs more here than thirty sweeps.)
  """
  delta = image - center
  magnitude = jnp.abs(delta)
  room = jnp.where(delta > 0, 1.0 - center, center)

  def size(lam: Array | float) -> Array:
    return jnp.clip(magnitude - lam, 0.0, room)

  low, high = _bisect(lambda lam: _total(size(lam)) > eps, jnp.zeros(()), jnp.max(magnitude))
  # On the piece that contains lam the free coordinates are those neither at zero nor at their room.
  middle = 0.5 * (low + high)
  free = (magnitude > middle) & (magnitude - middle < room)
  full = jnp.where(magnitude - middle >= room, room, 0.0)
  count = jnp.sum(free)
  exact = (jnp.sum(jnp.where(free, magnitude, 0.0)) + jnp.sum(full) - eps) / jnp.maximum(count, 1)
  lam = jnp.where(count > 0, jnp.clip(exact, low, high), high)
  inside = jnp.sum(size(0.0)) <= eps
  return jnp.clip(center + jnp.sign(delta) * size(jnp.where(inside, 0.0, lam)), 0.0, 1.0)


def _total(values: Array) -> Array:
  """Returns the sum as a dot product with ones, which XLA:CPU vectorizes, as it does not a plain float sum."""
  return jnp.dot(values.ravel(), jnp.ones(values.size, values.dtype), precision="highest")


def _bisect(above: Callable[[Array], Array], low: Array, high: Array) -> tuple[Array, Array]:
  """Narrows [low, high] around the place where `above` turns from true to false."""

  def halve(_: int, interval: tuple[Array, Array]) -> tuple[Array, Array]:
    low, high = interval
    middle = 0.5 * (low + high)
    up = above(middle)
    return jnp.where(up, middle, low), jnp.where(up, high, middle)

  return jax.lax.fori_loop(0, _BISECTIONS, halve, (low, high))


def steepest(norm: str, grad: Array, length: Array, image: Array) -> Array:
  """Returns the move of at most `length` that raises grad·move most, without leaving the box from `image`.

  linf: length · sign(grad). l2: length · grad/|grad|_2. l1: the coordinates of largest |grad| are each
  taken as far as the box lets them until the length is spent (g/|g|_1, which some libraries use, is not
  a steepest l1 direction). A zero gradient gives exactly no move, and the scale of the gradient does
  not matter.

  >>> steepest("l1", jnp.array([1.0, -3.0, 2.0]), 0.7, jnp.array([0.5, 0.5, 0.5])).tolist()
  [0.0, -0.5, 0.19999998807907104]
  """
  if norm == "linf":
    return length * jnp.sign(grad)
  if norm == "l2":
    return length * normalize("l2", grad)
  return _steepest_l1(grad, length, image)


def _steepest_l1(grad: Array, length: Array, image: Array) -> Array:
  magnitude = jnp.abs(normalize("linf", grad))
  room = jnp.where(grad > 0, 1.0 - image, image) * (grad != 0)
  low, high = _bisect(lambda tau: _total(jnp.where(magnitude > tau, room, 0.0)) > length, jnp.zeros(()), jnp.ones(()))
  everything = jnp.sum(room) <= length
  full = jnp.where(everything, room, jnp.where(magnitude > high, room, 0.0))
  # What is left of the length goes to the coordinates at the threshold: one, but for ties.
  edge = jnp.where((magnitude > low) & (magnitude <= high), room, 0.0)
  left = jnp.maximum(length - jnp.sum(full), 0.0)
  share = jnp.minimum(left / jnp.maximum(jnp.sum(edge), 1e-30), 1.0)
  return jnp.sign(grad) * (full + jnp.where(everything, 0.0, share * edge))


def climb(norm: str, direction: Array, length: Array, image: Array, center: Array, eps: Array) -> Array:
  """Returns the point that the steepest move of `length` along `direction` leads to from `image`, projected.

  >>> climb("linf", jnp.array([3.0, -1.0]), 0.2, jnp.array([0.6, 0.5]), jnp.array([0.5, 0.5]), 0.25).tolist()
  [0.75, 0.30000001192092896]
  """
  return project(norm, image + steepest(norm, direction, length, image), center, eps)


def random_direction(norm: str, key: Array, shape: tuple[int, ...]) -> Array:
  """Returns noise of length one, from uniform draws in linf and normal ones in the other norms."""
  if norm == "linf":
    noise = jax.random.uniform(unrolled(key), shape, minval=-1.0, maxval=1.0)
  else:
    noise = jax.random.normal(key, shape)
  return normalize(norm, noise)


def random_start(norm: str, key: Array, center: Array, eps: Array) -> Array:
  """Returns a point drawn uniformly from the eps-ball around `center`, clipped into the box."""
  return jnp.clip(center + eps * random_in_ball(norm, key, center.shape), 0.0, 1.0)


def random_in_ball(norm: str, key: Array, shape: tuple[int, ...]) -> Array:
  """Returns a perturbation drawn uniformly from the ball of radius one."""
  size = math.prod(shape)
  if norm == "linf":
    return jax.random.uniform(unrolled(key), shape, minval=-1.0, maxval=1.0)
  if norm == "l2":
    direction, radius = jax.random.split(key)
    unit = normalize("l2", jax.random.normal(direction, shape))
    return unit * jax.random.uniform(radius) ** (1.0 / size)
  # Laplace magnitudes over their sum plus one more exponential: uniform in the l1 ball.
  signs, sizes = jax.random.split(key)
  magnitude = jax.random.exponential(sizes, (size + 1,))
  sign = jax.random.rademacher(signs, shape, dtype=magnitude.dtype)
  return sign * (magnitude[:-1] / jnp.sum(magnitude)).reshape(shape)
