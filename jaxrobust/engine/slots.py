"""Slots: a fixed set of places on the devices, each stepping the item of one example.

Four programs work on them, each compiled once per (attack, classifier, slot count):
  advance   K steps of every slot; decided ones freeze
  peek      judges the candidate of each slot, before a gradient is spent on it
  exchange  takes items out of some slots into the outbox, and puts new ones in
  compact   gathers the live slots into fewer, for the tail of a run
All run under `shard_map`, so a device touches only its own rows and nothing is communicated.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec

from jaxrobust.core.budget import inside
from jaxrobust.core.classifier import Classifier
from jaxrobust.core.contract import bind_threat, join_arrays
from jaxrobust.core.mesh import AXIS
from jaxrobust.core.types import Array, Attack, Probe, Problem
from jaxrobust.engine.access import answer_met, model_for
from jaxrobust.engine.judge import Candidates, as_floats, judge_one, pack_judgment, shown
from jaxrobust.engine.program import Program, Slots, candidate_of, init_slot, slot_shapes
from jaxrobust.engine.status import (
  MOST_QUERIES,
  NEVER,
  RESUME,
  SlotStatus,
  pack_status,
  plain_keys,
  typed_keys,
  unpack_entries,
)

# What `advance` and `peek` say of a slot: at work, idle, idle with a success.
ACTIVE, IDLE, FOUND = 0, 1, 2


def _advance_one(program: Program, attack: Attack, classifier: Classifier, targeted: Array, slot: Slots) -> Slots:
  """Makes one step of one slot."""
  rule, problem, status = program.rule, slot.problem, slot.status
  model = model_for(attack, rule.access, classifier, problem, targeted, status.step, program.samples)
  state, probe = attack.step(model, problem, slot.state)
  distance = probe.distance
  if distance is None:
    distance = attack.threat.distance(problem.image, probe.image, probe.witness)
  hit = answer_met(rule.access, probe.logits, problem, targeted) & jnp.isfinite(distance)
  if program.stops and rule.candidate:
    hit &= ~jnp.asarray(probe.unsure)
  if rule.may_leave_ball:
    hit &= _in_budget(program, attack, problem, distance)
  updated = _updated(program, attack, problem, status, probe, distance, hit)
  best = slot.best
  if best is not None:
    better = hit & (distance < status.distance) if rule.minimal else hit & ~status.found
    best = jax.tree.map(lambda new, old: jnp.where(better, new, old), (probe.image, probe.witness), best)
  # A success that ends the item freezes the state: its candidate is the success.
  moves = status.active & ~hit if program.stops and not program.keeps_best else status.active
  state = jax.tree.map(lambda new, old: jnp.where(moves, new, old), state, slot.state)
  kept = jax.tree.map(lambda new, old: jnp.where(status.active, new, old), (best, updated), (slot.best, status))
  return Slots(problem, state, *kept)


def _in_budget(program: Program, attack: Attack, problem: Problem, distance: Array) -> Array:
  """Tells whether a point counts: the same for a step and for a peek before it, which follows the layout."""
  # Half of what the verification allows: another program rounds otherwise, and what counts here must count there.
  share = 0.5 if program.rule.may_leave_ball else 1.0
  return inside(distance, problem.eps, share * attack.threat.tolerance(problem.image.shape))


def _updated(
  program: Program, attack: Attack, problem: Problem, status: SlotStatus, probe: Probe, distance: Array, hit: Array
) -> SlotStatus:
  """Returns the status after a step that saw `probe`."""
  rule, passes = program.rule, program.samples
  asked = jnp.asarray(probe.queries, jnp.int32)
  own = asked if probe.point_query is None else jnp.asarray(probe.point_query, jnp.int32)
  queries = status.queries + passes * (jnp.where(hit, own, asked) if program.stops else asked)
  nearest = jnp.where(hit, jnp.minimum(distance, status.distance), status.distance)
  step = status.step + 1
  over = jnp.asarray(probe.done)
  if rule.max_queries is not None:
    # The last candidate is a query where it decides; where all steps are judged for others it is not counted.
    need = rule.largest_need if program.stops or rule.minimal else rule.cost.forward
    over |= queries > min(rule.max_queries, MOST_QUERIES) - passes * need
  ended = (step >= status.stop) | over
  if program.stops:
    ended |= hit
  elif rule.minimal:  # As a stage of a budget cascade, a minimal attack is done once it is close enough.
    ended |= jnp.isfinite(problem.eps) & (nearest <= problem.eps)
  reached_step, reached_query = status.reached_step, status.reached_query
  if program.budgets:
    within = inside(distance, jnp.asarray(program.budgets, jnp.float32), attack.threat.tolerance(problem.image.shape))
    first = hit & within & (reached_query < 0)
    # The point was the outcome of the move before this step, where the attack has a candidate.
    reached_step = jnp.where(first, status.step + (not rule.candidate), reached_step)
    reached_query = jnp.where(first, status.queries + passes * own, reached_query)
  # A gradient after success is nobody's concern, and is not computed where candidates are judged first.
  bad = jnp.asarray(probe.nan) | ~jnp.all(jnp.isfinite(probe.logits)) | ~jnp.isfinite(distance)
  return SlotStatus(
    active=~ended,
    found=status.found | hit,
    step=step,
    stop=jnp.where(over, NEVER, status.stop),
    queries=queries,
    distance=nearest,
    nan=status.nan + (bad & ~hit),
    flat=status.flat + (jnp.asarray(probe.flat) & ~hit),
    reached_step=reached_step,
    reached_query=reached_query,
  )


def _flags(status: SlotStatus) -> Array:
  return jnp.where(status.active, ACTIVE, jnp.where(status.found, FOUND, IDLE)).astype(jnp.int8)


def _local_advance(program: Program, classifier: Classifier, arrays: tuple, targeted: Array, slots: Slots) -> Any:
  attack = bind_threat(join_arrays(program.attack, arrays), classifier)
  step = jax.vmap(functools.partial(_advance_one, program, attack, classifier, targeted))
  if program.steps == 1:
    slots = step(slots)
  else:
    slots = jax.lax.fori_loop(0, program.steps, lambda _, carry: step(carry), slots)
  return slots, _flags(slots.status)


def _peek_one(program: Program, attack: Attack, classifier: Classifier, targeted: Array, slot: Slots) -> Any:
  """Judges the point that one slot would evaluate next; a success ends the item as its next step would have."""
  problem, status = slot.problem, slot.status
  image, witness = candidate_of(attack, problem, slot.state)
  key = jnp.zeros(2, jnp.uint32)  # Randomized classifiers are not peeked at.
  row = Candidates(image, problem.image, problem.label, problem.target, key, witness)
  judged = judge_one(classifier, attack.threat, targeted, row, program.verdict_samples)
  hit = status.active & answer_met("score", judged.logits, problem, targeted) & judged.valid
  hit &= _in_budget(program, attack, problem, judged.distance)
  ended = status._replace(
    active=jnp.zeros_like(hit),
    found=hit,
    step=status.step + 1,
    queries=status.queries + program.samples,
    distance=judged.distance,
  )
  return jax.tree.map(lambda new, old: jnp.where(hit, new, old), ended, status), judged


def _local_peek(program: Program, classifier: Classifier, arrays: tuple, targeted: Array, slots: Slots) -> Any:
  attack = bind_threat(join_arrays(program.attack, arrays), classifier)
  status, judged = jax.vmap(functools.partial(_peek_one, program, attack, classifier, targeted))(slots)
  return slots._replace(status=status), _flags(status), pack_judgment(judged)


def _local_exchange(
  program: Program, arrays: tuple, slots: Slots, outbox: Candidates, words: Array, images: Array, more: Array | None
) -> Any:
  """Takes rows out and puts new items in; a row beyond the slots is padding."""
  attack = join_arrays(program.attack, arrays)
  entry = unpack_entries(words)
  taken = jax.tree.map(lambda leaf: leaf.at[entry.row].get(mode="clip"), slots)
  image, witness = _leaving(program, attack, taken)
  problem = taken.problem
  leaving = Candidates(image, problem.image, problem.label, problem.target, entry.verify_key, witness)
  outbox = jax.tree.map(lambda old, new: old.at[entry.outbox].set(new, mode="drop"), outbox, leaving)
  more = None if more is None else as_floats(more)
  fresh = jax.vmap(functools.partial(init_slot, program, attack))(as_floats(images), more, entry)
  if program.complete:
    on = entry.mode == RESUME
    over = taken.status.stop == NEVER
    stop = jnp.where(over, NEVER, entry.stop)
    going = taken._replace(status=taken.status._replace(active=on & ~over, stop=stop))
    fresh = jax.tree.map(lambda new, old: _choose(on, old, new), fresh, going)
  slots = jax.tree.map(lambda old, new: old.at[entry.row].set(new, mode="drop"), slots, fresh)
  pictures = jax.vmap(functools.partial(shown, attack.threat))(image, problem.image, witness)
  return slots, outbox, pack_status(taken.status), pictures


def _choose(condition: Array, yes: Array, no: Array) -> Array:
  return jnp.where(condition.reshape(-1, *[1] * (yes.ndim - 1)), yes, no)


def _leaving(program: Program, attack: Attack, taken: Slots) -> tuple[Array, Any]:
  """Returns what is to be judged of items that leave: their success, or else the last candidate."""
  if not program.rule.candidate:
    assert taken.best is not None
    return taken.best
  last = jax.vmap(functools.partial(candidate_of, attack))(taken.problem, taken.state)
  if taken.best is None:
    return last
  return jax.tree.map(lambda best, new: _choose(taken.status.found, best, new), taken.best, last)


def _local_compact(slots: Slots, rows: Array) -> Slots:
  """Keeps `rows`; padding rows become empty slots."""
  kept = jax.tree.map(lambda leaf: leaf.at[rows].get(mode="clip"), slots)
  live = kept.status.active & (rows < slots.status.active.shape[0])
  return kept._replace(status=kept.status._replace(active=live))


def _sharded(program: Program, arrays: tuple, function: Callable, sharded: tuple[bool, ...]) -> Callable:
  """Runs `function` on each device's own rows, the keys of its slots typed; arguments not sharded are replicated."""
  specs = tuple(PartitionSpec(AXIS) if is_sharded else PartitionSpec() for is_sharded in sharded)

  def local(*arguments: Any) -> Any:
    return plain_keys(function(*(_typed(program, arrays, one) if isinstance(one, Slots) else one for one in arguments)))

  return jax.shard_map(local, mesh=program.mesh, in_specs=specs, out_specs=PartitionSpec(AXIS), check_vma=False)


def _typed(program: Program, arrays: tuple, slots: Slots) -> Slots:
  return typed_keys(slot_shapes(program, arrays, slots.problem.image.shape), slots)


@functools.partial(jax.jit, static_argnums=0, donate_argnums=3)
def advance(
  program: Program, classifier: Classifier, arrays: tuple, slots: Slots, targeted: bool
) -> tuple[Slots, Array]:
  """Makes K steps of every active slot; the flags outlive the donated slots."""
  local = _sharded(program, arrays, functools.partial(_local_advance, program), (False, False, False, True))
  return local(classifier, arrays, targeted, slots)


@functools.partial(jax.jit, static_argnums=0, donate_argnums=3)
def peek(
  program: Program, classifier: Classifier, arrays: tuple, slots: Slots, targeted: bool
) -> tuple[Slots, Array, Array]:
  """Judges the candidate of every slot by one forward pass; returns slots, flags and packed judgments."""
  local = _sharded(program, arrays, functools.partial(_local_peek, program), (False, False, False, True))
  return local(classifier, arrays, targeted, slots)


@functools.partial(jax.jit, static_argnums=0, donate_argnums=(2, 3))
def exchange(
  program: Program, arrays: tuple, slots: Slots, outbox: Candidates, words: Array, images: Array, more: Array | None
) -> tuple[Slots, Candidates, Array, Array]:
  """Exchanges items; returns slots, outbox, and the packed status and images of the rows that were taken out."""
  sharded = (False, True, True, True, True, True)
  return _sharded(program, arrays, functools.partial(_local_exchange, program), sharded)(
    arrays, slots, outbox, words, images, more
  )


@functools.partial(jax.jit, static_argnums=0)
def compact(program: Program, arrays: tuple, slots: Slots, rows: Array) -> Slots:
  """Gathers `rows` (local to each device) into a smaller set of slots."""
  return _sharded(program, arrays, _local_compact, (True, True))(slots, rows)
