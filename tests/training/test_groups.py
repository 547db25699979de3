"""Batch norm by groups, and weights that are split: the numbers of a step belong to its recipe, not to its devices."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

from jaxrobust.core.errors import InputError
from jaxrobust.training.config import TrainConfig
from jaxrobust.training.network import TrainingNetwork
from jaxrobust.training.recipes import make_recipe


class Normed(nn.Module):
  """The mean of normalized pixels, and their square."""

  @nn.compact
  def __call__(self, x, train=False):
    y = nn.BatchNorm(use_running_average=not train, momentum=0.9)(x)
    return jnp.stack([y.mean((1, 2, 3)), jnp.square(y).mean((1, 2, 3))], axis=1)


def applied(groups, images):
  module = Normed()
  variables = module.init(jax.random.key(0), images)
  network = TrainingNetwork(
    module, (0.0,) * 3, (1.0,) * 3, jnp.float32, groups, lambda params: params, variables["params"], jax.random.key(1)
  )
  return network(images, variables["batch_stats"])


def test_each_group_is_normalized_by_itself_and_running_statistics_move_by_their_mean():
  images = jax.random.uniform(jax.random.key(2), (6, 4, 4, 3)) * jnp.arange(1.0, 7.0)[:, None, None, None]
  logits, stats = applied(2, images)
  halves = [applied(1, half) for half in (images[:3], images[3:])]
  np.testing.assert_allclose(logits, jnp.concatenate([half[0] for half in halves]), rtol=1e-5, atol=1e-6)
  for found, *two in zip(*map(jax.tree.leaves, (stats, halves[0][1], halves[1][1])), strict=True):
    np.testing.assert_allclose(found, (two[0] + two[1]) / 2, rtol=1e-5, atol=1e-6)
  assert np.abs(logits - applied(1, images)[0]).max() > 0.1


def test_groups_that_do_not_divide_the_batch_or_the_objective_are_refused():
  with pytest.raises(InputError, match="does not divide into 5"):
    TrainConfig(batch_size=64, batch_norm_groups=5)
  config = TrainConfig(techniques=("pgd-at",), options={"pgd-at": {"crafting": "train"}}, batch_norm_groups=4)
  with pytest.raises(InputError, match="statistics of the whole batch"):
    make_recipe(config, 10, 1000, 10)


def test_a_run_without_groups_is_the_run_it_was_before():
  assert "batch_norm_groups" not in TrainConfig().identity()
  assert TrainConfig(batch_norm_groups=2).identity()["batch_norm_groups"] == 2


_SCRIPT = """
import json, sys
import jax, numpy as np
from jaxrobust.core.mesh import make_mesh
from jaxrobust.training.config import TrainConfig
from jaxrobust.training.recipes import make_recipe
from jaxrobust.training import state as layout
from jaxrobust.training.state import init_state, state_shardings
from jaxrobust.training.step import make_step

layout.SMALLEST_SPLIT = 64  # The weights of a network that compiles in seconds are small.
draw = np.random.default_rng(0)
rows = draw.integers(0, 256, (8, 32, 32, 3)).astype(np.uint8), draw.integers(0, 10, 8), np.arange(8)
for devices, sharding, groups in ((1, "data", 1), (4, "fsdp", 1), (1, "data", 4), (4, "fsdp", 4)):
  config = TrainConfig(arch="repvgg_tiny", batch_size=8, techniques=("fast-at",), sharding=sharding,
                       batch_norm_groups=groups, optimizer="momentum", learning_rate=0.01)
  recipe, mesh = make_recipe(config, 10, 80, 10), make_mesh(jax.devices()[:devices])
  state = init_state(recipe.module, recipe.optimizer, jax.random.key(0), (32, 32, 3), False)
  shardings = state_shardings(state, mesh, sharding)
  split = not all(leaf.is_fully_replicated for leaf in jax.tree.leaves(shardings.params))
  state, report = make_step(recipe, mesh, shardings)(jax.device_put(state, shardings), *rows)
  whole = np.concatenate([np.asarray(leaf).ravel() for leaf in jax.tree.leaves((state.params, state.batch_stats))])
  print(json.dumps([split, float(report["loss"]), whole[::97].tolist()]))
"""


@pytest.mark.ci
def test_split_weights_and_any_devices_make_the_same_step():
  environment = {**os.environ, "JAX_NUM_CPU_DEVICES": "4", "JAX_PLATFORMS": "cpu"}
  words, root = [sys.executable, "-c", _SCRIPT], Path(__file__).parents[2]
  done = subprocess.run(words, cwd=root, env=environment, capture_output=True, text=True, timeout=600)
  assert done.returncode == 0, done.stderr[-2000:]
  one, split, grouped, both = map(json.loads, done.stdout.splitlines())
  assert [row[0] for row in (one, split, grouped, both)] == [False, True, False, True]
  for first, second in ((one, split), (grouped, both)):
    assert first[1] == pytest.approx(second[1], abs=1e-6)
    np.testing.assert_allclose(first[2], second[2], atol=2e-6)
  assert np.abs(np.subtract(one[2], grouped[2])).max() > 1e-4
