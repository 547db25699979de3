"""Bytes become the same floats on every platform."""

import jax
import numpy as np

from jaxrobust.engine.judge import as_floats, byte_levels, divided_levels


def test_every_byte_is_the_float_that_numpy_makes_of_it_however_it_is_computed():
  levels = np.arange(256, dtype=np.uint8)
  wanted = np.arange(256, dtype=np.float32) / np.float32(255)
  for made in (byte_levels(levels), jax.jit(as_floats)(levels), jax.jit(divided_levels)(levels)):
    np.testing.assert_array_equal(made, wanted)
