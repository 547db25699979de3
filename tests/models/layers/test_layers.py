"""Pooling by PyTorch's rules, against written-out sums; random layers off in evaluation, reproducible in training."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrobust.models.layers.basic import DropPath, adaptive_avg_pool, avg_pool, flatten, max_pool


def cells(length, size, stride, padding, ceil_mode):
  """(start, stop) of each window, by the text of PyTorch's documentation."""
  count = (length + 2 * padding - size) / stride
  out = int(np.ceil(count) if ceil_mode else np.floor(count)) + 1
  starts = [i * stride - padding for i in range(out)]
  return [(start, start + size) for start in starts if start < length + (0 if ceil_mode else padding)]


@pytest.mark.parametrize("ceil_mode", [False, True])
@pytest.mark.parametrize(
  ("length", "size", "stride", "padding"), [(6, 3, 2, 0), (7, 3, 2, 1), (5, 2, 2, 0), (8, 3, 1, 1)]
)
def test_pooling_follows_pytorch(length, size, stride, padding, ceil_mode):
  x = np.random.default_rng(0).normal(size=(2, length, length, 3)).astype(np.float32)
  windows = cells(length, size, stride, padding, ceil_mode)
  wanted = {name: np.zeros((2, len(windows), len(windows), 3), np.float32) for name in ("max", "mean", "inside")}
  for (i, (top, bottom)), (j, (left, right)) in itertools.product(enumerate(windows), enumerate(windows)):
    part = x[:, max(top, 0) : bottom, max(left, 0) : right]
    wanted["max"][:, i, j] = part.max((1, 2))
    wanted["inside"][:, i, j] = part.mean((1, 2))
    count = (min(bottom, length + padding) - top) * (min(right, length + padding) - left)
    wanted["mean"][:, i, j] = part.sum((1, 2)) / count
  found = {
    "max": max_pool(x, size, stride, padding, ceil_mode),
    "mean": avg_pool(x, size, stride, padding, ceil_mode),
    "inside": avg_pool(x, size, stride, padding, ceil_mode, count_padding=False),
  }
  for name in wanted:
    np.testing.assert_allclose(found[name], wanted[name], rtol=1e-5, atol=1e-6, err_msg=name)


@pytest.mark.parametrize(("length", "out"), [(7, 3), (4, 4), (3, 7), (1, 7), (10, 1)])
def test_adaptive_pooling_averages_the_cells_of_pytorch(length, out):
  x = np.random.default_rng(0).normal(size=(1, length, length, 2)).astype(np.float32)
  spans = [(i * length // out, int(np.ceil((i + 1) * length / out))) for i in range(out)]
  wanted = [[x[:, a:b, c:d].mean((1, 2)) for c, d in spans] for a, b in spans]
  np.testing.assert_allclose(adaptive_avg_pool(x, out), np.array(wanted).transpose(2, 0, 1, 3), rtol=1e-4, atol=1e-5)


def test_features_are_flattened_channels_first():
  x = np.arange(24).reshape(1, 2, 3, 4)
  assert flatten(jnp.asarray(x))[0].tolist() == [x[0, i, j, c] for c in range(4) for i in range(2) for j in range(3)]


def test_stochastic_depth_drops_whole_examples_and_keeps_the_mean():
  x = jnp.ones((4000, 2, 2, 1))
  module = DropPath(0.25)
  np.testing.assert_array_equal(module.apply({}, x, False), x)
  out = module.apply({}, x, True, rngs={"dropout": jax.random.key(0)})
  np.testing.assert_array_equal(out, module.apply({}, x, True, rngs={"dropout": jax.random.key(0)}))
  values = np.unique(out)
  assert values[0] == 0 and abs(values[1] - 4 / 3) < 1e-6 and abs(float(out.mean()) - 1) < 0.03
  assert np.all(np.asarray(out).reshape(4000, -1).std(axis=1) == 0)
