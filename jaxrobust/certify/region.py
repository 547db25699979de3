"""Where an image may move to: a ball, cut with the box [0, 1], and the least value of a linear function there."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax

from jaxrobust.core.budget import check_norm
from jaxrobust.core.types import Array

# Of the search for the multiplier of an l2 ball in a box; any number of them gives a bound.
_TURNS = 8
_TINY = 1e-12


class Region(NamedTuple):
  """All images within eps of one, and inside [0, 1] unless `box` is off.

  Attributes:
    norm: linf or l2.
    image: its center.
    eps: the radius; traced.
    low, high: per pixel, how far below and above the center a point may be; for l2 the box alone.
  """

  norm: str
  image: Array
  eps: Array
  low: Array
  high: Array

  @classmethod
  def around(cls, norm: str, image: Array, eps: Array, box: bool = True) -> Region:
    """Returns the region around an image; bounds of a box that is off are those of the ball.

    >>> region = Region.around("linf", jnp.array([0.0, 0.5]), jnp.float32(0.25))
    >>> region.low.tolist(), region.high.tolist()
    ([-0.0, -0.25], [0.25, 0.25])
    """
    check_norm(norm, ("linf", "l2"))
    low, high = -eps * jnp.ones_like(image), eps * jnp.ones_like(image)
    if box:
      low, high = jnp.maximum(low, -image), jnp.minimum(high, 1 - image)
    return cls(norm, image, eps, low, high)

  @property
  def interval(self) -> tuple[Array, Array]:
    """Center and radius of the smallest box around the region."""
    return self.image + (self.low + self.high) / 2, (self.high - self.low) / 2

  def least(self, slope: Array) -> Array:
    """Returns a lower bound of slope · x over the region, exact for linf.

    For l2, the dual of min slope · d over ||d|| <= eps and low <= d <= high is, for any m > 0,
      sum_i slope_i d_i + m / 2 d_i^2 - m eps^2 / 2   at   d = clip(-slope / m, low, high),
    so every m gives a bound; the best is found by fixed-point steps that send m to
    ||free slope|| / sqrt(eps^2 - ||clipped||^2).

    >>> region = Region.around("l2", jnp.array([0.0, 0.5]), jnp.float32(0.5))
    >>> round(float(region.least(jnp.array([3.0, 4.0]))), 3)  # 4 · 0.5 - 4 · 0.5: the first pixel cannot fall.
    0.0
    """
    center = jnp.vdot(slope, self.image)
    if self.norm == "linf":
      return center + jnp.sum(jnp.where(slope > 0, slope * self.low, slope * self.high))
    size = jnp.sqrt(jnp.sum(jnp.square(slope)) + _TINY)

    def turn(_: int, carry: tuple[Array, Array]) -> tuple[Array, Array]:
      best, multiplier = carry
      wanted = -slope / multiplier
      move = jnp.clip(wanted, self.low, self.high)
      dual = jnp.sum(slope * move + multiplier / 2 * move * move) - multiplier / 2 * self.eps**2
      clipped = move != wanted
      room = self.eps**2 - jnp.sum(jnp.where(clipped, move * move, 0.0))
      free = jnp.sum(jnp.where(clipped, 0.0, slope * slope))
      smaller = jnp.clip(jnp.sqrt(free / jnp.maximum(room, _TINY)), _TINY * size, multiplier)
      # Every multiplier gives a bound, so it is not differentiated; its root has no slope at 0.
      return jnp.maximum(best, center + dual), lax.stop_gradient(smaller)

    return lax.fori_loop(0, _TURNS, turn, (center - self.eps * size, size / (self.eps + _TINY)))[0]

  def greatest(self, slope: Array) -> Array:
    """Returns an upper bound of slope · x over the region."""
    return -self.least(-slope)

  def reach(self, slope: Array) -> Array:
    """Returns the sum of |slope · x| over pixels, for what rounding may do to a bound."""
    return jnp.sum(jnp.abs(slope) * (jnp.abs(self.image) + jnp.maximum(-self.low, self.high)))
