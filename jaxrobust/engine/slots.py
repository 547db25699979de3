"""Slots: a fixed set of places on the devices, each stepping one work item.

Four programs work on them, each compiled once per (attack, classifier, slot count):
  advance  K steps of every slot; decided ones freeze
  peek     judges the point each slot would look at next, before a gradient is spent on it
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
import numpy as np
from jax.sharding import Mesh, PartitionSpec

from jaxrobust.attacks import norms
from jaxrobust.core.classifier import Classifier
from jaxrobust.core.gradients import ImageLogits
from jaxrobust.core.mesh import AXIS, row_sharding
from jaxrobust.core.threat import inside, slack
from jaxrobust.core.types import Array, Attack, Cost, Problem
from jaxrobust.engine.judge import Case, judge_one
from jaxrobust.engine.success import adversarial
from jaxrobust.engine.wire import Arrival, Books, pack_books, plain_keys, typed_keys, unpack_entries


class Slots(NamedTuple):
  """Everything on the devices; each leaf has one row per slot. Between programs, keys are plain words."""

  problem: Problem
  state: Any
  best: Array
  books: Books


@dataclasses.dataclass(frozen=True)
class Program:
  """What decides the compiled programs; hashable, so that equal programs are shared.

  Attributes:
    attack: the attack value.
    samples: forward passes per evaluation of a randomised classifier (EOT).
    steps: K, steps per dispatch.
    mesh: the devices.
    classes: of the classifier.
  """

  attack: Attack
  samples: int
  steps: int
  mesh: Mesh
  classes: int

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
  def peeks(self) -> bool:
    """Whether a point may be judged before it is stepped from: the host decides, after every step."""
    return self.steps == 1 and not self.minimal and hasattr(self.attack, "last")

  @property
  def cost(self) -> Cost:
    return getattr(self.attack, "cost", Cost())


def _fresh_books(classes: int) -> Books:
  """The books of an item that has just been put into a slot."""
  zero = jnp.zeros((), jnp.int32)
  no = jnp.zeros((), bool)
  infinity = jnp.full((), jnp.inf, jnp.float32)
  return Books(~no, no, zero, zero, infinity, zero, zero, -infinity, no, jnp.zeros(classes, jnp.float32))


def _advance_one(program: Program, classifier: Classifier, targeted: Array, slot: Slots) -> Slots:
  """One step of one slot."""
  attack, problem, books = program.attack, slot.problem, slot.books
  key = problem.key
  if classifier.randomised:
    # The attack owns problem.key; the model's own randomness is drawn from a stream beside it.
    key = jax.random.fold_in(jax.random.fold_in(key, 0x6D6F64), books.step)
  state, probe = attack.step(ImageLogits(classifier, key, program.samples), problem, slot.state)
  distance = norms.distance(program.norm, probe.image - problem.image)
  hit = adversarial(probe.logits, problem.label, problem.target, targeted) & jnp.isfinite(distance)
  if program.strays:
    hit &= inside(distance, problem.eps, slack(program.norm, problem.image.size))
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
  new_books = books._replace(
    active=~(ended | enough),
    found=found,
    step=step,
    found_step=jnp.where(better, step, books.found_step),
    distance=jnp.where(better, distance, books.distance),
    nan=books.nan + nan,
    flat=books.flat + jnp.asarray(probe.flat),
  )
  updated = (state, jnp.where(better, probe.image, slot.best), new_books)
  kept = jax.tree.map(lambda new, old: jnp.where(books.active, new, old), updated, (slot.state, slot.best, books))
  return Slots(problem, *kept)


def _local_advance(program: Program, classifier: Classifier, targeted: Array, slots: Slots) -> Slots:
  step = jax.vmap(functools.partial(_advance_one, program, classifier, targeted))
  if program.steps == 1:
    return step(slots)
  return jax.lax.fori_loop(0, program.steps, lambda _, carry: step(carry), slots)


def _peek_one(program: Program, classifier: Classifier, targeted: Array, slot: Slots) -> Slots:
  """Judges where one slot would look next; a success ends the item as its next step would have."""
  problem, books = slot.problem, slot.books
  image = program.attack.last(problem, slot.state)  # type: ignore[attr-defined]
  case = Case(image, problem.image, problem.label, problem.target, jax.random.key_data(problem.key))
  verdict = judge_one(classifier, targeted, case, program.norm, program.samples)
  hit = books.active & verdict.adversarial & verdict.in_box
  hit &= inside(verdict.distance, problem.eps, slack(program.norm, problem.image.size))
  step = books.step + 1
  ended = Books(
    active=jnp.zeros_like(hit),
    found=hit,
    step=step,
    found_step=step,
    distance=verdict.distance,
    nan=books.nan + verdict.nan,
    flat=books.flat,
    margin=verdict.margin,
    verified=hit,
    logits=verdict.logits,
  )
  best, books = jax.tree.map(lambda new, old: jnp.where(hit, new, old), (image, ended), (slot.best, books))
  return slot._replace(best=best, books=books)


def _local_peek(program: Program, classifier: Classifier, targeted: Array, slots: Slots) -> Slots:
  return jax.vmap(functools.partial(_peek_one, program, classifier, targeted))(slots)


def _seat_one(program: Program, arrival: Arrival) -> Slots:
  key = jax.random.wrap_key_data(arrival.key_data)
  problem = Problem(arrival.image, arrival.label, arrival.target, arrival.eps, key)
  books = _fresh_books(program.classes)._replace(active=arrival.filled)
  return Slots(problem, program.attack.init(problem), problem.image, books)


def _local_swap(program: Program, slots: Slots, images: Array, words: Array) -> tuple[Slots, tuple[Array, Array]]:
  """Takes rows out and puts the arrivals in; a row beyond the slots is padding."""
  rows, arrivals = unpack_entries(images, words)
  taken = jax.tree.map(lambda leaf: leaf.at[rows].get(mode="clip"), slots)
  if hasattr(program.attack, "last"):
    last = jax.vmap(program.attack.last)(taken.problem, taken.state)
    found = taken.books.found.reshape(-1, *[1] * (last.ndim - 1))
    taken = taken._replace(best=jnp.where(found, taken.best, last))
  seated = jax.vmap(functools.partial(_seat_one, program))(arrivals)
  slots = jax.tree.map(lambda old, new: old.at[rows].set(new, mode="drop"), slots, seated)
  return slots, (pack_books(taken.books), taken.best)


def _local_compact(slots: Slots, rows: Array) -> Slots:
  """Keeps `rows`; padding rows become empty slots."""
  kept = jax.tree.map(lambda leaf: leaf.at[rows].get(mode="clip"), slots)
  live = kept.books.active & (rows < slots.books.active.shape[0])
  return kept._replace(books=kept.books._replace(active=live))


def _sharded(program: Program, function: Callable, sharded: tuple[bool, ...]) -> Callable:
  """`function` on each device's own rows, the keys of its slots typed; arguments not sharded are replicated."""
  specs = tuple(PartitionSpec(AXIS) if is_sharded else PartitionSpec() for is_sharded in sharded)

  def local(*arguments: Any) -> Any:
    return plain_keys(function(*(_typed(program, one) if isinstance(one, Slots) else one for one in arguments)))

  return jax.shard_map(local, mesh=program.mesh, in_specs=specs, out_specs=PartitionSpec(AXIS), check_vma=False)


def _typed(program: Program, slots: Slots) -> Slots:
  return typed_keys(_shapes(program, slots.best.shape), slots)


@functools.partial(jax.jit, static_argnums=0, donate_argnums=2)
def advance(program: Program, classifier: Classifier, slots: Slots, targeted: bool) -> tuple[Slots, Array]:
  """K steps of every active slot; the flags say which slots are idle and outlive the donated slots."""
  local = _sharded(program, functools.partial(_local_advance, program), (False, False, True))
  slots = local(classifier, targeted, slots)
  return slots, ~slots.books.active


@functools.partial(jax.jit, static_argnums=0, donate_argnums=2)
def peek(program: Program, classifier: Classifier, slots: Slots, targeted: bool) -> tuple[Slots, Array]:
  """One forward pass per slot; the flags say which slots are idle."""
  local = _sharded(program, functools.partial(_local_peek, program), (False, False, True))
  slots = local(classifier, targeted, slots)
  return slots, ~slots.books.active


@functools.partial(jax.jit, static_argnums=0, donate_argnums=1)
def swap(program: Program, slots: Slots, images: Array, words: Array) -> tuple[Slots, tuple[Array, Array]]:
  """Exchanges finished items for new ones, as `wire` packs them; returns the books and images of those taken out."""
  return _sharded(program, functools.partial(_local_swap, program), (True, True, True))(slots, images, words)


@functools.partial(jax.jit, static_argnums=0)
def compact(program: Program, slots: Slots, rows: Array) -> Slots:
  """Gathers `rows` (local to each device) into a smaller set of slots."""
  return _sharded(program, _local_compact, (True, True))(slots, rows)


def empty_slots(program: Program, size: int, image_shape: tuple[int, ...]) -> Slots:
  """`size` slots with nothing in them, laid over the mesh; zeros, so nothing is compiled."""
  shapes = jax.eval_shape(plain_keys, _shapes(program, (size, *image_shape)))
  zeros = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), shapes)
  return jax.device_put(zeros, row_sharding(program.mesh))


def _shapes(program: Program, images: tuple[int, ...]) -> Slots:
  """Shapes and types of the slots for `images`, the keys typed."""
  size = images[0]
  number, flag = jax.ShapeDtypeStruct((size,), np.int32), jax.ShapeDtypeStruct((size,), bool)
  image, eps = jax.ShapeDtypeStruct(images, np.float32), jax.ShapeDtypeStruct((size,), np.float32)
  words = jax.ShapeDtypeStruct((size, 2), np.uint32)
  arrivals = Arrival(image, number, number, eps, words, flag)  # type: ignore[arg-type]
  return jax.eval_shape(jax.vmap(functools.partial(_seat_one, program)), arrivals)
