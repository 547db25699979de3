"""Snapshots of query attacks stay small: a cell of 20,000 queries is saved every minute."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrobust.attacks.registry import ATTACKS, make_attack
from jaxrobust.attacks.schedule import as_schedule, is_schedule
from jaxrobust.core.classifier import Classifier
from jaxrobust.engine.api import ExampleArrays
from jaxrobust.engine.memory import SLOTS, SLOTS_ON_CPU, default_slots
from jaxrobust.engine.options import EngineOptions
from jaxrobust.engine.program import plain_shapes
from jaxrobust.engine.scheduler import Engine

MADE = {name: make_attack(name) for name in ATTACKS}
QUERY = [name for name, made in MADE.items() if not is_schedule(made) and made.access != "gradient" and name != "uap"]
CLASSIFIER = Classifier.from_function(lambda x: jnp.tile(x.mean((1, 2)), (1, 2))[:, :4], 4)


def held(name: str, side: int) -> int:
  """Bytes of the slots and of what leaves them, at the default number of slots of one accelerator."""
  attack, shape = MADE[name], (side, side, 3)
  slots = default_slots(EngineOptions.for_platform(), shape) * SLOTS // SLOTS_ON_CPU
  images, labels = np.zeros((slots, *shape), np.float32), np.zeros(slots, int)
  source = ExampleArrays(np.arange(slots), images, labels, labels - 1)
  options = EngineOptions.for_platform(slots, lookahead=1)
  engine = Engine(CLASSIFIER, as_schedule(attack), source, eps=0.03, options=options)
  trees = [engine.outbox.candidates, engine.outbox.rows, engine.outbox.stops]
  for pool in engine.pools:
    trees += [plain_shapes(pool.program, pool.arrays, size, shape) for size in [pool.sizes[0]] * len(pool.groups)]
  return sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in jax.tree.leaves(trees))


@pytest.mark.parametrize("side, most", [(32, 50e6), (224, 400e6)])
def test_a_snapshot_of_a_query_attack_is_bounded(side, most):
  sizes = {name: held(name, side) for name in QUERY}
  assert len(sizes) > 15 and max(sizes.values()) <= most, sizes
  assert max(sizes.values()) >= most / 20, "the bound is not empty"
