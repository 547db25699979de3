"""Lines below and above a ReLU, and the rule by which a linear bound passes them on its way back to the image.

Between l < 0 < u, for any 0 <= a <= 1:   a z  <=  relu(z)  <=  s (z - l),   s = u / (u - l).
A lower bound takes the line below where its coefficient is positive, and the line above where it is negative. CROWN
(Zhang et al. 2018, arXiv:1811.00866) has a = 1 where u > -l and 0 elsewhere, and a free `a` may be improved by
gradients (Xu et al. 2021, arXiv:2011.13824). With a = s the two lines are parallel, which is the dual bound of Wong and
Kolter 2018 (arXiv:1711.00851) and of Fast-Lin: one set of coefficients then serves lower and upper bounds alike.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxrobust.certify.intervals import BoundInterval
from jaxrobust.core.types import Array

_TINY = 1e-12


class Lines(NamedTuple):
  """Two lines around relu(z): below * z, and above * z + offset."""

  below: Array
  above: Array
  offset: Array


def relu_lines(before: BoundInterval, parallel: bool = False) -> Lines:
  """Returns the lines of a ReLU whose input is bounded.

  Args:
    before: bounds of its input.
    parallel: a line below of the slope of the one above.

  >>> lines = relu_lines(BoundInterval.between(jnp.array([-1.0, 1.0, -2.0, -1.0]), jnp.array([3.0, 2.0, -1.0, 0.5])))
  >>> for line in lines:
  ...   print([round(value, 3) for value in line.tolist()])
  [1.0, 1.0, 0.0, 0.0]
  [0.75, 1.0, 0.0, 0.333]
  [0.75, 0.0, 0.0, 0.333]
  """
  low, high = before.lower, before.upper
  unstable, active = (low < 0) & (high > 0), low >= 0
  slope = jnp.where(unstable, high / jnp.maximum(high - low, _TINY), active.astype(low.dtype))
  # Bounds that overflowed say nothing, and must not pass for those of a neuron that is always off.
  slope = jnp.where(jnp.isfinite(high - low), slope, jnp.nan)
  below = slope if parallel else jnp.where(unstable, (high > -low).astype(low.dtype), slope)
  return Lines(below, slope, jnp.where(unstable, -slope * low, 0.0))


class Constants(NamedTuple):
  """What a linear bound has besides its coefficients, and the sum of the magnitudes that went into it."""

  lower: Array
  upper: Array
  mass: Array

  @classmethod
  def zero(cls) -> Constants:
    return cls(*(jnp.zeros(()) for _ in range(3)))


@jax.custom_vjp
def relaxed_relu(value: Array, lines: Lines, constants: Constants) -> Array:
  """Stands in for a ReLU in a network that is only ever pulled back, never run.

  It returns 0, so at the zero image every `value` is the constant term of its affine function. Its pullback sends
  coefficients of the ReLU to coefficients of `value`, and adds what is left over to the cotangent of `constants`.
  """
  del lines, constants
  return jnp.zeros_like(value)


def _forward(value: Array, lines: Lines, constants: Constants) -> tuple[Array, tuple[Array, Lines]]:
  return relaxed_relu(value, lines, constants), (value, lines)


def _backward(saved: tuple[Array, Lines], slope: Array) -> tuple[Array, Any, Constants]:
  value, lines = saved
  rising, falling = jnp.maximum(slope, 0), jnp.minimum(slope, 0)
  coefficients = rising * lines.below + falling * lines.above
  terms = coefficients * value
  total = jnp.sum(terms)
  offsets = Constants(
    total + jnp.sum(falling * lines.offset),
    # For parallel lines alone: the same coefficients, with the other line's offset.
    total + jnp.sum(rising * lines.offset),
    jnp.sum(jnp.abs(terms)) + jnp.sum(jnp.abs(falling) * lines.offset),
  )
  return coefficients, None, offsets


relaxed_relu.defvjp(_forward, _backward)
