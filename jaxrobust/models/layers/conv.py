"""The one convolution all models use: fast on every platform, and differentiable any number of times in either mode.

It is a primitive of its own, because what is fast depends on the platform that a program is *lowered* for, which is
known only then: for CPUs it becomes the forms of `conv_cpu.py`, for all others XLA's plain convolution, which GPUs and
TPUs have routines for, backward ones included. Its gradients by the images and by the kernel are primitives too. Each
of the three is bilinear, and the transposes of each are the other two:

  conv2d(x, k) = y        by x: input_gradient(dy, k)     by k: kernel_gradient(x, dy)
  input_gradient(c, k)    by c: conv2d(dx, k)             by k: kernel_gradient(dx, c)
  kernel_gradient(x, c)   by x: input_gradient(c, dk)     by c: conv2d(x, dk)

so `jax.grad`, `jax.jvp` and any composition of them stay among the three.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax import lax
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from jaxrobust.core.types import Array
from jaxrobust.models.layers import conv_cpu
from jaxrobust.models.layers.conv_cpu import DIMENSIONS, ConvWindow, Padding

Form = Callable[..., Array]


def _convolve(images: Array, kernel: Array, window: ConvWindow) -> Array:
  return lax.conv_general_dilated(
    images,
    kernel,
    window.strides,
    window.padding,
    rhs_dilation=window.dilation,
    dimension_numbers=DIMENSIONS,
    feature_group_count=window.groups,
    precision=window.precision or lax.Precision.DEFAULT,
  )


def _input_gradient(cotangent: Array, kernel: Array, window: ConvWindow) -> Array:
  shape = (cotangent.shape[0], *window.image_size, kernel.shape[2] * window.groups)
  images = jax.ShapeDtypeStruct(shape, cotangent.dtype)
  return jax.linear_transpose(lambda images: _convolve(images, kernel, window), images)(cotangent)[0]


def _kernel_gradient(images: Array, cotangent: Array, window: ConvWindow) -> Array:
  shape = (*window.kernel_size, images.shape[3] // window.groups, cotangent.shape[3])
  kernel = jax.ShapeDtypeStruct(shape, images.dtype)
  return jax.linear_transpose(lambda kernel: _convolve(images, kernel, window), kernel)(cotangent)[0]


def _make_primitive(name: str, plain: Form, on_cpu: Form, rows_only: bool) -> Primitive:
  """Returns a primitive of two arrays and a window.

  Args:
    name: what it is called in printed programs.
    plain: how it is computed.
    on_cpu: how it is computed where a program is lowered for CPUs.
    rows_only: whether the first argument and the result are rows that a batch can join.
  """
  primitive = Primitive(name)
  primitive.def_impl(lambda first, second, *, window: _eager(primitive, window)(first, second))
  primitive.def_abstract_eval(functools.partial(_abstract, plain))
  mlir.register_lowering(primitive, mlir.lower_fun(plain, multiple_results=False))
  mlir.register_lowering(primitive, mlir.lower_fun(on_cpu, multiple_results=False), platform="cpu")

  def batch(arguments: Any, axes: Any, *, window: ConvWindow) -> tuple[Array, int]:
    first, second = arguments
    if rows_only and axes[1] is None:
      rows = jnp.moveaxis(first, axes[0], 0)
      out = primitive.bind(rows.reshape(-1, *rows.shape[2:]), second, window=window)
      return out.reshape(*rows.shape[:2], *out.shape[1:]), 0
    forms = (jax.vmap(functools.partial(form, window=window), in_axes=axes) for form in (on_cpu, plain))
    return lax.platform_dependent(first, second, **dict(zip(("cpu", "default"), forms, strict=True))), 0

  batching.primitive_batchers[primitive] = batch
  return primitive


@functools.cache
def _eager(primitive: Primitive, window: ConvWindow) -> Callable[..., Array]:
  return jax.jit(functools.partial(primitive.bind, window=window))


def _abstract(plain: Form, first: Any, second: Any, *, window: ConvWindow) -> Any:
  out = jax.eval_shape(functools.partial(plain, window=window), _shape(first), _shape(second))
  return first.update(shape=out.shape, dtype=out.dtype, weak_type=False)


def _shape(array: Any) -> jax.ShapeDtypeStruct:
  return jax.ShapeDtypeStruct(array.shape, array.dtype)


_conv_p = _make_primitive("conv2d", _convolve, conv_cpu.convolve, True)
_input_gradient_p = _make_primitive("conv2d_input_gradient", _input_gradient, conv_cpu.input_gradient, True)
_kernel_gradient_p = _make_primitive("conv2d_kernel_gradient", _kernel_gradient, conv_cpu.kernel_gradient, False)

ad.defbilinear(
  _conv_p,
  lambda out, _, kernel, *, window: _input_gradient_p.bind(out, kernel, window=window),
  lambda out, images, _, *, window: _kernel_gradient_p.bind(images, out, window=window),
)
ad.defbilinear(
  _input_gradient_p,
  lambda out, _, kernel, *, window: _conv_p.bind(out, kernel, window=window),
  lambda out, cotangent, _, *, window: _kernel_gradient_p.bind(out, cotangent, window=window),
)
ad.defbilinear(
  _kernel_gradient_p,
  lambda out, _, cotangent, *, window: _input_gradient_p.bind(cotangent, out, window=window),
  lambda out, images, _, *, window: _conv_p.bind(images, out, window=window),
)


def conv2d(
  images: Array,
  kernel: Array,
  strides: tuple[int, int] = (1, 1),
  padding: Padding = ((0, 0), (0, 0)),
  dilation: tuple[int, int] = (1, 1),
  groups: int = 1,
) -> Array:
  """Convolves NHWC images with an HWIO kernel (I per group), with explicit padding.

  >>> conv2d(jnp.ones((1, 4, 4, 2)), jnp.ones((3, 3, 2, 5)), (2, 2), ((1, 1), (1, 1))).shape
  (1, 2, 2, 5)
  """
  images, kernel = jnp.asarray(images), jnp.asarray(kernel)
  if images.dtype != kernel.dtype:
    raise TypeError(f"images are {images.dtype} and the kernel {kernel.dtype}: cast one of them")
  # What is asked for here, not where the program is lowered.
  precision = jax.config.jax_default_matmul_precision  # type: ignore[attr-defined]
  size, taps = (images.shape[1], images.shape[2]), (kernel.shape[0], kernel.shape[1])
  window = ConvWindow(size, taps, strides, padding, dilation, groups, precision)
  return _conv_p.bind(images, kernel, window=window)


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
