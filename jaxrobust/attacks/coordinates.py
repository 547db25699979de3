"""Random orders of coordinates that are computed, not stored: the i-th of d without a list of d.

A Feistel network over pairs of digits, (a, b) with a·b >= d, is a one-to-one map whatever its round function is;
numbers that land beyond d are mapped again, which ends since the map is one-to-one (Black and Rogaway 2002, "Ciphers
with arbitrary finite domains"). A state holds a key and a counter in place of a permutation, which for a large image
would be as large.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp

from jaxrobust.core.types import Array

_ROUNDS = 6


def _mix(word: Array) -> Array:
  """Returns a hash of a 32-bit word: the finalizer of MurmurHash3."""
  word = (word ^ (word >> 16)) * jnp.uint32(0x85EBCA6B)
  word = (word ^ (word >> 13)) * jnp.uint32(0xC2B2AE35)
  return word ^ (word >> 16)


def shuffled(key: Array, number: Array, size: int) -> Array:
  """Returns the place of `number` in a random order of 0, …, size - 1.

  >>> key = jax.random.key(0)
  >>> sorted(int(place) for place in shuffled(key, jnp.arange(7), 7)) == list(range(7))
  True
  """
  rows = math.isqrt(size - 1) + 1
  columns = -(-size // rows)
  words = jax.random.bits(key, (_ROUNDS,))

  def once(number: Array) -> Array:
    row, column = number // columns, number % columns
    for turn in range(_ROUNDS):
      if turn % 2:
        row = (row + _mix(column ^ words[turn]) % rows) % rows
      else:
        column = (column + _mix(row ^ words[turn]) % columns) % columns
    return row * columns + column

  def one(number: Array) -> Array:
    return jax.lax.while_loop(lambda place: place >= size, once, once(number)).astype(jnp.int32)

  number = jnp.asarray(number).astype(jnp.uint32)
  return jax.vmap(one)(number) if number.ndim else one(number)
