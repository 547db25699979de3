"""JAX's own random numbers, drawn without a loop.

JAX lowers Threefry on CPUs to a loop over its rounds, each of which passes over the whole array: five times slower than
the same rounds in one pass, which shows where every item of an attack draws a random start on a small network.
An unrolled key hashes in one pass where a program is lowered for CPUs, to the same bits, so that nothing else changes;
it compiles faster, too.

For uniform draws the size of an image: `jax.random.uniform(unrolled(key), shape)`; for normal ones `normal`, as their
formula uses a draw several times and XLA would hash anew for each. Keys that are handed on stay JAX's own: some of its
functions (`poisson`) take no others.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import Any

import jax
import jax.extend.random
import jax.numpy as jnp
import numpy as np

from jaxrobust.core.types import Array

# Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC 2011): Threefry-2x32 with 20 rounds.
ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = 0x1BD11BDA
_LOWEST = float(np.nextafter(np.float32(-1.0), np.float32(0.0)))

_JAX: Any = jax.extend.random.threefry_prng_impl


def threefry_2x32(key: Array, high: Array, low: Array) -> tuple[Array, Array]:
  """Returns the hash of counters (high, low) by a key of two words."""
  words = (key[0], key[1], key[0] ^ key[1] ^ jnp.uint32(PARITY))
  x, y = high + words[0], low + words[1]
  for group in range(5):
    for turn in ROTATIONS[group % 2]:
      x = x + y
      y = x ^ ((y << turn) | (y >> (32 - turn)))
    x = x + words[(group + 1) % 3]
    y = y + words[(group + 2) % 3] + jnp.uint32(group + 1)
  return x, y


def _random_bits(key: Array, bit_width: int, shape: tuple[int, ...]) -> Array:
  """Draws 32-bit words; counters are numbered as JAX does: by an element's place, whatever the array is split over."""
  size = math.prod(shape)
  if bit_width != 32 or size >= 2**32 or not jax.config.jax_threefry_partitionable:  # type: ignore[attr-defined]
    return _JAX.random_bits(key, bit_width, shape)

  def one_pass(key: Array) -> Array:
    place = jnp.arange(size, dtype=jnp.uint32).reshape(shape)
    x, y = threefry_2x32(key, jnp.zeros_like(place), place)
    return x ^ y

  return jax.lax.platform_dependent(key, cpu=one_pass, default=lambda key: _JAX.random_bits(key, bit_width, shape))


_IMPLEMENTATION: Hashable = jax.extend.random.define_prng_impl(
  key_shape=_JAX.key_shape,
  seed=_JAX.seed,
  split=_JAX.split,
  random_bits=_random_bits,
  fold_in=_JAX.fold_in,
  name="threefry2x32-unrolled",
  tag="ufry",
)


def unrolled(key: Array) -> Array:
  """Returns the same key, its bits drawn in one pass; keys of other kinds than JAX's default come back as they are.

  >>> key = jax.random.key(3)
  >>> bool((jax.random.uniform(unrolled(key), (5,)) == jax.random.uniform(key, (5,))).all())
  True
  """
  if str(jax.random.key_impl(key)) != "threefry2x32":
    return key
  return jax.random.wrap_key_data(jax.random.key_data(key), impl=_IMPLEMENTATION)


def symmetric(key: Array, size: int) -> Array:
  """Returns a vector of numbers uniform in (-1, 1), hashed once however often they are used."""
  return computed_once(jax.random.uniform(unrolled(key), (size,), minval=_LOWEST, maxval=1.0))


def computed_once(values: Array) -> Array:
  """Returns finite numbers that whatever uses them reads from memory.

  XLA:CPU drops optimization barriers before it fuses, and each use of a value computes it anew, very slowly where a
  change of shape lies between. A loop is not fused; two turns are the fewest that stay a loop, and what they do must
  not be seen to be nothing.
  """

  def touch(number: Array, values: Array) -> Array:
    least = jnp.finfo(values.dtype).min
    # Not `.at[].max`, a scatter, which is another loop.
    return jax.lax.dynamic_update_index_in_dim(values, jnp.maximum(values[number], least), number, 0)

  def on_cpu(values: Array) -> Array:
    return jax.lax.fori_loop(0, 2, touch, values.ravel()).reshape(values.shape)

  return jax.lax.platform_dependent(values, cpu=on_cpu, default=jax.lax.optimization_barrier) if values.size else values


def gaussian(values: Array) -> Array:
  """Returns the normal numbers that JAX reads from uniform ones in (-1, 1)."""
  return np.float32(np.sqrt(2)) * jax.lax.erf_inv(values)


def normal(key: Array, shape: tuple[int, ...]) -> Array:
  """Returns what `jax.random.normal` does.

  >>> key = jax.random.key(3)
  >>> bool((normal(key, (5,)) == jax.random.normal(key, (5,))).all())
  True
  """
  return computed_once(gaussian(symmetric(key, math.prod(shape)))).reshape(shape)
