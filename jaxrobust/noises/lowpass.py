"""Low-pass filtering, to ask which frequencies a classifier lives on (ARES-Bench, arXiv:2302.14301, Eq. 4).

x_b = IDFT(mask_b · DFT(x)), where the mask keeps the centered square of frequencies of side b: bandwidth 1 keeps the
mean alone, the image's side keeps everything. A cutoff r, in cycles per image, keeps the frequencies -r … r of either
axis: the bandwidth 2 r + 1, and everything where that is more than the side.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array


def low_pass(image: Array, bandwidth: Array | int) -> Array:
  """Returns an image (H, W, C) with the frequencies of a centered square of side `bandwidth` alone, clipped to [0, 1].

  >>> image = jnp.linspace(0, 1, 8 * 8 * 3).reshape(8, 8, 3)
  >>> bool(jnp.allclose(low_pass(image, 8), image, atol=1e-6)), bool(low_pass(image, 1).std((0, 1)).max() < 1e-6)
  (True, True)
  """
  height, width = image.shape[:2]
  spectrum = jnp.fft.fft2(image, axes=(0, 1))
  keep = _kept(height, bandwidth)[:, None, None] & _kept(width, bandwidth)[None, :, None]
  return jnp.clip(jnp.fft.ifft2(jnp.where(keep, spectrum, 0), axes=(0, 1)).real, 0, 1)


def _kept(size: int, bandwidth: Array | int) -> Array:
  """Returns which of `size` frequencies lie in a centered window, in the order of the transform."""
  frequency = jnp.round(jnp.fft.fftfreq(size) * size)
  return (frequency >= -(bandwidth // 2)) & (frequency < bandwidth - bandwidth // 2)
