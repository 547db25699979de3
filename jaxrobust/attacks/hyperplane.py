"""Decision boundaries as hyperplanes: where the classes meet, to first order, and the way there inside the box.

Near a point x the boundary of classes a and b is {u : gap + w·(u - x) = 0} with gap = z_a - z_b and
w = ∇(z_a - z_b), both at x.
  boundaries  gaps and normals of several pairs of classes from one evaluation of the model
  nearest     which of them is closest in a norm: |gap| / dual norm of w (linf: l1; l2: l2; l1: linf)
  toward      the shortest move from a point of the box onto a hyperplane that stays in the box, for l1, l2, linf

`toward` solves min |δ|_p  s.t.  w·δ = -gap, 0 <= x + δ <= 1 (Croce and Hein 2020, arXiv:1907.02044, section 3).
With r_i the room to the box in the direction that helps, |δ_i| is
  linf  min(t, r_i)        l2  min(t·|w_i|, r_i)        l1  r_i for the largest |w_i|, 0 for the rest, one in between
and t makes up for the gap. What t buys is concave and piecewise linear in t, so Newton's method from t = 0 climbs
to the exact answer in a handful of sweeps; the authors sort all pixels. A hyperplane that the box does not
reach gives the corner of the box nearest to it, as theirs does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxrobust.attacks import norms
from jaxrobust.core.largest import value_at
from jaxrobust.core.types import Array, LogitsFn, Probe, Problem

DUAL = {"linf": "l1", "l2": "l2", "l1": "linf"}

# Newton sweeps at most; eight are rarely needed.
_SWEEPS = 40
_BISECTIONS = 30

Pairs = tuple[Array, Array]


class Boundaries(NamedTuple):
  """Linearized boundaries seen from one point.

  Attributes:
    gap: (K,) z_a - z_b; negative while b is ahead, zero where not finite.
    normal: (K, ...) its gradient, with non-finite entries set to zero.
    probe: what to report to the engine, gradient health included.
  """

  gap: Array
  normal: Array
  probe: Probe


def boundaries(model: LogitsFn, image: Array, choose: Callable[[Array], Pairs]) -> Boundaries:
  """Returns the boundaries of the pairs (a, b) that `choose(logits)` names: one forward, one backward pass per pair.

  Example:
    >>> seen = boundaries(lambda x: x.ravel(), jnp.ones((1, 2, 1)), lambda z: (jnp.array([1]), jnp.array([0])))
    >>> seen.gap.tolist(), seen.normal.tolist()
    ([0.0], [[[[-1.0], [1.0]]]])
  """
  logits, pullback = jax.vjp(model, image)
  above, below = choose(logits)
  classes = jnp.arange(logits.shape[-1])
  difference = (above[:, None] == classes).astype(logits.dtype) - (below[:, None] == classes)
  normal = jax.vmap(lambda row: pullback(row)[0])(difference)
  gap = jax.vmap(lambda a, b: value_at(logits, a) - value_at(logits, b))(above, below)
  finite = jnp.isfinite(normal)
  probe = Probe(image, logits, queries=1, nan=~jnp.all(finite), flat=jnp.all(normal == 0.0))
  return Boundaries(jnp.where(jnp.isfinite(gap), gap, 0.0), jnp.where(finite, normal, 0.0), probe)


def likely_wrong(logits: Array, label: Array, count: int) -> Array:
  """Returns the `count` most likely classes but for the label, fewer if there are not as many."""
  others = jnp.where(jnp.arange(logits.shape[-1]) == label, -jnp.inf, logits)
  return jax.lax.top_k(others, min(count, logits.shape[-1] - 1))[1]


def against(problem: Problem, logits: Array, wrong: Array) -> Pairs:
  """Pairs to cross: each of `wrong` against the label or, with a target, the target against its strongest rival."""
  rival = jnp.argmax(jnp.where(jnp.arange(logits.shape[-1]) == problem.target, -jnp.inf, logits))
  targeted = problem.target >= 0
  above = jnp.where(targeted, problem.target, wrong)
  return above, jnp.full_like(above, jnp.where(targeted, rival, problem.label))


def nearest(norm: str, gap: Array, normal: Array) -> tuple[Array, Array]:
  """Returns gap and normal of the closest of several hyperplanes; a flat one is infinitely far.

  Example:
    >>> w = jnp.array([[3.0, 4.0], [0.0, 6.0]])
    >>> [nearest(norm, jnp.array([-1.0, -1.0]), w)[1].tolist() for norm in ("linf", "l2")]
    [[3.0, 4.0], [0.0, 6.0]]
  """
  far = jax.vmap(lambda g, w: span(norm, g, w))(gap, normal)
  far = jnp.where(jnp.isnan(far), jnp.inf, far)
  best = far[0], gap[0], normal[0]
  # One after the other: an index that is not known while compiling moves all of them, row by row, on a TPU.
  for pair in zip(far[1:], gap[1:], normal[1:], strict=True):
    closer = pair[0] < best[0]
    best = jax.tree.map(lambda new, old, closer=closer: jnp.where(closer, new, old), pair, best)
  return best[1], best[2]


def along(normal: Array, move: Array) -> Array:
  """Returns what a move adds to the gap: the inner product of two images."""
  return jnp.sum(normal * move)


def span(norm: str, gap: Array, normal: Array) -> Array:
  """Returns how far a hyperplane is, box aside: |gap| over the dual norm of its normal."""
  size = norms.distance(DUAL[norm], normal)
  return jnp.where(size > 0, jnp.abs(gap) / jnp.where(size > 0, size, 1.0), jnp.inf)


def toward(norm: str, point: Array, normal: Array, gap: Array) -> Array:
  """Returns the shortest move δ with normal·δ = -gap that keeps a point in the box, or as much of it as the box allows.

  Example:
    >>> x, w = jnp.array([0.5, 0.5]), jnp.array([1.0, 3.0])
    >>> [[round(float(d), 2) for d in toward(norm, x, w, 1.0)] for norm in ("l1", "l2", "linf")]
    [[-0.0, -0.33], [-0.1, -0.3], [-0.25, -0.25]]
    >>> [round(float(d), 2) for d in toward("linf", jnp.array([0.5, 0.1]), w, 0.5)]
    [-0.2, -0.1]
  """
  scale = jnp.max(jnp.abs(normal))
  # Moving along `direction` closes the gap, whichever side of the hyperplane the point is on.
  direction = jnp.where(gap >= 0, -1.0, 1.0) * jnp.sign(normal)
  weight = jnp.abs(normal) / jnp.where(scale > 0, scale, 1.0)
  need = jnp.abs(gap) / jnp.where(scale > 0, scale, 1.0)
  room = jnp.where(direction > 0, 1.0 - point, jnp.where(direction < 0, point, 0.0))
  if norm == "l1":
    length = _fill(weight, room, need)
  else:
    slope = jnp.ones_like(weight) if norm == "linf" else weight
    length = jnp.minimum(_water_level(weight * slope, weight * room, need) * slope, room)
  reachable = jnp.sum(weight * room) > need
  return direction * jnp.where(reachable, length, room)


def _water_level(rate: Array, cap: Array, need: Array) -> Array:
  """Finds t with Σ min(t·rate, cap) = need, by Newton's method from below."""

  def unfinished(carry: tuple[Array, Array, Array]) -> Array:
    sweep, _, rising = carry
    return rising & (sweep < _SWEEPS)

  def sweep(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
    count, level, _ = carry
    full = level * rate >= cap
    slope = jnp.sum(jnp.where(full, 0.0, rate))
    left = need - jnp.sum(jnp.where(full, cap, 0.0))
    higher = jnp.where(slope > 0, left / jnp.where(slope > 0, slope, 1.0), level)
    return count + 1, jnp.maximum(higher, level), higher > level * (1 + 1e-6)

  start = (jnp.zeros((), jnp.int32), jnp.zeros(()), jnp.ones((), bool))
  return jax.lax.while_loop(unfinished, sweep, start)[1]


def _fill(weight: Array, room: Array, need: Array) -> Array:
  """Takes up room in the order of falling weight until Σ weight·length = need."""
  value = weight * room

  def halve(_: int, interval: tuple[Array, Array]) -> tuple[Array, Array]:
    low, high = interval
    middle = 0.5 * (low + high)
    enough = jnp.sum(jnp.where(weight > middle, value, 0.0)) > need
    return jnp.where(enough, middle, low), jnp.where(enough, high, middle)

  low, high = jax.lax.fori_loop(0, _BISECTIONS, halve, (jnp.zeros(()), jnp.ones(())))
  taken = jnp.where(weight > high, room, 0.0)
  # What is left goes to the weights at the threshold: one, but for ties.
  edge = jnp.where((weight > low) & (weight <= high), room, 0.0)
  left = jnp.maximum(need - jnp.sum(weight * taken), 0.0)
  share = left / jnp.maximum(jnp.sum(weight * edge), 1e-30)
  return taken + jnp.minimum(share, 1.0) * edge
