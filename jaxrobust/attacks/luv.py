"""The color space CIE 1976 L*u*v*, scaled to the unit cube, and back.

  (L/100, (u + 100)/200, (v + 100)/200)   of sRGB, white at u' = 0.1978, v' = 0.4683

Matrices have the four decimals of ReColorAdv's code (arXiv:1906.00001), so that tables of one are tables of the other;
there and back is exact to about 1e-3. At the edges of their ranges values have the gradient of the identity, as there.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from jaxrobust.core.types import Array

_TO_XYZ = np.array(
  [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9504]],
  np.float32,
)
_TO_RGB = np.array(
  [[3.2406, -1.5372, -0.4986], [-0.9689, 1.8758, 0.0415], [0.0557, -0.2040, 1.0570]],
  np.float32,
)
_WHITE_U, _WHITE_V = 0.1978, 0.4683
_TINY = 1e-10
# Below this share of white's luminance L is linear: (6/29)³, and L = 8.
_DARK = (6 / 29) ** 3


def clamp(x: Array, low: float, high: float) -> Array:
  """Returns x within bounds; its gradient is one at the bounds too, unlike that of `jnp.clip`."""
  return jnp.where(x < low, low, jnp.where(x > high, high, x))


def _mixed(colors: Array, matrix: np.ndarray) -> Array:
  """Multiplies by a matrix as three sums, so that the order of addition is that of the formula."""
  a, b, c = (colors[..., i] for i in range(3))
  return jnp.stack([row[0] * a + row[1] * b + row[2] * c for row in matrix], axis=-1)


def from_rgb(colors: Array) -> Array:
  """Returns sRGB colors (…, 3) as scaled L*u*v*.

  >>> [round(float(x), 3) for x in from_rgb(jnp.ones(3))]
  [1.0, 0.5, 0.5]
  """
  small = colors < 0.04045
  linear = jnp.where(small, colors / 12.92, ((jnp.where(small, 1.0, colors) + 0.055) / 1.055) ** 2.4)
  xyz = _mixed(linear, _TO_XYZ)
  x, y, z = (xyz[..., i] for i in range(3))
  total = x + 15 * y + 3 * z + _TINY
  dark = y < _DARK
  lightness = jnp.where(dark, (29 / 3) ** 3 * y, 116 * jnp.where(dark, 1.0, y) ** (1 / 3) - 16)
  u = 13 * lightness * (4 * x / total - _WHITE_U)
  v = 13 * lightness * (9 * y / total - _WHITE_V)
  return jnp.stack([lightness / 100, (u + 100) / 200, (v + 100) / 200], axis=-1)


def to_rgb(colors: Array) -> Array:
  """Returns scaled L*u*v* colors (…, 3) as sRGB, clipped to what can be shown.

  >>> [round(float(x), 3) for x in to_rgb(from_rgb(jnp.array([0.2, 0.5, 0.7])))]
  [0.2, 0.5, 0.7]
  """
  lightness, u, v = colors[..., 0] * 100, colors[..., 1] * 200 - 100, colors[..., 2] * 200 - 100
  up = u / (13 * lightness + _TINY) + _WHITE_U
  vp = v / (13 * lightness + _TINY) + _WHITE_V
  y = jnp.where(lightness <= 8, lightness * (3 / 29) ** 3, ((lightness + 16) / 116) ** 3)
  divisor = 4 * vp + _TINY
  xyz = jnp.stack([y * 9 * up / divisor, y, y * (12 - 3 * up - 20 * vp) / divisor], axis=-1)
  linear = _mixed(clamp(xyz, 0.0, 1.1), _TO_RGB)
  small = linear < 0.0031308
  bright = 1.055 * jnp.where(small, 1.0, linear) ** (1 / 2.4) - 0.055
  return clamp(jnp.where(small, 12.92 * linear, bright), 0.0, 1.0)
