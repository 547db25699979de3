"""Problem, Probe and Attack: what an attack author reads and writes, for ONE image.

The engine vmaps these over its slots. Nothing written against them can mix examples,
so a result cannot depend on the batch it was computed in.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import jax

from jaxrobust.core.spelling import accepts_old_names
from jaxrobust.core.threat import Threat

Array = jax.Array
State = Any
LogitsFn = Callable[[Array], Array]
Access = Literal["gradient", "score", "decision"]


class Problem(NamedTuple):
  """The problem of an attack: one image.

  Attributes:
    image: (H, W, C), float32 in [0, 1].
    label: the true class.
    target: the class the attack steers to, or -1 for none.
    eps: the budget; traced, so that one program serves every budget.
    key: a hash of (seed, example id, stage, restart), never from the clock, batch or device.
    start: an image that meets the goal, for attacks with `needs_start`; None for others.
    others: (K, H, W, C), images of other classes, for attacks with `needs_others` = K; None for others.
  """

  image: Array
  label: Array
  target: Array
  eps: Array
  key: Array
  start: Array | None = None
  others: Array | None = None


@accepts_old_names
class Probe(NamedTuple):
  """A point at which the model was just evaluated.

  Attributes:
    image: the point.
    logits: the model's answer there: logits or, with decision access, whether the goal is met.
    queries: evaluations of the model that this step made; exact, may be traced.
    point_query: which of them, counted from 1, was the point's own; None for the last. A success there ends the attack,
      and what the step asked after it is not counted.
    done: the attack has nothing left to try for this image.
    nan: the gradient at the point was not finite (counted; such an example is never robust).
    flat: the gradient at the point was exactly zero (counted; a sign of gradient masking).
    witness: what the image was rendered from, for threats that measure that.
    unsure: the draws of a randomized classifier name different classes at the point. A success there might not be one
      for other draws, so it ends no attack whose last point is judged anyway.
    distance: that of the point, where the attack has measured it anyway by its threat; None to have it measured. The
      verification measures again.
  """

  image: Array
  logits: Array
  queries: Array | int
  point_query: Array | int | None = None
  done: Array | bool = False
  nan: Array | bool = False
  flat: Array | bool = False
  witness: Any = None
  unsure: Array | bool = False
  distance: Array | None = None


class Cost(NamedTuple):
  """Model evaluations of one step of one image at the most, for plans and efficiency.

  Attributes:
    forward, backward: forward passes and gradients.
    parallel: evaluations that are held in memory at once; the engine divides its slots by it.
    threat_forward, threat_backward: passes and gradients of the network that the threat measures with, if it has one.
  """

  forward: int = 1
  backward: int = 1
  parallel: int = 1
  threat_forward: int = 0
  threat_backward: int = 0

  def __repr__(self) -> str:
    """Leaves out what only threats with a network have, where there is none."""
    shown = self._asdict() if self.threat_forward or self.threat_backward else dict(list(self._asdict().items())[:3])
    return f"Cost({', '.join(f'{name}={value}' for name, value in shown.items())})"


@runtime_checkable
class Attack(Protocol):
  """A frozen dataclass of hyper-parameters with two pure methods, for one image.

  All of the attributes below are declared; `core.contract` raises InputError for an attack that leaves one out.

  Attributes:
    threat: what the result is verified against; `threat = by_norm` for attacks with a field `norm`.
    minimal: keep the closest success, or stop at the first.
    access: what the engine hands over as `model`: "gradient" (logits that can be differentiated), "score" (logits) or
      "decision" (whether the goal is met at an image).
    cost: model evaluations of a step.
    num_steps: steps at the most.

  Optional:
    candidate(problem, state) -> image: the point that the next step evaluates, or (image, witness). Once all steps are
      spent the engine evaluates it by a forward pass alone, which saves the gradient that an extra step would waste.
    max_queries: the budget of a query attack; the engine ends it before a step that could go beyond.
    may_leave_ball: the attack evaluates points outside its ball on purpose; such points are no successes.
    needs_start: the attack wants `problem.start`.
    needs_others: how many images of other classes it wants as `problem.others`; 0 for none.
    name: for ids and tables; the class in lower case otherwise.
  """

  @property
  def threat(self) -> Threat: ...

  @property
  def minimal(self) -> bool: ...

  @property
  def access(self) -> str: ...  # One of `Access`; as wide as `access = "score"` in a class is.

  @property
  def cost(self) -> Cost: ...

  @property
  def num_steps(self) -> int: ...

  def init(self, problem: Problem, /) -> State:
    """Returns the state before the first step; makes no model evaluation."""
    ...

  def step(self, model: Callable, problem: Problem, state: State, /) -> tuple[State, Probe]:
    """Evaluates the current point, updates the state and moves to the next point."""
    ...
