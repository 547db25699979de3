"""The convolution and its two gradients in the forms that XLA:CPU is fast at.

Inside `lax.scan`, `while_loop` or `switch` XLA:CPU lowers the transposed convolution with the reversed kernel in a
layout that misses its fast path: 5 to 20 times slower than the same step outside. Here the input gradient is an
ordinary convolution with a kernel flipped and transposed explicitly behind an optimization barrier, which keeps the
fast path.

Convolutions in groups have no fast path on XLA:CPU at all. There a depthwise one is a sum of shifted products, and any
other is split into dense ones: several times faster forward and backward, inside a loop and outside.

`models/layers/conv.py` chooses these forms while a program is lowered for a CPU, and no other platform sees them: on a
GPU the flipped kernel would hide cuDNN's own backward routine.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jaxrobust.core.types import Array

Padding = tuple[tuple[int, int], tuple[int, int]]
DIMENSIONS = ("NHWC", "HWIO", "NHWC")
# Kernels with more offsets than this leave their gradient to XLA: a product for each would take long to compile.
_MOST_OFFSETS = 9
# From this height on the rows of zeros that the joint product adds cost less than its longer sides save.
_TALL = 8
# Groups are merged, with zeros between them, until they have this many channels: narrower convolutions run no faster.
_MERGED_CHANNELS = 16


class ConvWindow(NamedTuple):
  """Says what a convolution is beside its arrays.

  Attributes:
    image_size, kernel_size: height and width.
    strides, padding, dilation, groups: as everywhere.
    precision: of products, as it was asked for where the convolution was traced; CPUs have but one.
  """

  image_size: tuple[int, int]
  kernel_size: tuple[int, int]
  strides: tuple[int, int] = (1, 1)
  padding: Padding = ((0, 0), (0, 0))
  dilation: tuple[int, int] = (1, 1)
  groups: int = 1
  precision: str | None = None


def convolve(images: Array, kernel: Array, window: ConvWindow) -> Array:
  """Convolves (N, H, W, C) with (H, W, C / groups, O)."""
  return _convolve(images, kernel, window.strides, window.padding, window.dilation, window.groups)


def input_gradient(cotangent: Array, kernel: Array, window: ConvWindow) -> Array:
  """Convolves the stretched cotangent with the flipped, transposed kernel."""
  pads = []
  for axis in range(2):
    reach = (window.kernel_size[axis] - 1) * window.dilation[axis]
    stretched = (cotangent.shape[1 + axis] - 1) * window.strides[axis] + 1
    before = reach - window.padding[axis][0]
    # What the forward pass cut off on the far side comes back as rows of zero gradient.
    pads.append((before, window.image_size[axis] + reach - stretched - before))
  height, width, per_group, out = kernel.shape
  groups = window.groups
  grouped = kernel[::-1, ::-1].reshape(height, width, per_group, groups, out // groups)
  flipped = grouped.transpose(0, 1, 4, 3, 2).reshape(height, width, out // groups, groups * per_group)
  flipped = lax.optimization_barrier(flipped)
  return _convolve(cotangent, flipped, (1, 1), pads, window.dilation, groups, window.strides)


def kernel_gradient(images: Array, cotangent: Array, window: ConvWindow) -> Array:
  """Returns the gradient (H, W, C / groups, O) by the kernel."""
  shape = (*window.kernel_size, images.shape[3] // window.groups, cotangent.shape[3])
  if window.groups == 1 and window.kernel_size[0] * window.kernel_size[1] <= _MOST_OFFSETS:
    return _products(images, cotangent, shape, window.strides, window.padding, window.dilation)
  kernel = jax.ShapeDtypeStruct(shape, images.dtype)
  return jax.linear_transpose(lambda kernel: convolve(images, kernel, window), kernel)(cotangent)[0]


def _convolve(
  images: Array,
  kernel: Array,
  strides: tuple[int, int],
  padding: Sequence[tuple[int, int]],
  dilation: tuple[int, int],
  groups: int,
  stretch: tuple[int, int] = (1, 1),
) -> Array:
  """Convolves images with `stretch - 1` zeros between their pixels."""
  if groups == 1:
    return lax.conv_general_dilated(
      images, kernel, strides, padding, lhs_dilation=stretch, rhs_dilation=dilation, dimension_numbers=DIMENSIONS
    )
  if groups == images.shape[-1] == kernel.shape[3]:
    return _shifted(images, kernel, strides, padding, dilation, stretch)
  return _split(images, kernel, strides, padding, dilation, groups, stretch)


def _split(images, kernel, strides, padding, dilation, groups, stretch):  # type: ignore[no-untyped-def]
  """Groups one by one, small ones merged into a dense convolution with a block-diagonal kernel."""
  height, width, channels, out = kernel.shape
  fits = (n for n in range(1, groups + 1) if groups % n == 0 and n * channels >= _MERGED_CHANNELS)
  merged = next(fits, groups)
  parts = groups // merged
  blocks = kernel.reshape(height, width, channels, parts, merged, out // groups)
  dense = jnp.einsum("hwipmo,mn->hwnipmo", blocks, jnp.eye(merged, dtype=kernel.dtype))
  dense = dense.reshape(height, width, merged * channels, out)
  kernels = lax.optimization_barrier(jnp.split(dense, parts, axis=3))
  pieces = zip(jnp.split(images, parts, axis=3), kernels, strict=True)
  return jnp.concatenate(
    [_convolve(piece, part, strides, padding, dilation, 1, stretch) for piece, part in pieces], axis=3
  )


def _shifted(
  images: Array,
  kernel: Array,
  strides: tuple[int, int],
  padding: Sequence[tuple[int, int]],
  dilation: tuple[int, int],
  stretch: tuple[int, int],
) -> Array:
  """Computes a depthwise convolution as a sum over kernel positions."""
  sides = [(low, high, apart - 1) for (low, high), apart in zip(padding, stretch, strict=True)]
  padded = lax.pad(images, jnp.zeros((), images.dtype), [(0, 0, 0), *sides, (0, 0, 0)])
  padded = lax.optimization_barrier(padded)  # Else whatever made the images is computed once per kernel position.
  reach = [(size - 1) * apart for size, apart in zip(kernel.shape[:2], dilation, strict=True)]
  last = [(padded.shape[1 + axis] - 1 - reach[axis]) // strides[axis] * strides[axis] for axis in range(2)]
  total = jnp.zeros((), jnp.promote_types(images.dtype, jnp.float32))
  for row in range(kernel.shape[0]):
    for column in range(kernel.shape[1]):
      top, left = row * dilation[0], column * dilation[1]
      stop = (len(images), top + last[0] + 1, left + last[1] + 1, images.shape[3])
      window = lax.slice(padded, (0, top, left, 0), stop, (1, *strides, 1))
      total = total + window.astype(total.dtype) * kernel[row, column, 0].astype(total.dtype)
  return total.astype(images.dtype)


def _products(
  images: Array,
  cotangent: Array,
  shape: Sequence[int],
  strides: tuple[int, int],
  padding: Padding,
  dilation: tuple[int, int],
) -> Array:
  """Makes one matrix product per kernel offset: two to four times as fast as XLA:CPU's convolution over the batch."""
  height, width, features, out = shape
  rows, columns = cotangent.shape[1:3]
  padded = jnp.pad(images, ((0, 0), *padding, (0, 0)))
  if strides == (1, 1) and rows >= _TALL:
    return _joint_product(padded, cotangent, shape, dilation)
  flat = cotangent.reshape(-1, out)
  products = []
  for i in range(height):
    for j in range(width):
      top, left = i * dilation[0], j * dilation[1]
      stop = (top + (rows - 1) * strides[0] + 1, left + (columns - 1) * strides[1] + 1)
      window = lax.slice(
        padded, (0, top, left, 0), (len(images), *stop, features), (1, strides[0], strides[1], 1)
      ).reshape(-1, features)
      products.append(lax.dot_general(window, flat, (((0,), (0,)), ((), ()))))
  return jnp.stack(products).reshape(height, width, features, out)


def _joint_product(padded: Array, cotangent: Array, shape: Sequence[int], dilation: tuple[int, int]) -> Array:
  """Joins all offsets in one product: images shifted along columns side by side, times cotangents shifted along rows.

  Moves three copies of each where a product per offset moves nine, and its sides are long enough to run fast.
  """
  height, width, features, out = shape
  columns, reach = cotangent.shape[2], (height - 1) * dilation[0]
  lefts = [column * dilation[1] for column in range(width)]
  tops = [row * dilation[0] for row in range(height)]
  images = jnp.concatenate([padded[:, :, left : left + columns] for left in lefts], axis=3)
  shifts = [jnp.pad(cotangent, ((0, 0), (top, reach - top), (0, 0), (0, 0))) for top in tops]
  cotangents = jnp.concatenate(shifts, axis=3)
  product = lax.dot_general(
    images.reshape(-1, width * features), cotangents.reshape(-1, height * out), (((0,), (0,)), ((), ()))
  )
  return product.reshape(width, features, height, out).transpose(2, 0, 1, 3)
