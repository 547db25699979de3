"""The search for the trade-off constant c that C&W and EAD share, for one image.

Both minimize  distance(x') + c · hinge(x')  and look for the smallest c that still yields a success:
  round     optimize with c for some steps
  success   c is an upper bound,   else   c is a lower bound
  next c    the middle of the bounds; ten times c while there is no upper bound

Source: Carlini and Wagner 2017 (arXiv:1608.04644), their code, and foolbox 3 (9 rounds, factor 10, c_0 = 1e-3;
with ten or more rounds the last one repeats the smallest c that worked).
Deviations, each of which makes the attack stronger or cheaper:
  * A round ends early for each image by itself. Every tenth of its steps it must have lowered the smallest loss
    seen by a factor 0.9999. Other libraries compare the current loss, summed over the batch, so that their results
    depend on the batch. An image whose round ends goes on to its next round in the very next step. For one image
    alone that rule takes Adam's swings around the boundary for a standstill: see `Rounds.patient`.
  * Round r ends once r · steps are spent in all, so that steps a round left unused are there for later ones.
  * Where no round had a success, the search goes on with larger c for as long as steps are left.

Example:
  >>> search, over = follow(start(1e-3), jnp.array(False), jnp.array(2.0), Rounds(9, 1))
  >>> bool(over), round(float(search.const), 6), int(search.round)
  (True, 0.01, 1)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp

from jaxrobust.attacks import losses
from jaxrobust.core.errors import InputError
from jaxrobust.core.types import Array, Problem

Tree = TypeVar("Tree")

FACTOR = 10.0
LARGEST = 1e10
CHECKS = 10
PROGRESS = 0.9999
# Squares of anything larger overflow in Adam's second moment.
_LARGEST_GRADIENT = 1e15


@dataclass(frozen=True)
class Rounds:
  """The length of a search.

  Attributes:
    count: values of c that are tried.
    steps: steps for each of them.
    abort_early: end a round whose loss has stopped falling.
    patient: not if it had a success; for step sizes that decay, and for rounds that start over, where a standstill is
      not the end.
  """

  count: int
  steps: int
  abort_early: bool = True
  patient: bool = False

  def __post_init__(self) -> None:
    if self.count < 1 or self.steps < 1:
      raise InputError(f"need at least 1 search round and 1 step, got {self.count} and {self.steps}")

  @property
  def total(self) -> int:
    """Returns the most steps in all."""
    return self.count * self.steps


class Progress(NamedTuple):
  """The fall of a loss: steps taken, the smallest loss seen, and what it was at the last check."""

  step: Array
  loss: Array
  checked: Array


def no_progress() -> Progress:
  """Returns the record before the first step of a round."""
  infinity = jnp.full((), jnp.inf, jnp.float32)
  return Progress(jnp.zeros((), jnp.int32), infinity, infinity)


def watch(progress: Progress, loss: Array, steps: int) -> tuple[Progress, Array]:
  """Returns the record after a step that saw `loss`, and whether a tenth of `steps` has passed without progress."""
  lowest = jnp.minimum(progress.loss, jnp.where(jnp.isnan(loss), jnp.inf, loss))
  check = progress.step % -(-steps // CHECKS) == 0
  stalled = check & ~(lowest <= PROGRESS * progress.checked)
  return Progress(progress.step + 1, lowest, jnp.where(check, lowest, progress.checked)), stalled


class ConstSearch(NamedTuple):
  """State of the search.

  Attributes:
    const: the c in use.
    lower, upper: what is known of the smallest c that works.
    round: finished rounds.
    total: steps taken in all rounds.
    found: this round has had a success.
    progress: of this round.
  """

  const: Array
  lower: Array
  upper: Array
  round: Array
  total: Array
  found: Array
  progress: Progress


def start(initial_const: float) -> ConstSearch:
  """Returns the record before the first round."""
  const, infinity = jnp.full((), initial_const, jnp.float32), jnp.full((), jnp.inf, jnp.float32)
  zero = jnp.zeros((), jnp.int32)
  return ConstSearch(const, jnp.zeros(()), infinity, zero, zero, jnp.zeros((), bool), no_progress())


def follow(search: ConstSearch, success: Array, loss: Array, rounds: Rounds) -> tuple[ConstSearch, Array]:
  """Returns the record after a step that saw `success` and `loss`, and whether its round is over."""
  found, total = search.found | success, search.total + 1
  progress, stalled = watch(search.progress, loss, rounds.steps)
  over = total >= (search.round + 1) * rounds.steps
  if rounds.abort_early:
    over |= (stalled & ~found) if rounds.patient else stalled
  here = search._replace(total=total, found=found, progress=progress)
  return select(over, _next_round(here, rounds), here), over


def _next_round(search: ConstSearch, rounds: Rounds) -> ConstSearch:
  upper = jnp.where(search.found, search.const, search.upper)
  lower = jnp.where(search.found, search.lower, search.const)
  bounded = jnp.isfinite(upper)
  const = jnp.where(bounded, 0.5 * (lower + upper), jnp.minimum(FACTOR * search.const, LARGEST))
  if rounds.count >= CHECKS:
    const = jnp.where(bounded & (search.round + 2 == rounds.count), upper, const)
  return ConstSearch(const, lower, upper, search.round + 1, search.total, jnp.zeros((), bool), no_progress())


def finished(search: ConstSearch, rounds: Rounds) -> Array:
  """Tells whether all rounds are over; without any success there is always another."""
  return (search.round >= rounds.count) & jnp.isfinite(search.upper)


def select(condition: Array, yes: Tree, no: Tree) -> Tree:
  """Returns `yes` or `no`, leaf by leaf."""
  return jax.tree.map(lambda a, b: jnp.where(condition, a, b), yes, no)


def clip_gradient(grad: Array) -> Array:
  """Returns `grad` with entries that Adam can square."""
  return jnp.clip(grad, -_LARGEST_GRADIENT, _LARGEST_GRADIENT)


def hinge(problem: Problem, confidence: float, logits: Array) -> Array:
  """Returns max(confidence - margin, 0): zero on a success with that margin to spare; f6 of the C&W paper."""
  return confidence - losses.carlini_wagner(logits, problem.label, problem.target, confidence)


def require_confidence(problem: Problem, confidence: float, logits: Array) -> Array:
  """Returns logits on which only successes with a margin above `confidence` look like successes.

  >>> problem = Problem(*(jnp.array(v) for v in (0.0, 0, -1, 1.0, 0)))
  >>> require_confidence(problem, 2.0, jnp.array([1.0, 2.0])).tolist()
  [3.0, 2.0]
  """
  if confidence == 0.0:
    return logits
  classes = jnp.arange(logits.shape[-1])
  wanted = jnp.where(classes == problem.target, confidence, 0.0)
  given = jnp.where(classes == problem.label, confidence, 0.0)
  return logits + jnp.where(problem.target >= 0, -wanted, given)
