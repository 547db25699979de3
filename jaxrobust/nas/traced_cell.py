"""A network of NAS-Bench-201 whose operations are traced: each edge is a `lax.switch` over the five operations.

The layers carry the names of the native network (`models.nas_bench_201`). Every edge owns one 3×3 kernel and one
normalization: 3×3 convolutions use all of the kernel, 1×1 convolutions its middle, other operations nothing. What the
switch computes is what the native layers compute, convolution included; `one_program` is the way to use it.

In training an edge has a derivative of its own. That of `lax.switch` keeps what all five branches would need for their
backward passes, about eight arrays of features, and fills those of the branches not taken with zeros; this one keeps
the convolution's output alone and computes the rest again.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax import lax

from jaxrobust.core.nas_cells import CONV1, CONV3, EDGES
from jaxrobust.core.types import Array
from jaxrobust.models.families.nas_bench_201 import apply_stages, sum_nodes
from jaxrobust.models.layers.basic import avg_pool
from jaxrobust.models.layers.conv import conv2d

# As in `models.layers.batch_norm`.
EPSILON, MOMENTUM = 1e-5, 0.1


class _Kernel(nn.Module):
  """Only holds a kernel, where the native network has its convolution."""

  features: int

  @nn.compact
  def __call__(self) -> Array:
    return self.param("kernel", nn.initializers.zeros_init(), (3, 3, self.features, self.features))


class _Norm(nn.Module):
  """Only holds what a normalization needs, where the native network has it."""

  features: int

  @nn.compact
  def __call__(self) -> tuple[Array, Array, Any, Any]:
    shape = (self.features,)
    scale = self.param("scale", nn.initializers.zeros_init(), shape)
    bias = self.param("bias", nn.initializers.zeros_init(), shape)
    mean = self.variable("batch_stats", "mean", lambda: jnp.zeros(shape, jnp.float32))
    var = self.variable("batch_stats", "var", lambda: jnp.ones(shape, jnp.float32))
    return scale, bias, mean, var


class TracedEdge(nn.Module):
  """An edge whose operation is traced."""

  @nn.compact
  def __call__(self, x: Array, operation: Array, train: bool) -> Array:
    kernel = _Kernel(x.shape[-1], name="op_1")()
    scale, bias, mean, var = _Norm(x.shape[-1], name="op_2")()
    if not train:
      return _evaluate(operation, x, kernel, scale, bias, mean.value, var.value)
    y, batch_mean, batch_var = _train(operation, x, kernel, scale, bias)
    if not self.is_initializing():
      used = (operation == CONV1) | (operation == CONV3)
      for stored, new in ((mean, batch_mean), (var, batch_var)):
        stored.value = jnp.where(used, (1 - MOMENTUM) * stored.value + MOMENTUM * new, stored.value)
    return y


def _pool(x: Array) -> Array:
  return avg_pool(x, 3, 1, 1, count_padding=False)


def _convolve(x: Array, kernel: Array, size: int) -> Array:
  kernel = kernel if size == 3 else kernel[1:2, 1:2]
  side = size // 2
  return conv2d(nn.relu(x), jnp.asarray(kernel, x.dtype), padding=((side, side), (side, side)))


def _normalize(y: Array, scale: Array, bias: Array, mean: Array, var: Array) -> Array:
  return ((y - mean) * (lax.rsqrt(var + EPSILON) * scale) + bias).astype(y.dtype)


def _evaluate(operation: Array, x: Array, kernel: Array, *norm: Array) -> Array:
  """Evaluates an edge that is normalized by its running statistics."""
  convolve = lambda size: lambda x, kernel, *norm: _normalize(_convolve(x, kernel, size), *norm)
  pool, zero, skip = lambda x, *_: _pool(x), lambda x, *_: jnp.zeros_like(x), lambda x, *_: x
  return lax.switch(operation, (zero, skip, convolve(1), convolve(3), pool), x, kernel, *norm)


def _normalize_batch(y: Array, scale: Array, bias: Array) -> tuple[Array, Array, Array]:
  """Returns features normalized by their own statistics, as flax computes them, and those."""
  wide = y.astype(jnp.float32)
  mean = wide.mean(axis=(0, 1, 2))
  var = jnp.maximum(0.0, jnp.square(wide).mean(axis=(0, 1, 2)) - jnp.square(mean))
  return _normalize(y, scale, bias, mean, var), mean, var


@jax.custom_vjp
def _train(operation: Array, x: Array, kernel: Array, scale: Array, bias: Array) -> tuple[Array, Array, Array]:
  """Evaluates an edge that is normalized by the statistics of the batch, and those."""
  return _train_forward(operation, x, kernel, scale, bias)[0]


def _train_forward(operation: Array, x: Array, kernel: Array, scale: Array, bias: Array) -> tuple[Any, Any]:
  """Keeps one array of features; the switch's own derivative would keep those of all branches."""

  def convolve(size: int) -> Any:
    def run(x: Array, kernel: Array, scale: Array, bias: Array) -> Any:
      y = _convolve(x, kernel, size)
      return *_normalize_batch(y, scale, bias), y

    return run

  def simple(operate: Any) -> Any:
    nothing = jnp.zeros(x.shape[-1:], jnp.float32)
    return lambda x, *_: (operate(x), nothing, nothing, jnp.zeros_like(x))

  branches = (simple(jnp.zeros_like), simple(lambda x: x), convolve(1), convolve(3), simple(_pool))
  *out, y = lax.switch(operation, branches, x, kernel, scale, bias)
  return tuple(out), (operation, x, kernel, scale, bias, y)


def _train_backward(saved: Any, cotangents: Any) -> Any:
  operation, *rest = saved

  def convolve(size: int) -> Any:
    def run(x: Array, kernel: Array, scale: Array, bias: Array, y: Array, cotangents: Any) -> Any:
      y_bar, scale_bar, bias_bar = jax.vjp(_normalize_batch, y, scale, bias)[1](cotangents)
      x_bar, kernel_bar = jax.vjp(lambda x, kernel: _convolve(x, kernel, size), x, kernel)[1](y_bar)
      return x_bar, kernel_bar, scale_bar, bias_bar

    return run

  def simple(operate: Any) -> Any:
    def run(x: Array, kernel: Array, scale: Array, bias: Array, y: Array, cotangents: Any) -> Any:
      x_bar = jax.vjp(operate, x)[1](cotangents[0])[0]
      return x_bar, *(jnp.zeros_like(leaf) for leaf in (kernel, scale, bias))

    return run

  branches = (simple(jnp.zeros_like), simple(lambda x: x), convolve(1), convolve(3), simple(_pool))
  return None, *lax.switch(operation, branches, *rest, cotangents)


_train.defvjp(_train_forward, _train_backward)


class TracedCell(nn.Module):
  """A cell whose operations are traced."""

  @nn.compact
  def __call__(self, x: Array, operations: Array, train: bool) -> Array:
    return sum_nodes(x, lambda source, edge: TracedEdge(name=f"layers_{edge}")(source, operations[edge], train))


class TracedNetwork(nn.Module):
  """The network of any cell: `module(images, operations)`."""

  num_classes: int = 10
  width: int = 16
  depth: int = 5

  @nn.compact
  def __call__(self, x: Array, operations: Array, train: bool = False) -> Array:
    cell = lambda features, name: TracedCell(name=name)(features, operations, train)
    return apply_stages(x, train, self.width, self.depth, self.num_classes, cell)


class CarriedNetwork(nn.Module):
  """The network of any cell, `module(images)`, which carries its operations as data among its batch statistics.

  What trains a network hands statistics through from step to step without touching what no layer updates: so one
  compiled step trains any cell.
  """

  num_classes: int = 10
  width: int = 16
  depth: int = 5

  @nn.compact
  def __call__(self, x: Array, train: bool = False) -> Array:
    operations = self.variable("batch_stats", "operations", lambda: jnp.zeros(len(EDGES), jnp.int32)).value
    cell = lambda features, name: TracedCell(name=name)(features, operations, train)
    return apply_stages(x, train, self.width, self.depth, self.num_classes, cell)
