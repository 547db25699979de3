"""Slots: a fixed set of places on the devices, each stepping one work item.

Three programs work on them, each compiled once per (attack, classifier, slot count):
  advance  K steps of every slot; decided ones freeze
  swap     takes finished items out of some slots and puts new ones in
  compact  gathers the live slots into fewer, for the tail of a run
All run under `shard_map`, so a device touches only its own rows and nothing is communicated.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, PartitionSpec

from jaxrobust.attacks import norms
from jaxrobust.core.classifier import Classifier
from jaxrobust.core.gradients import ImageLogits
from jaxrobust.core.mesh import AXIS
from jaxrobust.core.threat import inside
from jaxrobust.core.types import Array, Attack, Cost, Problem
from jaxrobust.engine.success import adversarial


class Books(NamedTuple):
  """What the engine knows of an item: small numbers that the host reads.

  Attributes:
    active: the slot still works on its item.
    found: a success is stored in `best`.
    step: steps taken.
    found_step: steps taken when the stored success was found.
    distance: the norm of the stored success, infinity without one.
    nan: points at which logits or gradient were not finite.
    flat: points at which the gradient was exactly zero.
  """

  active: Array
  found: Array
  step: Array
  found_step: Array
  distance: Array
  nan: Array
  flat: Array


class Slots(NamedTuple):
  """Everything on the devices; each leaf has one row per slot."""

  problem: Problem
  state: Any
  best: Array
  books: Books


@dataclasses.dataclass(frozen=True)
class Program:
  """What decides the compiled programs; hashable, so that equal programs are shared.

  Attributes:
    attack: the attack value.
    targeted: whether success means the target class.
    samples: forward passes per evaluation of a randomised classifier (EOT).
    steps: K, steps per dispatch.
    mesh: the devices.
  """

  attack: Attack
  targeted: bool
  samples: int
  steps: int
  mesh: Mesh

  @property
  def norm(self) -> str:
    return getattr(self.attack, "norm", "linf")

  @property
  def minimal(self) -> bool:
    return bool(getattr(self.attack, "minimal", False))

  @property
  def strays(self) -> bool:
    """Whether the attack may look outside its ball on purpose; such points are then no successes."""
    return bool(getattr(self.attack, "strays", False))

  @property
  def cost(self) -> Cost:
    return getattr(self.attack, "cost", Cost())


def _fresh_books() -> Books:
  """The books of an item that has just been put into a slot."""
  zero = jnp.zeros((), jnp.int32)
  no = jnp.zeros((), bool)
  return Books(~no, no, zero, zero, jnp.full((), jnp.inf, jnp.float32), zero, zero)


def _advance_one(program: Program, classifier: Classifier, slot: Slots) -> Slots:
  """One step of one slot."""
  attack, problem, books = program.attack, slot.problem, slot.books
  # The attack owns problem.key; the model's own randomness is drawn from a stream beside it.
  key = jax.random.fold_in(jax.random.fold_in(problem.key, 0x6D6F64), books.step)
  state, probe = attack.step(ImageLogits(classifier, key, program.samples), problem, slot.state)
  distance = norms.distance(program.norm, probe.image - problem.image)
  hit = adversarial(probe.logits, problem.label, problem.target, program.targeted) & jnp.isfinite(distance)
  if program.strays:
    hit &= inside(distance, problem.eps)
  better = hit & (distance < books.distance) if program.minimal else hit & ~books.found
  step = books.step + 1
  found = books.found | hit
  ended = (step >= attack.num_steps) | jnp.asarray(probe.done)
  if program.minimal:
    # As a stage of a budget cascade, a minimal attack is done once it is close enough.
    nearest = jnp.where(better, distance, books.distance)
    enough = jnp.isfinite(problem.eps) & (nearest <= problem.eps)
  else:
    enough = found
  nan = jnp.asarray(probe.nan) | ~jnp.all(jnp.isfinite(probe.logits)) | ~jnp.isfinite(distance)
  new_books = Books(
    active=~(ended | enough),
    found=found,
    step=step,
    found_step=jnp.where(better, step, books.found_step),
    distance=jnp.where(better, distance, books.distance),
    nan=books.nan + nan,
    flat=books.flat + jnp.asarray(probe.flat),
  )
  updated = (state, jnp.where(better, probe.image, slot.best), new_books)
  kept = jax.tree.map(
    lambda new, old: jnp.where(books.active, new, old), updated, (slot.state, slot.best, books)
  )
  return Slots(problem, *kept)


def _local_advance(program: Program, classifier: Classifier, slots: Slots) -> Slots:
  step = jax.vmap(functools.partial(_advance_one, program, classifier))
  if program.steps == 1:
    return step(slots)
  return jax.lax.fori_loop(0, program.steps, lambda _, carry: step(carry), slots)


def _local_swap(program: Program, slots: Slots, rows: Array, problems: Problem, filled: Array) -> tuple[Slots, Slots]:
  """Takes `rows` out and puts `problems` in; a row beyond the slots is padding, an unfilled one stays empty."""
  taken = jax.tree.map(lambda leaf: leaf.at[rows].get(mode="clip"), slots)
  if hasattr(program.attack, "last"):
    last = jax.vmap(program.attack.last)(taken.problem, taken.state)
    found = taken.books.found.reshape(-1, *[1] * (last.ndim - 1))
    taken = taken._replace(best=jnp.where(found, taken.best, last))
  incoming = jax.vmap(lambda problem: Slots(problem, program.attack.init(problem), problem.image, _fresh_books()))(problems)
  incoming = incoming._replace(books=incoming.books._replace(active=filled))
  slots = jax.tree.map(lambda old, new: old.at[rows].set(new, mode="drop"), slots, incoming)
  return slots, taken._replace(state=None)


def _local_compact(slots: Slots, rows: Array) -> Slots:
  """Keeps `rows`; padding rows become empty slots."""
  kept = jax.tree.map(lambda leaf: leaf.at[rows].get(mode="clip"), slots)
  live = kept.books.active & (rows < slots.books.active.shape[0])
  return kept._replace(books=kept.books._replace(active=live))


def _sharded(program: Program, function: Callable, sharded: tuple[bool, ...]) -> Callable:
  """`function` on each device's own rows; arguments not sharded are replicated."""
  specs = tuple(PartitionSpec(AXIS) if is_sharded else PartitionSpec() for is_sharded in sharded)
  return jax.shard_map(
    function, mesh=program.mesh, in_specs=specs, out_specs=PartitionSpec(AXIS), check_vma=False
  )


@functools.partial(jax.jit, static_argnums=0, donate_argnums=2)
def advance(program: Program, classifier: Classifier, slots: Slots) -> tuple[Slots, Array]:
  """K steps of every active slot; the flags say which slots are idle and outlive the donated slots."""
  slots = _sharded(program, functools.partial(_local_advance, program), (False, True))(classifier, slots)
  return slots, ~slots.books.active


@functools.partial(jax.jit, static_argnums=0, donate_argnums=1)
def swap(program: Program, slots: Slots, rows: Array, problems: Problem, filled: Array) -> tuple[Slots, Slots]:
  """Exchanges finished items for new ones; `rows` are local to each device."""
  function = functools.partial(_local_swap, program)
  return _sharded(program, function, (True, True, True, True))(slots, rows, problems, filled)


@functools.partial(jax.jit, static_argnums=0)
def compact(program: Program, slots: Slots, rows: Array) -> Slots:
  """Gathers `rows` (local to each device) into a smaller set of slots."""
  return _sharded(program, _local_compact, (True, True))(slots, rows)


@functools.partial(jax.jit, static_argnums=(0, 1))
def _empty(program: Program, size: int, image: Array, key: Array) -> Slots:
  zero = jnp.zeros((), jnp.int32)
  problem = Problem(image, zero, zero - 1, jnp.zeros((), jnp.float32), key)
  books = _fresh_books()._replace(active=jnp.zeros((), bool))
  slot = Slots(problem, program.attack.init(problem), image, books)
  return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (size, *leaf.shape)), slot)


def empty_slots(program: Program, size: int, image_shape: tuple[int, ...]) -> Slots:
  """`size` slots with nothing in them, laid over the mesh."""
  slots = _empty(program, size, jnp.zeros(image_shape, jnp.float32), jax.random.key(0))
  return jax.device_put(slots, jax.sharding.NamedSharding(program.mesh, PartitionSpec(AXIS)))
