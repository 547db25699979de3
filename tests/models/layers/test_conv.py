"""The shared convolution: forward and both gradients equal those of the plain convolution, wherever it is used."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn
from jax import lax

from jaxrobust.models.layers.conv import Conv, conv2d

# (height, width), (kernel), strides, padding, dilation, groups, in, out
CASES = {
  "plain": ((5, 5), (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1, 2, 4),
  "no-padding": ((6, 5), (3, 3), (1, 1), ((0, 0), (0, 0)), (1, 1), 1, 3, 2),
  "stride-cuts-off-a-row": ((6, 6), (3, 3), (2, 2), ((0, 0), (0, 0)), (1, 1), 1, 2, 3),
  "stride-3-cuts-off-two": ((9, 8), (2, 2), (3, 3), ((0, 0), (1, 0)), (1, 1), 1, 2, 3),
  "cnn-a": ((8, 7), (4, 4), (2, 2), ((1, 1), (1, 1)), (1, 1), 1, 3, 2),
  "shortcut-1x1": ((7, 7), (1, 1), (2, 2), ((0, 0), (0, 0)), (1, 1), 1, 2, 3),
  "padding-beyond-the-kernel": ((4, 4), (1, 1), (1, 1), ((1, 2), (0, 1)), (1, 1), 1, 2, 2),
  "dilated": ((8, 9), (3, 3), (1, 1), ((2, 2), (2, 2)), (2, 2), 1, 2, 2),
  "dilated-and-strided": ((9, 8), (3, 2), (2, 3), ((2, 0), (1, 2)), (2, 3), 1, 2, 3),
  "groups": ((5, 6), (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 2, 4, 6),
  "depthwise-strided": ((7, 6), (3, 3), (2, 2), ((1, 1), (1, 1)), (1, 1), 4, 4, 8),
  "depthwise": ((7, 6), (3, 5), (1, 1), ((1, 1), (2, 2)), (1, 1), 4, 4, 4),
  "depthwise-uneven": ((7, 8), (3, 3), (2, 2), ((0, 1), (1, 2)), (2, 1), 4, 4, 4),
  "groups-strided": ((7, 6), (3, 3), (2, 2), ((1, 1), (1, 0)), (1, 1), 4, 64, 32),
  "lopsided": ((7, 5), (5, 2), (2, 1), ((3, 1), (0, 1)), (1, 2), 1, 1, 2),
}


def plain(images, kernel, strides, padding, dilation, groups):
  return lax.conv_general_dilated(
    images,
    kernel,
    strides,
    padding,
    rhs_dilation=dilation,
    dimension_numbers=("NHWC", "HWIO", "NHWC"),
    feature_group_count=groups,
    precision="highest",
  )


def arrays(case, batch=2):
  size, kernel, _, _, _, groups, inputs, outputs = CASES[case]
  rng = np.random.default_rng(len(case))
  images = rng.normal(size=(batch, *size, inputs)).astype(np.float32)
  return images, rng.normal(size=(*kernel, inputs // groups, outputs)).astype(np.float32)


def weighted(out):
  """A loss whose cotangent differs at every place, but not with the last bits of the output."""
  return jnp.sum(out * jnp.sin(jnp.arange(out.size, dtype=out.dtype)).reshape(out.shape))


def bent(out):
  """A loss whose cotangent depends on the output, so that no step of a loop can be moved out of it."""
  return jnp.sum(jnp.sin(out))


def with_gradients(convolve, total=weighted):
  """Output and both gradients of a loss."""

  def loss(images, kernel):
    out = convolve(images, kernel)
    return total(out), out

  def run(images, kernel):
    (_, out), (by_image, by_kernel) = jax.value_and_grad(loss, (0, 1), has_aux=True)(images, kernel)
    return out, by_image, by_kernel

  return run


def both(case, total=weighted):
  options = CASES[case][2:6]
  return [with_gradients(lambda x, k, f=f: f(x, k, *options), total) for f in (conv2d, plain)]


def assert_equal(found, wanted):
  for name, a, b in zip(("output", "image gradient", "kernel gradient"), found, wanted, strict=True):
    np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5, err_msg=name)


@pytest.mark.parametrize("case", CASES)
def test_forward_and_gradients_equal_the_plain_convolution(case):
  ours, theirs = both(case)
  found, wanted = jax.jit(lambda *a: (ours(*a), theirs(*a)))(*arrays(case))
  assert found[1].shape == arrays(case)[0].shape and np.abs(wanted[1]).max() > 0.01
  assert_equal(found, wanted)


@pytest.mark.parametrize("case", ["cnn-a", "dilated-and-strided", "groups"])
def test_under_vmap_over_images_and_over_kernels(case):
  images, kernel = arrays(case, 3)
  rows = images[:, None]
  kernels = np.stack([kernel, 2 * kernel, -kernel])

  @jax.jit
  def run(rows, kernels):
    return [
      [jax.vmap(f, in_axes=axes)(*args) for f in both(case)]
      for axes, args in (((0, None), (rows, kernels[0])), ((0, 0), (rows, kernels)))
    ]

  for found, wanted in run(rows, kernels):
    assert_equal(found, wanted)


@pytest.mark.parametrize("case", ["cnn-a", "stride-cuts-off-a-row"])
def test_inside_scan_and_switch(case):
  images, kernel = arrays(case)

  def walk(run, images, kernel, which):
    def step(x, _):
      moved = x + 0.1 * run(x, kernel)[1]
      return lax.switch(which, [lambda x: x, lambda x: x + 0.1 * run(x, kernel)[1]], moved), None

    return lax.scan(step, images, None, length=2)[0]

  ours, theirs = both(case, bent)
  found, wanted = jax.jit(lambda *a: (walk(ours, *a), walk(theirs, *a)))(images, kernel, 1)
  assert np.abs(wanted - images).max() > 0.01
  np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=2e-4)


def test_the_layer_follows_pytorch_and_keeps_the_precision_of_its_input():
  layer = Conv(4, 3, stride=2, padding=1, groups=2)
  images = np.random.default_rng(0).normal(size=(2, 5, 5, 2)).astype(np.float32)
  variables = layer.init(jax.random.key(0), images)
  kernel, bias = variables["params"]["kernel"], jnp.arange(4.0)
  assert kernel.shape == (3, 3, 1, 4)
  out = layer.apply({"params": {"kernel": kernel, "bias": bias}}, images)
  np.testing.assert_allclose(
    out, plain(images, kernel, (2, 2), ((1, 1), (1, 1)), (1, 1), 2) + bias, rtol=1e-5, atol=1e-5
  )
  assert layer.apply(variables, images.astype(jnp.bfloat16)).dtype == jnp.bfloat16
  assert "bias" not in Conv(4, use_bias=False).init(jax.random.key(0), images)["params"]


def test_a_network_of_shared_convolutions_has_the_gradient_of_linen_convolutions():
  class Net(nn.Module):
    shared: bool

    @nn.compact
    def __call__(self, x):
      for features in (4, 3):
        if self.shared:
          x = Conv(features, 3, 2, 1, name=f"c{features}")(x)
        else:
          x = nn.Conv(features, (3, 3), 2, 1, name=f"c{features}")(x)
        x = nn.tanh(x)
      return x

  images = np.random.default_rng(0).normal(size=(2, 9, 8, 2)).astype(np.float32)
  variables = Net(True).init(jax.random.key(0), images)

  @functools.partial(jax.jit, static_argnums=0)
  def gradient(shared, variables, x):
    return jax.grad(lambda v, x: jnp.sum(Net(shared).apply(v, x) ** 2), (0, 1))(variables, x)

  jax.tree.map(
    functools.partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-5),
    gradient(True, variables, images),
    gradient(False, variables, images),
  )


@pytest.mark.parametrize("case", ["cnn-a", "dilated-and-strided", "groups"])
def test_forward_mode_and_second_derivatives_equal_the_plain_convolution(case):
  images, kernel = arrays(case)
  rng = np.random.default_rng(1)
  moved = rng.normal(size=images.shape).astype(np.float32), rng.normal(size=kernel.shape).astype(np.float32)

  def second_order(convolve):
    loss = lambda x, k: bent(convolve(x, k))
    first = jax.jvp(loss, (images, kernel), moved)
    by_both = jax.jvp(jax.grad(loss, (0, 1)), (images, kernel), moved)  # Forward over reverse.
    inner = lambda x, k: sum(jnp.vdot(a, b) for a, b in zip(jax.grad(loss, (0, 1))(x, k), moved, strict=True))
    return first, by_both, jax.grad(inner, (0, 1))(images, kernel)  # Reverse over reverse.

  options = CASES[case][2:6]
  found, wanted = jax.jit(lambda: [second_order(lambda x, k, f=f: f(x, k, *options)) for f in (conv2d, plain)])()
  for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
    np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-4 * np.abs(b).max())


def test_the_form_is_that_of_the_platform_a_program_is_lowered_for():
  images, kernel = (jnp.asarray(array) for array in arrays("groups"))
  strides, padding, dilation, groups = CASES["groups"][2:6]
  run = jax.jit(jax.grad(lambda x: bent(conv2d(x, kernel, strides, padding, dilation, groups))))
  texts = {name: run.trace(images).lower(lowering_platforms=(name,)).as_text() for name in ("cpu", "cuda", "tpu")}
  barriers = {name: text.count("optimization_barrier") for name, text in texts.items()}
  assert barriers["cpu"] > 0 and barriers["cuda"] == barriers["tpu"] == 0
  assert f"feature_group_count = {groups}" in texts["tpu"] and f"feature_group_count = {groups}" not in texts["cpu"]


def test_the_precision_is_that_of_the_place_where_it_was_traced():
  images, kernel = (jnp.asarray(array) for array in arrays("cnn-a"))
  run = jax.jit(jax.grad(lambda x: bent(conv2d(x, kernel))))
  with jax.default_matmul_precision("highest"):
    traced = run.trace(images)
  assert "HIGHEST" in traced.lower(lowering_platforms=("tpu",)).as_text()
  assert "HIGHEST" not in run.trace(images).lower(lowering_platforms=("tpu",)).as_text()
