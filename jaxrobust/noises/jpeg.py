"""JPEG compression on the device: the codec of libjpeg up to entropy coding, which loses nothing.

Colors to YCbCr, chroma halved in both directions (4:2:0), 8x8 cosine transform, division by the quality's tables and
rounding, and all the way back with libjpeg's smooth ("fancy") chroma upsampling. Tables and scaling are those of
annex K of the standard (ITU-T T.81) and libjpeg's `jpeg_set_quality`. libjpeg computes in integers and rounds between
the two passes of a transform; so does this, with integers in float32, because a coefficient that falls on the
other side of a rounding changes 64 pixels.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxrobust.noises.resampling import Rows, choose

_LUMA = np.array(
  [
    [16, 11, 10, 16, 24, 40, 51, 61],
    [12, 12, 14, 19, 26, 58, 60, 55],
    [14, 13, 16, 24, 40, 57, 69, 56],
    [14, 17, 22, 29, 51, 87, 80, 62],
    [18, 22, 37, 56, 68, 109, 103, 77],
    [24, 35, 55, 64, 81, 104, 113, 92],
    [49, 64, 78, 87, 103, 121, 120, 101],
    [72, 92, 95, 98, 112, 100, 103, 99],
  ]
)
_CHROMA = np.full((8, 8), 99)
_CHROMA[:4, :4] = [[17, 18, 24, 47], [18, 21, 26, 66], [24, 26, 56, 99], [47, 66, 99, 99]]

# 16-bit fractions. The last column is the offset with the half that rounds.
_TO_YCC = (
  (19595, 38470, 7471, 32768),
  (-11059, -21709, 32768, (128 << 16) + 32767),
  (32768, -27439, -5329, (128 << 16) + 32767),
)


def _cosines() -> np.ndarray:
  """Returns the one-dimensional transform, times the square root of 8 as libjpeg has it."""
  k, n = np.arange(8)[:, None], np.arange(8)
  matrix = np.sqrt(2) * np.cos((2 * n + 1) * k * np.pi / 16)
  matrix[0] /= np.sqrt(2)
  return matrix.astype(np.float32)


def quantization_tables(quality: Array | float) -> Array:
  """Returns the luma and the chroma table (2, 8, 8) of a quality from 1 to 100.

  >>> [int(table[0, 0]) for table in quantization_tables(25.0)]
  [32, 34]
  """
  scale = jnp.where(quality < 50, jnp.floor(5000 / quality), 200 - 2 * quality)
  base = jnp.asarray(np.stack([_LUMA, _CHROMA]), jnp.float32)
  return jnp.clip(jnp.floor((base * scale + 50) / 100), 1, 255)


def through_jpeg(image: Array, quality: Array | float) -> Array:
  """Returns an RGB image (H, W, 3) in [0, 1] after compression with that quality (Pillow's default settings)."""
  height, width = image.shape[:2]
  levels = jnp.round(image * 255).astype(jnp.int32)
  levels = jnp.pad(levels, ((0, -height % 16), (0, -width % 16), (0, 0)), mode="edge")
  red, green, blue = levels[..., 0], levels[..., 1], levels[..., 2]
  ycc = [r * red + g * green + b * blue + offset >> 16 for r, g, b, offset in _TO_YCC]
  luma_table, chroma_table = quantization_tables(quality)
  luma = _through_blocks(ycc[0], luma_table)[:height, :width]
  half = (-(-height // 2), -(-width // 2))
  chroma = [
    _upsample(_through_blocks(_downsample(ycc[c]), chroma_table)[: half[0], : half[1]])[:height, :width] - 128
    for c in (1, 2)
  ]
  red = luma + (91881 * chroma[1] + 32768 >> 16)
  green = luma + (-22554 * chroma[0] - 46802 * chroma[1] + 32768 >> 16)
  blue = luma + (116130 * chroma[0] + 32768 >> 16)
  return jnp.clip(jnp.stack([red, green, blue], -1), 0, 255).astype(jnp.float32) / 255


def jpeg_compression(image: Array, key: Array, rows: Rows, severity: Array | int) -> Array:
  """Compresses with the quality given."""
  del key
  return through_jpeg(image, choose(rows, severity)[0])


def _downsample(plane: Array) -> Array:
  """Returns means of 2x2, rounded up and down in turns from column to column, as libjpeg does to stay unbiased."""
  height, width = plane.shape
  total = plane.reshape(height // 2, 2, width // 2, 2).sum((1, 3))
  return total + 1 + jnp.arange(width // 2) % 2 >> 2


def _through_blocks(plane: Array, table: Array) -> Array:
  """Transforms, quantizes and restores each 8x8 block of a plane of levels."""
  height, width = plane.shape
  cosines, highest = _cosines(), jax.lax.Precision.HIGHEST
  blocks = (plane - 128).astype(jnp.float32).reshape(height // 8, 8, width // 8, 8)
  # Rows are kept to a quarter, the transform itself (8 times the orthonormal one) to integers.
  rows = jnp.floor(4 * jnp.einsum("bicj,vj->bicv", blocks, cosines, precision=highest) + 0.5)
  frequencies = jnp.floor(jnp.einsum("ui,bicv->bcuv", cosines, rows, precision=highest) / 4 + 0.5)
  # Halves are rounded away from zero.
  kept = jnp.sign(frequencies) * jnp.floor((jnp.abs(frequencies) + 4 * table) / (8 * table)) * table
  columns = jnp.floor(4 * jnp.einsum("ui,bcuv->bicv", cosines, kept, precision=highest) + 0.5)
  restored = jnp.floor(jnp.einsum("vj,bicv->bicj", cosines, columns, precision=highest) / 32 + 0.5)
  return jnp.clip(restored + 128, 0, 255).astype(jnp.int32).reshape(height, width)


def _upsample(plane: Array) -> Array:
  """Doubles both sides with weights 9, 3, 3, 1 of 16: nearest pixels count three quarters in each direction."""
  height, width = plane.shape
  padded = jnp.pad(plane, 1, mode="edge")
  rows = jnp.stack([3 * padded[1:-1] + padded[:-2], 3 * padded[1:-1] + padded[2:]], 1).reshape(2 * height, width + 2)
  left, right = 3 * rows[:, 1:-1] + rows[:, :-2] + 8, 3 * rows[:, 1:-1] + rows[:, 2:] + 7
  return jnp.stack([left, right], 2).reshape(2 * height, 2 * width) >> 4
