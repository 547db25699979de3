"""Votes of noisy copies, counted in slots: a fixed set of places on the devices, each with the image of one example.

A dispatch draws `COPIES` more copies for every slot and adds up what the classifier says of them. How many copies an
image needs is its own matter: a *rule* looks at what was counted so far and either wants more of a stream or returns
its answer, upon which the slot takes the next image at once. Votes stay on the devices until a request is complete.

Noise is a function of (seed, example id, stream, number of the copy), and the network always sees the `COPIES` copies
of one image together, slot after slot: answers depend neither on the number of slots or devices nor on order, the
memory of a dispatch is that of `COPIES` images however many slots there are, and slots without work cost nothing.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec

from jaxrobust.core.classifier import Classifier
from jaxrobust.core.errors import InputError
from jaxrobust.core.mesh import AXIS, make_mesh, replicated, row_sharding
from jaxrobust.core.types import Array

COPIES = 64
# Per device: enough that dispatching and reading votes back cost little beside the network.
SLOTS = 16
# Kinds of copies of one image, whose noise is independent: those that choose a class, those that count for it.
CHOOSING, COUNTING = 0, 1
# Beside the keys of attacks, which fold in a stage.
_STREAM = 0x5307
# Columns of what a slot works on.
_EXAMPLE, _KIND, _COPY, _END = range(4)


class Tally(NamedTuple):
  """What was counted of one image: votes (stream, class), and copies looked at (stream,)."""

  votes: np.ndarray
  samples: np.ndarray

  @classmethod
  def empty(cls, classes: int) -> Tally:
    """Returns that of an image that was never looked at."""
    return cls(np.zeros((2, classes), np.int64), np.zeros(2, np.int64))


class More(NamedTuple):
  """What a rule wants: so many more copies of a stream, rounded up to whole dispatches."""

  stream: int
  copies: int


Rule = Callable[[Tally], Any]
"""`More`, or an answer of any other type; a pure function of the tally, which a stop may have left at any copy."""


class Ballot(NamedTuple):
  """An image, the id that its noise belongs to, its rule, and what was counted of it before, where counting goes on."""

  example: int
  image: np.ndarray
  rule: Rule
  tally: Tally


def most_slots() -> int:
  """Returns as many slots as are of use."""
  return SLOTS * jax.local_device_count()


class VoteSlots:
  """Slots over the devices of this process.

  Args:
    sigma: of the noise. seed: of all noise.
    slots: wanted; rounded up to the same number on each device that is used. By default `SLOTS` per device.

  >>> model = Classifier.from_function(lambda x: x[:, 0, 0], num_classes=2)
  >>> rule = lambda tally: tally.votes[COUNTING].tolist() if tally.samples[COUNTING] else More(COUNTING, 10)
  >>> image = np.array([[[9.0, 0.1]]], np.float32)
  >>> items = [Ballot(example, image, rule, Tally.empty(2)) for example in range(3)]
  >>> [decided for decided in VoteSlots(model, image.shape, 0.25, 0, slots=2).run(items) if decided]
  [[(0, [64, 0]), (1, [64, 0])], [(2, [64, 0])]]
  """

  def __init__(
    self, classifier: Classifier, image_shape: tuple[int, ...], sigma: float, seed: int, slots: int | None = None
  ):
    slots = most_slots() if slots is None else slots
    if slots < 1:
      raise InputError(f"votes are counted in at least one slot, got {slots}")
    self.mesh = make_mesh(jax.local_devices()[:slots])
    self.size = -(-slots // self.mesh.size) * self.mesh.size
    streams = [jax.random.fold_in(jax.random.key(seed), _STREAM + one) for one in (CHOOSING, COUNTING)]
    shared = classifier, np.float32(sigma), np.stack([jax.random.key_data(one) for one in streams])
    self._shared = jax.device_put(shared, replicated(self.mesh))
    self._images = self._placed(np.zeros((self.size, *image_shape), np.float32))
    self._votes = self._zeros = self._placed(np.zeros((self.size, classifier.num_classes), np.int32))
    # The host knows where each slot is: only votes have to be read.
    self._words = np.zeros((self.size, 4), np.uint32)
    self._items: dict[int, Ballot] = {}

  def run(self, items: Iterable[Ballot]) -> Iterator[list[tuple[int, Any]]]:
    """Yields, with every dispatch, the (example, answer) of those that were decided before it."""
    waiting = iter(items)
    decided = [one for row in range(self.size) for one in self._fill(row, waiting)]
    words = self._placed(self._words.copy())
    while self._items:
      before = self._votes
      words, self._votes = _draw(self.mesh, *self._shared, self._images, words, before)
      self._words[list(self._items), _COPY] += COPIES
      yield decided  # While the devices work.
      jax.block_until_ready(before)  # No more than two dispatches are on their way: one can stop between any.
      decided = []
      complete = [row for row in self._items if self._words[row, _COPY] >= self._words[row, _END]]
      if complete:
        self._collect()
        decided = [one for row in complete for one in self._fill(row, waiting)]
        words = self._placed(self._words.copy())
    yield decided

  def tallies(self) -> dict[int, Tally]:
    """Returns what was counted of each example that is not decided yet."""
    self._collect()
    return {item.example: Tally(*(part.copy() for part in item.tally)) for item in self._items.values()}

  def _fill(self, row: int, waiting: Iterator[Ballot]) -> list[tuple[int, Any]]:
    """Gives a slot what its item wants next, or else the first item that wants any; returns the answers on the way."""
    decided, held = [], self._items.pop(row, None)
    for item in itertools.chain([held] if held else [], waiting):
      wanted = item.rule(item.tally)
      if isinstance(wanted, More):
        start = int(item.tally.samples[wanted.stream])
        self._words[row] = item.example, wanted.stream, start, start + wanted.copies
        self._items[row] = item
        if item is not held:
          self._images = _put(self.mesh, self._images, np.int32(row), np.asarray(item.image, np.float32))
        break
      decided.append((item.example, wanted))
    return decided

  def _collect(self) -> None:
    """Moves votes from the devices into the tallies."""
    votes, self._votes = np.asarray(self._votes), self._zeros
    for row, item in self._items.items():
      stream = self._words[row, _KIND]
      item.tally.votes[stream] += votes[row]
      item.tally.samples[stream] = self._words[row, _COPY]

  def _placed(self, rows: np.ndarray) -> Array:
    # As results of `_draw` lie: JAX says "everywhere" of a single device, and another word is another program.
    return jax.device_put(rows, row_sharding(self.mesh) if self.mesh.size > 1 else replicated(self.mesh))


def _draw_one(classifier: Classifier, sigma: Array, streams: Array, slot: tuple[Array, ...]) -> tuple[Array, Array]:
  """Returns where one slot is and its votes after its next copies; as they were where it wants none."""
  image, word, votes = slot

  def draw() -> tuple[Array, Array]:
    key = jax.random.fold_in(jax.random.wrap_key_data(streams[word[_KIND]]), word[_EXAMPLE])
    keys = jax.vmap(functools.partial(jax.random.fold_in, key))(word[_COPY] + jnp.arange(COPIES, dtype=jnp.uint32))
    noise = jax.vmap(lambda one: jax.random.normal(one, image.shape))(keys)
    logits = classifier(image + sigma * noise)
    chosen = jnp.where(jnp.isfinite(logits).all(-1), jnp.argmax(logits, -1), len(votes))
    return word.at[_COPY].add(COPIES), votes + jnp.bincount(chosen, length=len(votes)).astype(votes.dtype)

  return jax.lax.cond(word[_COPY] < word[_END], draw, lambda: (word, votes))


@functools.partial(jax.jit, static_argnums=0)
def _draw(
  mesh: Mesh, classifier: Classifier, sigma: Array, streams: Array, images: Array, words: Array, votes: Array
) -> tuple[Array, Array]:
  """Draws the next copies of every slot; the slots of a device one after the other."""

  def local(classifier: Classifier, sigma: Array, streams: Array, *slots: Array) -> tuple[Array, Array]:
    return jax.lax.map(functools.partial(_draw_one, classifier, sigma, streams), slots)

  specs = (PartitionSpec(),) * 3 + (PartitionSpec(AXIS),) * 3
  sharded = jax.shard_map(local, mesh=mesh, in_specs=specs, out_specs=PartitionSpec(AXIS), check_vma=False)
  return sharded(classifier, sigma, streams, images, words, votes)


@functools.partial(jax.jit, static_argnums=0, donate_argnums=1)
def _put(mesh: Mesh, images: Array, row: Array, image: Array) -> Array:
  """Puts an image into a slot."""

  def local(images: Array, row: Array, image: Array) -> Array:
    here = jax.lax.axis_index(AXIS) * len(images) + jnp.arange(len(images)) == row
    return jnp.where(here.reshape(-1, *[1] * image.ndim), image, images)

  specs = PartitionSpec(AXIS), PartitionSpec(), PartitionSpec()
  return jax.shard_map(local, mesh=mesh, in_specs=specs, out_specs=PartitionSpec(AXIS), check_vma=False)(
    images, row, image
  )
