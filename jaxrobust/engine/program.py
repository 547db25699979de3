"""One attack as a program of the engine: what decides what is compiled, and what a slot holds."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from jaxrobust.core.contract import Contract, contract_of, join_arrays, split_arrays, split_threat
from jaxrobust.core.mesh import row_sharding
from jaxrobust.core.types import Array, Attack, Problem
from jaxrobust.engine.status import NEW, Entry, SlotStatus, new_status, plain_keys
from jaxrobust.engine.trial import try_step


class Slots(NamedTuple):
  """Everything on the devices; each leaf has one row per slot. Between programs, keys are plain words.

  Attributes:
    best: the closest success and its witness, where the attack's candidate is not that success itself.
  """

  problem: Problem
  state: Any
  best: tuple[Array, Any] | None
  status: SlotStatus


@dataclasses.dataclass(frozen=True)
class Program:
  """All that decides the compiled programs; hashable, so that equal programs are shared.

  Attributes:
    attack: the attack value, the arrays of its threat left out.
    rule: its contract, the arrays of its threat left out.
    samples: passes per query of a randomized classifier.
    verdict_samples: the same for a verdict.
    steps: K, steps per dispatch.
    mesh: the devices.
    budgets: for which `SlotStatus.reached_query` is kept.
    complete: take all steps, whatever is found.
  """

  attack: Attack
  rule: Contract
  samples: int
  verdict_samples: int
  steps: int
  mesh: Mesh
  budgets: tuple[float, ...] = ()
  complete: bool = False

  @classmethod
  def of(cls, attack: Attack, **more: Any) -> tuple[Program, tuple[Any, ...]]:
    """Returns the program of an attack and the arrays that it takes as arguments."""
    static, arrays = split_arrays(attack)
    # A threat that is no field of its attack does not enter the attack's hash.
    return cls(static, contract_of(attack)._replace(threat=split_threat(attack.threat)[0]), **more), arrays

  @property
  def stops(self) -> bool:
    """Tells whether the first success ends an item."""
    return not self.rule.minimal and not self.complete

  @property
  def keeps_best(self) -> bool:
    """Tells whether slots hold the best success: not where a success freezes the state whose candidate it is."""
    return not self.rule.candidate or self.rule.minimal

  @property
  def can_peek(self) -> bool:
    return self.rule.candidate and self.stops


def candidate_of(attack: Attack, problem: Problem, state: Any) -> tuple[Array, Any]:
  """Returns the point that an attack evaluates next, with its witness if there is one."""
  found = attack.candidate(problem, state)  # type: ignore[attr-defined]
  return found if attack.threat.witnessed else (found, None)


def init_slot(program: Program, attack: Attack, image: Array, more: Array | None, entry: Entry) -> Slots:
  """Returns a slot with its first state; `more` are the other images that the attack wants, a start among them."""
  start, others = (more, None) if program.rule.needs_start else (None, more)
  problem = Problem(image, entry.label, entry.target, entry.eps, jax.random.wrap_key_data(entry.key), start, others)
  best = None
  if program.keeps_best:
    best = (image, jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), _witness_shape(attack, problem)))
  return Slots(problem, attack.init(problem), best, new_status(entry.mode == NEW, entry.stop, len(program.budgets)))


def _witness_shape(attack: Attack, problem: Problem) -> Any:
  """Returns the shapes of what images are rendered from; None for most threats."""
  if not attack.threat.witnessed:
    return None
  any_number = 8  # No witness depends on the number of classes.
  return try_step(attack, problem, any_number)[2].witness


def empty_slots(program: Program, arrays: tuple, size: int, image_shape: tuple[int, ...]) -> Slots:
  """Returns `size` slots with nothing in them, laid over the mesh; zeros, so nothing is compiled."""
  zeros = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), plain_shapes(program, arrays, size, image_shape))
  return jax.device_put(zeros, row_sharding(program.mesh))


def plain_shapes(program: Program, arrays: tuple, size: int, image_shape: tuple[int, ...]) -> Slots:
  """Returns shapes and types of `size` slots as they are between programs: the keys are words."""
  return jax.eval_shape(plain_keys, slot_shapes(program, arrays, (size, *image_shape)))


def witness_shape(program: Program, arrays: tuple, image_shape: tuple[int, ...]) -> Any:
  """Returns the shapes of one witness, or None where the threat has none."""
  slots = slot_shapes(program, arrays, (1, *image_shape))
  one = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), slots.problem)
  return _witness_shape(join_arrays(program.attack, arrays), one)


def slot_shapes(program: Program, arrays: tuple, images: tuple[int, ...]) -> Slots:
  """Returns shapes and types of the slots for `images`, the keys typed."""
  size = images[0]
  number, words = jax.ShapeDtypeStruct((size,), np.int32), jax.ShapeDtypeStruct((size, 2), np.uint32)
  image, eps = jax.ShapeDtypeStruct(images, np.float32), jax.ShapeDtypeStruct((size,), np.float32)
  entry = Entry._make([number] * 6 + [eps, words, words])
  wanted = more_shape(program.rule, images[1:])
  more = None if wanted is None else jax.ShapeDtypeStruct((size, *wanted), np.float32)

  def init(arrays: tuple, image: Array, more: Array | None, entry: Entry) -> Slots:
    attack = join_arrays(program.attack, arrays)
    return jax.vmap(functools.partial(init_slot, program, attack))(image, more, entry)

  return jax.eval_shape(init, arrays, image, more, entry)


def more_shape(rule: Contract, image_shape: tuple[int, ...]) -> tuple[int, ...] | None:
  """Returns the shape of the other images that an attack wants for one of its own; None for most attacks."""
  if rule.needs_start:
    return image_shape
  return (rule.needs_others, *image_shape) if rule.needs_others else None
