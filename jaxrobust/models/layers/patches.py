"""Cutting images into patches: reshapes and matrix products, so that they are fast on every platform.

A convolution whose stride equals its kernel is one matrix product. As a convolution its input gradient would
slide the kernel over a cotangent stretched with zeros, size² times the work.
"""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from flax import linen as nn

from jaxrobust.core.types import Array
from jaxrobust.models.layers.basic import gelu, layer_norm
from jaxrobust.models.layers.conv import Conv

Hide = Callable[[Array, Array], Array]
"""(patch embeddings, their positions) -> the tokens that the blocks see, their sum by default.

Masked pre-training hides patches with it.
"""


def patchify(images: Array, size: int) -> Array:
  """Returns non-overlapping patches, flattened as (row, column, channel); what does not fill a patch is cut off.

  >>> patchify(jnp.ones((2, 9, 8, 3)), 4).shape
  (2, 2, 2, 48)
  """
  batch, height, width, channels = images.shape
  rows, columns = height // size, width // size
  grid = images[:, : rows * size, : columns * size].reshape(batch, rows, size, columns, size, channels)
  return grid.transpose(0, 1, 3, 2, 4, 5).reshape(batch, rows, columns, size * size * channels)


def sine_positions(rows: int, columns: int, features: int) -> np.ndarray:
  """Returns (rows · columns, features): sines and cosines of both coordinates at frequencies from 1 down to 1/10,000.

  >>> sine_positions(2, 3, 8).shape
  (6, 8)
  """
  quarter = features // 4
  frequencies = 10000.0 ** (-np.arange(quarter) / quarter)
  grid = np.stack(np.meshgrid(np.arange(rows), np.arange(columns), indexing="ij"), -1).reshape(-1, 2, 1)
  angles = grid * frequencies
  return np.concatenate([np.sin(angles), np.cos(angles)], -1).reshape(rows * columns, 4 * quarter).astype(np.float32)


def unpatchify(patches: Array, size: int) -> Array:
  """Returns the images whose `patchify` these are.

  >>> images = jnp.arange(2 * 8 * 8 * 3.0).reshape(2, 8, 8, 3)
  >>> bool((unpatchify(patchify(images, 4), 4) == images).all())
  True
  """
  batch, rows, columns, values = patches.shape
  grid = patches.reshape(batch, rows, columns, size, size, values // size**2).transpose(0, 1, 3, 2, 4, 5)
  return grid.reshape(batch, rows * size, columns * size, -1)


def unfold(images: Array, size: int, stride: int, padding: int) -> Array:
  """Returns overlapping patches, flattened as (channel, row, column): the order of PyTorch's `Unfold`.

  >>> unfold(jnp.ones((2, 8, 8, 3)), 3, 2, 1).shape
  (2, 4, 4, 27)
  """
  padded = jnp.pad(images, ((0, 0), (padding, padding), (padding, padding), (0, 0)))
  rows, columns = ((length - size) // stride + 1 for length in padded.shape[1:3])
  shifted = [
    padded[:, row : row + (rows - 1) * stride + 1 : stride, column : column + (columns - 1) * stride + 1 : stride]
    for row in range(size)
    for column in range(size)
  ]
  return jnp.stack(shifted, axis=-1).reshape(images.shape[0], rows, columns, -1)


class PatchConv(nn.Module):
  """The convolution of kernel and stride `size`, with the parameters of one."""

  features: int
  size: int
  use_bias: bool = True

  @nn.compact
  def __call__(self, images: Array) -> Array:
    shape = (self.size, self.size, images.shape[-1], self.features)
    kernel = self.param("kernel", nn.initializers.lecun_normal(), shape)
    out = patchify(images, self.size) @ jnp.asarray(kernel, images.dtype).reshape(-1, self.features)
    if not self.use_bias:
      return out
    return out + jnp.asarray(self.param("bias", nn.initializers.zeros_init(), (self.features,)), out.dtype)


class ConvStem(nn.Module):
  """The stem of Singh, Croce and Hein 2023 (arXiv:2303.01870), in place of a patch embedding.

  3×3 convolutions of the given widths and strides, each followed by layer normalization over channels and GELU; ViTs
  add a 1×1 projection of the width `project`. Layers are numbered as in the authors' `nn.Sequential`.
  """

  widths: tuple[int, ...]
  strides: tuple[int, ...]
  project: int | None = None

  @nn.compact
  def __call__(self, x: Array) -> Array:
    for index, (width, stride) in enumerate(zip(self.widths, self.strides, strict=True)):
      x = Conv(width, 3, stride, 1, name=str(3 * index))(x)
      x = gelu(layer_norm(str(3 * index + 1))(x))
    if self.project is None:
      return x
    return Conv(self.project, 1, name=str(3 * len(self.widths)))(x)
