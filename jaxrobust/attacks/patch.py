"""A patch: one square of the image may be anything.

  x' = (1 - M) x + M p,   M a square of side floor(b · side of the image),  p in [0, 1]
  p <- clip(p + s sign(grad ce), 0, 1)

The place is drawn at random and, after `num_steps` steps, drawn anew with a new random content, `locations` times in
all. The threat looks at images alone: the smallest upright box around all that differs, relative to the image's sides.
Untargeted and targeted.

Sources: patches as a threat, Brown et al. 2017 (arXiv:1712.09665); visible noise at one place of one image by gradient,
Karmon et al. 2018 (arXiv:1801.02608). Places, steps and their length are ours: ten of 20 steps of 0.05.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from jaxrobust.attacks import losses
from jaxrobust.attacks.registry import ATTACKS, check_steps
from jaxrobust.core.gradients import loss_and_grad
from jaxrobust.core.threat import Threat
from jaxrobust.core.types import Array, Cost, LogitsFn, Probe, Problem


@dataclass(frozen=True)
class PatchSide(Threat):
  """The longer side of the smallest box around all changed pixels, in sides of the image.

  Example:
    >>> image = jnp.zeros((4, 4, 3))
    >>> float(PatchSide().distance(image, image.at[1:3, 2].set(1.0)))
    0.5
  """

  name: str = "patch"
  unit: ClassVar[str] = "sides"

  def distance(self, original: Array, image: Array, witness: Any = None) -> Array:
    del witness
    changed = jnp.any(image != original, axis=-1)
    return jnp.maximum(_extent(jnp.any(changed, axis=1)), _extent(jnp.any(changed, axis=0)))


def _extent(lines: Array) -> Array:
  """Returns the share of lines from the first to the last that is set."""
  first, last = jnp.argmax(lines), len(lines) - jnp.argmax(lines[::-1])
  return jnp.where(jnp.any(lines), (last - first) / len(lines), 0.0)


class PatchState(NamedTuple):
  """The content of the patch, where it is, and the number of the step."""

  content: Array
  inside: Array
  step: Array


@dataclass(frozen=True)
class PatchPGD:
  """Ascends the loss in a square at several random places.

  Example:
    >>> PatchPGD(steps=20, locations=10).num_steps
    200
  """

  steps: int = 20
  locations: int = 10
  step_length: float = 0.05
  loss: str = "ce"
  name: str = "patch"
  threat = PatchSide()
  minimal = False
  access = "gradient"
  cost = Cost()

  def __post_init__(self) -> None:
    check_steps(self.num_steps)

  @property
  def num_steps(self) -> int:
    return self.steps * self.locations

  def _begin(self, problem: Problem, location: Array) -> tuple[Array, Array]:
    """Returns the first content at a location, and which pixels the patch has, (height, width, 1)."""
    where, what = jax.random.split(jax.random.fold_in(problem.key, location))
    sizes = jnp.array(problem.image.shape[:2])
    side = jnp.minimum(jnp.floor(problem.eps * sizes + 1e-4), sizes)
    first = jnp.floor(jax.random.uniform(where, (2,)) * (sizes - side + 1))
    rows, columns = (
      (jnp.arange(size) >= first[axis]) & (jnp.arange(size) < first[axis] + side[axis])
      for axis, size in enumerate(problem.image.shape[:2])
    )
    return jax.random.uniform(what, problem.image.shape), (rows[:, None] & columns)[..., None]

  def init(self, problem: Problem) -> PatchState:
    start = jnp.zeros((), jnp.int32)
    return PatchState(*self._begin(problem, start), start)

  def step(self, model: LogitsFn, problem: Problem, state: PatchState) -> tuple[PatchState, Probe]:
    here = loss_and_grad(model, losses.bind(self.loss, problem), self.candidate(problem, state))
    content = jnp.clip(state.content + self.step_length * jnp.sign(here.grad), 0.0, 1.0)
    after = state.step + 1
    fresh = self._begin(problem, after // self.steps)
    moves = after % self.steps == 0
    content, inside = (jnp.where(moves, new, old) for new, old in zip(fresh, (content, state.inside), strict=True))
    return PatchState(content, inside, after), here.probe

  def candidate(self, problem: Problem, state: PatchState) -> Array:
    return jnp.where(state.inside, state.content, problem.image)


@ATTACKS.register("patch")
def patch(num_steps: int = 20, locations: int = 10, step_length: float = 0.05, loss: str = "ce") -> PatchPGD:
  """Ascends the loss in a square at several random places; `num_steps` are those of one place."""
  return PatchPGD(num_steps, locations, step_length, loss)
