"""Small layers that several families share, with PyTorch's constants and padding rules.

Precision follows the variables: with parameters and images cast to bfloat16 everything computes in bfloat16, except
batch statistics and the sums of normalization layers. Random layers draw from the rng collection "dropout" and do
nothing in evaluation.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from jax import lax

from jaxrobust.core.types import Array
from jaxrobust.models.layers.conv import Conv, Padding

Pair = int | tuple[int, int]

gelu = functools.partial(nn.gelu, approximate=False)
hard_sigmoid = nn.hard_sigmoid
hard_swish = nn.hard_swish


def pair(value: Pair) -> tuple[int, int]:
  return (value, value) if isinstance(value, int) else value


def batch_norm(train: bool, name: str, epsilon: float = 1e-5, momentum: float = 0.1) -> nn.BatchNorm:
  """Makes batch normalization with PyTorch's constants (flax counts momentum the other way round)."""
  return nn.BatchNorm(use_running_average=not train, momentum=1 - momentum, epsilon=epsilon, name=name)


def layer_norm(name: str, epsilon: float = 1e-6) -> nn.LayerNorm:
  """Makes layer normalization over channels; the variance is computed as PyTorch does, from centered values."""
  return nn.LayerNorm(epsilon=epsilon, use_fast_variance=False, name=name)


def conv_norm(
  x: Array,
  train: bool,
  names: tuple[str, str],
  features: int,
  size: Pair = 1,
  stride: int = 1,
  padding: Pair | Padding | None = None,
  groups: int = 1,
  use_bias: bool = False,
  epsilon: float = 1e-5,
) -> Array:
  """Builds a convolution and a batch normalization inside a compact method; padded by half the kernel by default."""
  if padding is None:
    padding = (pair(size)[0] // 2, pair(size)[1] // 2)
  x = Conv(features, size, stride, padding, groups=groups, use_bias=use_bias, name=names[0])(x)
  return batch_norm(train, names[1], epsilon)(x)


class ConvNorm(nn.Module):
  """The same as a module, with layers `conv` and `bn`."""

  features: int
  size: Pair = 1
  stride: int = 1
  padding: Pair | None = None
  groups: int = 1
  epsilon: float = 1e-5

  @nn.compact
  def __call__(self, x: Array, train: bool = False) -> Array:
    names = ("conv", "bn")
    return conv_norm(
      x, train, names, self.features, self.size, self.stride, self.padding, self.groups, epsilon=self.epsilon
    )


class DropPath(nn.Module):
  """Stochastic depth (arXiv:1603.09382): drops a residual branch for a whole example, scales up the others."""

  rate: float

  @nn.compact
  def __call__(self, x: Array, train: bool) -> Array:
    if not train or self.rate == 0.0:
      return x
    shape = (x.shape[0],) + (1,) * (x.ndim - 1)
    keep = jax.random.bernoulli(self.make_rng("dropout"), 1.0 - self.rate, shape)
    return jnp.where(keep, x / (1.0 - self.rate), jnp.zeros_like(x))


def dropout(x: Array, rate: float, train: bool) -> Array:
  """Drops single activations; call it inside a compact method."""
  return nn.Dropout(rate, deterministic=not train)(x)


def global_pool(x: Array) -> Array:
  """Averages over positions."""
  return jnp.mean(x, axis=(1, 2))


def flatten(x: Array) -> Array:
  """Returns features as one row per image, channels first: the order in which PyTorch weights expect them."""
  return x.transpose(0, 3, 1, 2).reshape(x.shape[0], -1)


def max_pool(x: Array, size: Pair, stride: Pair, padding: Pair = 0, ceil_mode: bool = False) -> Array:
  """Pools as PyTorch's MaxPool2d: padding never wins.

  >>> max_pool(jnp.ones((1, 6, 6, 1)), 3, 2, ceil_mode=True).shape
  (1, 3, 3, 1)
  """
  lowest = np.array(-np.inf, x.dtype)
  return _window(x, lowest, lax.max, pair(size), pair(stride), _pads(x, size, stride, padding, ceil_mode))


def avg_pool(
  x: Array, size: Pair, stride: Pair, padding: Pair = 0, ceil_mode: bool = False, count_padding: bool = True
) -> Array:
  """Pools as PyTorch's AvgPool2d; `count_padding` is its `count_include_pad`.

  >>> float(avg_pool(jnp.ones((1, 2, 2, 1)), 3, 1, 1)[0, 0, 0, 0]).__round__(4)
  0.4444
  """
  pads, zero = _pads(x, size, stride, padding, ceil_mode), np.array(0, x.dtype)
  total = _window(x, zero, lax.add, pair(size), pair(stride), pads)
  # What ceil_mode reaches beyond the padding is never counted.
  ones = np.ones((1, *x.shape[1:3], 1), np.float32)
  if count_padding:
    ones = np.pad(ones, ((0, 0), *((side, side) for side in pair(padding)), (0, 0)), constant_values=1)
    pads = tuple((low - side, high - side) for (low, high), side in zip(pads, pair(padding), strict=True))
  count = _window(jnp.asarray(ones), np.float32(0), lax.add, pair(size), pair(stride), pads)
  return total / count.astype(x.dtype)


def adaptive_avg_pool(x: Array, size: Pair) -> Array:
  """Pools as PyTorch's AdaptiveAvgPool2d: output cell i averages positions floor(iN/size) to ceil((i+1)N/size).

  >>> adaptive_avg_pool(jnp.ones((1, 7, 7, 2)), 3).shape
  (1, 3, 3, 2)
  """
  rows, columns = (_adaptive_matrix(length, out) for length, out in zip(x.shape[1:3], pair(size), strict=True))
  return jnp.einsum("nhwc,ph,qw->npqc", x, rows.astype(x.dtype), columns.astype(x.dtype))


def _adaptive_matrix(length: int, out: int) -> np.ndarray:
  matrix = np.zeros((out, length), np.float32)
  for cell in range(out):
    start, stop = cell * length // out, -(-(cell + 1) * length // out)
    matrix[cell, start:stop] = 1 / (stop - start)
  return matrix


def _pads(x: Array, size: Pair, stride: Pair, padding: Pair, ceil_mode: bool) -> tuple[tuple[int, int], ...]:
  """Returns padding on both sides of each axis; ceil_mode adds cells at the far side if they start inside the image."""
  pads = []
  for length, window, step, side in zip(x.shape[1:3], pair(size), pair(stride), pair(padding), strict=True):
    extra = 0
    if ceil_mode:
      out = -(-(length + 2 * side - window) // step) + 1
      if (out - 1) * step >= length + side:
        out -= 1
      extra = max(0, (out - 1) * step + window - length - 2 * side)
    pads.append((side, side + extra))
  return tuple(pads)


def _window(x: Array, start, combine, size, stride, pads) -> Array:  # type: ignore[no-untyped-def]
  return lax.reduce_window(x, start, combine, (1, *size, 1), (1, *stride, 1), ((0, 0), *pads, (0, 0)))
