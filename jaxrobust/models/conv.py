"""The one convolution all models use, with an input gradient that is as fast inside a loop as outside.

XLA:CPU lowers the transposed convolution inside `lax.scan`, `while_loop` or `switch` with the reversed
kernel in a layout that misses its fast path: 5 to 20 times slower than the same step outside. Here
the input gradient is an ordinary convolution with a kernel flipped and transposed explicitly behind
an optimisation barrier, which keeps the fast path everywhere and costs nothing on other platforms.
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


def _forward(
  images: Array, kernel: Array, strides: tuple[int, int], padding: Padding, dilation: tuple[int, int], groups: int
) -> Array:
  return lax.conv_general_dilated(
    images,
    kernel,
    strides,
    padding,
    rhs_dilation=dilation,
    dimension_numbers=_DIMENSIONS,
    feature_group_count=groups,
  )


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
  return _forward(images, kernel, strides, padding, dilation, groups)


def _conv_fwd(images: Array, kernel: Array, strides, padding, dilation, groups):  # type: ignore[no-untyped-def]
  return _forward(images, kernel, strides, padding, dilation, groups), (images, kernel)


def _conv_bwd(strides, padding, dilation, groups, saved, cotangent):  # type: ignore[no-untyped-def]
  images, kernel = saved
  kernel_gradient = jax.vjp(lambda k: _forward(images, k, strides, padding, dilation, groups), kernel)[1](cotangent)[0]
  return _input_gradient(cotangent, kernel, images.shape, strides, padding, dilation, groups), kernel_gradient


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
  height, width, per_group, out = kernel.shape
  grouped = kernel[::-1, ::-1].reshape(height, width, per_group, groups, out // groups)
  flipped = grouped.transpose(0, 1, 4, 3, 2).reshape(height, width, out // groups, groups * per_group)
  flipped = lax.optimization_barrier(flipped)
  pads = []
  for axis in range(2):
    reach = (kernel.shape[axis] - 1) * dilation[axis]
    stretched = (cotangent.shape[1 + axis] - 1) * strides[axis] + 1
    before = reach - padding[axis][0]
    # What the forward pass cut off on the far side comes back as rows of zero gradient.
    pads.append((before, image_shape[1 + axis] + reach - stretched - before))
  return lax.conv_general_dilated(
    cotangent,
    flipped,
    (1, 1),
    pads,
    lhs_dilation=strides,
    rhs_dilation=dilation,
    dimension_numbers=_DIMENSIONS,
    feature_group_count=groups,
  )


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
