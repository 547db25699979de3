"""Sums of an image, in an order that the size of the batch does not change, and of many images."""

from __future__ import annotations

import functools
import operator

import jax
import jax.numpy as jnp

Array = jax.Array

# Terms that are added in a row.
_TERMS = 16


@jax.custom_jvp
def ordered_sum(values: Array) -> Array:
  """Returns the sum of all values of an array, the same in any batch, to the bit.

  XLA's own sums differ in their last bit between batches of 16 and 64. Of two candidates that are equally far from the
  image another one would be kept, and an answer at a decision boundary would turn, with everything after it.

  Example:
    >>> float(ordered_sum(jnp.arange(40.0)))
    780.0
  """
  values = values.ravel()
  while values.size > 1:
    terms = min(_TERMS, values.size)
    rows = -(-values.size // terms)
    values = jnp.pad(values, (0, terms * rows - values.size)).reshape(terms, rows)
    values = functools.reduce(operator.add, values)
  return values[0]


# A derivative need not follow the pieces: that of a sum is a sum, and its transpose a broadcast.
ordered_sum.defjvps(lambda tangent, total, values: jnp.sum(tangent))


def sum_of_many(images: Array) -> Array:
  """Returns the sum of images over the first axis.

  Written as additions of flat vectors: XLA:CPU's own sum over a first axis takes longer than a small network.

  Example:
    >>> sum_of_many(jnp.ones((4, 2, 2, 3))).shape
    (2, 2, 3)
  """
  rows = images.reshape(len(images), -1)
  while len(rows) > 1:
    terms = min(_TERMS, len(rows))
    many = -(-len(rows) // terms)
    rows = jnp.pad(rows, ((0, terms * many - len(rows)), (0, 0))).reshape(terms, many, -1)
    rows = functools.reduce(operator.add, rows)
  return rows[0].reshape(images.shape[1:])
