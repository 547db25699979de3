"""The one convolution all models use, with an input gradient that is as fast inside a loop as outside.

XLA:CPU lowers the transposed convolution inside `lax.scan`, `while_loop` or `switch` with the reversed
kernel in a layout that misses its fast path: 5 to 20 times slower than the same step outside. Here
the input gradient is an ordinary convolution with a kernel flipped and transposed explicitly behind
an optimization barrier, which keeps the fast path everywhere and costs nothing on other platforms.

Convolutions in groups have no fast path on XLA:CPU at all. There a depthwise one is a sum of shifted products, and any
other is split into dense ones: several times faster forward and backward, inside a loop and outside.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax import lax

from jaxrobust.core.types import Array

Padding = tuple[tuple[int, int], tuple[int, int]]
_DIMENSIONS = ("NHWC", "HWIO", "NHWC")
# Kernels with more offsets than this leave their gradient to XLA: a product for each would take long to compile.
_MOST_OFFSETS = 9
# From this height on the rows of zeros that the joint product adds cost less than its longer sides save.
_TALL = 8
# Groups are merged, with zeros between them, until they have this many channels: narrower convolutions run no faster.
_MERGED_CHANNELS = 16


def _convolve(
  images: Array,
  kernel: Array,
  strides: tuple[int, int],
  padding: Sequence[tuple[int, int]],
  dilation: tuple[int, int],
  groups: int,
  stretch: tuple[int, int] = (1, 1),
) -> Array:
  """Convolves images with `stretch - 1` zeros between their pixels, in the form that the platform is fast at."""
  if groups > 1 and jax.default_backend() == "cpu":
    if groups == images.shape[-1] == kernel.shape[3]:
      return _shifted(images, kernel, strides, padding, dilation, stretch)
    return _split(images, kernel, strides, padding, dilation, groups, stretch)
  return lax.conv_general_dilated(
    images,
    kernel,
    strides,
    padding,
    lhs_dilation=stretch,
    rhs_dilation=dilation,
    dimension_numbers=_DIMENSIONS,
    feature_group_count=groups,
  )


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


@functools.partial(jax.custom_vjp, nondiff_argnums=(2, 3, 4, 5))
def conv2d(
  images: Array,
  kernel: Array,
  strides: tuple[int, int] = (1, 1),
  padding: Padding = ((0, 0), (0, 0)),
  dilation: tuple[int, int] = (1, 1),
  groups: int = 1,
) -> Array:
  """NHWC images, HWIO kernel (I per group), explicit padding.

  >>> conv2d(jnp.ones((1, 4, 4, 2)), jnp.ones((3, 3, 2, 5)), (2, 2), ((1, 1), (1, 1))).shape
  (1, 2, 2, 5)
  """
  return _convolve(images, kernel, strides, padding, dilation, groups)


def _conv_fwd(images: Array, kernel: Array, strides, padding, dilation, groups):  # type: ignore[no-untyped-def]
  return _convolve(images, kernel, strides, padding, dilation, groups), (images, kernel)


def _conv_bwd(strides, padding, dilation, groups, saved, cotangent):  # type: ignore[no-untyped-def]
  images, kernel = saved
  return (
    _input_gradient(cotangent, kernel, images.shape, strides, padding, dilation, groups),
    _kernel_gradient(images, cotangent, kernel, strides, padding, dilation, groups),
  )


def _kernel_gradient(images, cotangent, kernel, strides, padding, dilation, groups):  # type: ignore[no-untyped-def]
  if groups == 1 and kernel.shape[0] * kernel.shape[1] <= _MOST_OFFSETS and jax.default_backend() == "cpu":
    return _products(images, cotangent, kernel.shape, strides, padding, dilation)
  return jax.vjp(lambda k: _convolve(images, k, strides, padding, dilation, groups), kernel)[1](cotangent)[0]


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


def _input_gradient(
  cotangent: Array,
  kernel: Array,
  image_shape: Sequence[int],
  strides: tuple[int, int],
  padding: Padding,
  dilation: tuple[int, int],
  groups: int,
) -> Array:
  """Convolves the stretched cotangent with the flipped, transposed kernel."""
  pads = []
  for axis in range(2):
    reach = (kernel.shape[axis] - 1) * dilation[axis]
    stretched = (cotangent.shape[1 + axis] - 1) * strides[axis] + 1
    before = reach - padding[axis][0]
    # What the forward pass cut off on the far side comes back as rows of zero gradient.
    pads.append((before, image_shape[1 + axis] + reach - stretched - before))
  height, width, per_group, out = kernel.shape
  grouped = kernel[::-1, ::-1].reshape(height, width, per_group, groups, out // groups)
  flipped = grouped.transpose(0, 1, 4, 3, 2).reshape(height, width, out // groups, groups * per_group)
  flipped = lax.optimization_barrier(flipped)
  return _convolve(cotangent, flipped, (1, 1), pads, dilation, groups, strides)


conv2d.defvjp(_conv_fwd, _conv_bwd)


class Conv(nn.Module):
  """A convolution layer with PyTorch's conventions: explicit padding, optional bias.

  `padding` is one number, one per axis, or ((top, bottom), (left, right)).
  """

  features: int
  kernel_size: int | tuple[int, int] = 3
  stride: int | tuple[int, int] = 1
  padding: int | tuple[int, int] | Padding = 0
  dilation: int = 1
  groups: int = 1
  use_bias: bool = True

  @nn.compact
  def __call__(self, images: Array) -> Array:
    size, stride = _side(self.kernel_size), _side(self.stride)
    shape = (*size, images.shape[-1] // self.groups, self.features)
    kernel = self.param("kernel", nn.initializers.he_normal(), shape)
    padding = _both_sides(self.padding)
    out = conv2d(images, jnp.asarray(kernel, images.dtype), stride, padding, _side(self.dilation), self.groups)
    if not self.use_bias:
      return out
    return out + jnp.asarray(self.param("bias", nn.initializers.zeros_init(), (self.features,)), out.dtype)


def _both_sides(padding: int | tuple[int, int] | Padding) -> Padding:
  top, left = (padding, padding) if isinstance(padding, int) else padding
  return _side(top), _side(left)


def _side(value: int | tuple[int, int]) -> tuple[int, int]:
  return (value, value) if isinstance(value, int) else value
