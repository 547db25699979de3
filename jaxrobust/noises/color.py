"""Brightness, saturation and contrast.

Hendrycks and Dietterich 2019, arXiv:1903.12261. Brightness and saturation change one coordinate of HSV. With value
V = max(r, g, b) and saturation S = (V - min) / V each channel is V (1 - S g) for a g that depends on the hue
alone, so neither needs the hue.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array

from jaxrobust.noises.resampling import Rows, choose


def shift_value(image: Array, shift: Array | float) -> Array:
  """Adds to HSV's value; hue and saturation stay."""
  value = image.max(-1, keepdims=True)
  new = jnp.clip(value + shift, 0, 1)
  return jnp.where(value > 0, image * new / jnp.maximum(value, 1e-9), new)


def brightness(image: Array, key: Array, rows: Rows, severity: Array | int) -> Array:
  """Adds c to HSV's value."""
  del key
  return shift_value(image, choose(rows, severity)[0])


def saturate(image: Array, key: Array, rows: Rows, severity: Array | int) -> Array:
  """Maps HSV's saturation to a S + b; gray pixels, whose hue is 0, turn red where b > 0."""
  del key
  factor, summand = choose(rows, severity)
  value = image.max(-1, keepdims=True)
  depth = value - image
  saturation = depth.max(-1, keepdims=True) / jnp.maximum(value, 1e-9)
  new = jnp.clip(saturation * factor + summand, 0, 1)
  red = jnp.arange(image.shape[-1]) == 0
  gray = jnp.where(red, value, value * (1 - new))
  return jnp.where(saturation > 0, value - depth * new / jnp.maximum(saturation, 1e-9), gray)


def contrast(image: Array, key: Array, rows: Rows, severity: Array | int) -> Array:
  """Moves each channel toward its own mean."""
  del key
  (factor,) = choose(rows, severity)
  mean = image.mean((0, 1), keepdims=True)
  return (image - mean) * factor + mean
