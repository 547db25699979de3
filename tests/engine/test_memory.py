"""What the engine holds is bounded in bytes, whatever the source holds."""

from __future__ import annotations

import gc
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrobust.attacks.registry import make_attack
from jaxrobust.attacks.schedule import Cascade, Stage
from jaxrobust.core.classifier import Classifier
from jaxrobust.engine.example import Examples
from jaxrobust.engine.options import EngineOptions
from jaxrobust.engine.scheduler import Engine

SHAPE, COUNT, SLOTS = (224, 224, 3), 10_000, 64
# Of the slots' own images: PGD keeps the original and the current point (2), the outbox half of both (1); the rest are
# originals of open examples as bytes, batches read ahead, and what is on its way.
MULTIPLE = 4.0


class ManyBytes:
  """Ten thousand images of bytes that exist only while they are read."""

  image_shape = SHAPE

  def __len__(self) -> int:
    return COUNT

  def take(self, positions: np.ndarray) -> Examples:
    images = np.full((len(positions), *SHAPE), 128, np.uint8)
    images[:, 0, 0, 0] = positions % 200
    return Examples(positions, images, np.zeros(len(positions), np.int32), np.full(len(positions), -1))


def corner(images: jax.Array) -> jax.Array:
  """Right unless the first pixel is dark; one in ten images stands every attack."""
  pixel = images[:, 0, 0, 0]
  return jnp.stack([pixel, jnp.full_like(pixel, 0.05)], 1) + jnp.where(pixel > 0.7, 1.0, 0.0)[:, None] * jnp.array(
    [1.0, 0]
  )


def held_bytes(root: Any) -> int:
  """The bytes of all arrays that can be reached from an object, those that views hold on to included."""
  seen: set[int] = set()
  buffers: dict[int, int] = {}
  waiting = [root]
  while waiting:
    one = waiting.pop()
    if id(one) in seen or isinstance(one, type | type(jax) | type(corner)):
      continue
    seen.add(id(one))
    if isinstance(one, np.ndarray):
      while isinstance(one.base, np.ndarray):
        one = one.base
      buffers[id(one)] = one.nbytes
    elif not isinstance(one, jax.Array):
      waiting += gc.get_referents(one)
  return sum(buffers.values())


def test_bytes_held_over_ten_thousand_images_of_224_pixels():
  classifier = Classifier.from_function(corner, 2)
  attack = make_attack("pgd", num_steps=2, random_start=False)
  cascade = Cascade((Stage(attack),))
  before = sum(array.nbytes for array in jax.live_arrays())
  engine = Engine(
    classifier,
    cascade,
    ManyBytes(),
    eps=0.05,
    options=EngineOptions.for_platform(SLOTS, shrink=False),
    wants_image=lambda position: False,
  )
  largest, going, verdicts = 0, True, 0
  while going:
    going = engine.turn()
    verdicts += len(engine.collect())
    if engine.turns % 7 == 0:
      held = held_bytes([engine.pools, engine.pending, engine.reader, engine.outbox, engine.examples, engine.verdicts])
      largest = max(largest, held + sum(array.nbytes for array in jax.live_arrays()) - before)
  slots = SLOTS * 4 * int(np.prod(SHAPE))
  assert verdicts == COUNT
  assert largest <= MULTIPLE * slots, f"{largest / slots:.2f} times the slots' images"
  print(f"{largest / slots:.2f} times the slots' images")
