"""Problem, Probe and Attack: what an attack author reads and writes, for ONE image.

The engine vmaps these over its slots. Nothing written against them can mix examples,
so a result cannot depend on the batch it was computed in.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax

Array = jax.Array
State = Any
LogitsFn = Callable[[Array], Array]


class Problem(NamedTuple):
  """What is being attacked: one image.

  Attributes:
    image: (H, W, C), float32 in [0, 1].
    label: the true class.
    target: the class the attack steers to, or -1 for none.
    eps: the budget; traced, so that one program serves every budget.
    key: a hash of (seed, example id, stage, restart), never from the clock, batch or device.
  """

  image: Array
  label: Array
  target: Array
  eps: Array
  key: Array


class Probe(NamedTuple):
  """A point at which the model was just evaluated.

  Attributes:
    image: the point.
    logits: the model's answer there.
    done: the attack has nothing left to try for this image.
    nan: the gradient at the point was not finite (counted; such an example is never robust).
    flat: the gradient at the point was exactly zero (counted; a sign of gradient masking).
  """

  image: Array
  logits: Array
  done: Array | bool = False
  nan: Array | bool = False
  flat: Array | bool = False


class Cost(NamedTuple):
  """Model evaluations of one step of one image, for accounting and efficiency."""

  forward: int = 1
  backward: int = 1


@runtime_checkable
class Attack(Protocol):
  """A frozen dataclass of hyper-parameters with two pure methods, for one image.

  Optional attributes, each with a default the engine assumes:
    norm: "l1", "l2" or "linf"; the ball the result is verified against ("linf").
    minimal: keep the closest success instead of stopping at the first (False).
    cost: model evaluations per step (`Cost(1, 1)`).
    last(problem, state) -> image: the point the attack would look at next. Once all steps are
      spent, the engine looks at it with a forward pass alone, which saves the gradient that an
      extra step would waste.
  """

  @property
  def num_steps(self) -> int: ...

  def init(self, problem: Problem) -> State:
    """The state before the first step; makes no model evaluation."""
    ...

  def step(self, logits_fn: LogitsFn, problem: Problem, state: State) -> tuple[State, Probe]:
    """Looks at the current point, updates the books and moves to the next point."""
    ...
