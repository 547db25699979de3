"""Rotations and translations: all of a grid, or the worst of a few at random.

  x'[p] = bilinear sample of x at R(-w_0 · 30°)(p - c - t) + c,   t = 0.1 · (w_1 width, w_2 height),   |w|_inf <= b

c is the image's center; x is 0 outside. The budget is a share of the largest transformation: 1 is ±30° and ±10 % of
the sides, 0.5 half of each. `rigid-grid` tries 31 angles × 5 × 5 shifts, the largest first, and so decides its threat
exactly on the grid; `rigid-random` tries ten motions at random. Untargeted and targeted; only decisions are asked for.

Source: Engstrom et al. 2019 (arXiv:1712.02779): 31 × 5 × 5 within ±30° and ±3 pixels of 32, worst of 10. Deviation:
10 % of 32 pixels are 3.2; `shift=0.09375` is theirs.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxrobust.attacks.registry import ATTACKS
from jaxrobust.attacks.sampling import sample_pixels
from jaxrobust.attacks.witness_descent import DescentState, Scene, WitnessAttack, WitnessThreat, unchanged_at_zero
from jaxrobust.core.types import Array, Cost, Probe, Problem


@dataclass(frozen=True)
class RigidMotion(WitnessThreat):
  """A rotation and a translation, as shares (angle, x, y) of the largest; measures the largest share.

  Attributes:
    angle: the largest rotation, in degrees.
    shift: the largest translation, in sides of the image.

  Example:
    >>> image = jnp.arange(4.0).reshape(1, 4, 1) / 4
    >>> RigidMotion(shift=0.25).draw(image, jnp.array([0.0, 1.0, 0.0]), jax.random.key(0), 1).ravel().tolist()
    [0.0, 0.0, 0.25, 0.5]
  """

  angle: float = 30.0
  shift: float = 0.1
  name: str = "rigid"
  unit: ClassVar[str] = "of the largest motion"

  def identity(self, image: Array) -> Array:
    del image
    return jnp.zeros(3)

  def draw(self, image: Array, offset: Array, key: Array, drawing: Array) -> Array:
    del key, drawing
    height, width = image.shape[:2]
    turn = offset[0] * np.deg2rad(self.angle)
    x = jnp.arange(width)[None] - (width - 1) / 2 - offset[1] * self.shift * width
    y = jnp.arange(height)[:, None] - (height - 1) / 2 - offset[2] * self.shift * height
    # y points down, so that this turns the picture counter-clockwise for positive angles.
    across = jnp.cos(turn) * x - jnp.sin(turn) * y + (width - 1) / 2
    down = jnp.sin(turn) * x + jnp.cos(turn) * y + (height - 1) / 2
    return unchanged_at_zero(image, sample_pixels(image, jnp.stack([across, down], -1)), offset)


@functools.cache
def motions(angles: int, shifts: int) -> np.ndarray:
  """Returns the offsets of a grid within a budget of 1, the largest first.

  >>> motions(3, 1).tolist()
  [[-1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
  """
  turns, steps = (np.linspace(-1, 1, count) if count > 1 else np.zeros(1) for count in (angles, shifts))
  table = np.stack(np.meshgrid(turns, steps, steps, indexing="ij"), -1).reshape(-1, 3)
  return table[np.argsort(-np.abs(table).max(1), kind="stable")].astype(np.float32)


class _RigidSearch(WitnessAttack):
  """Tries one motion at a step."""

  access = "decision"
  cost = Cost(1, 0)
  pieces: ClassVar[tuple[str, ...]] = ("threat",)

  def motion(self, problem: Problem, step: Array) -> Array:
    """Returns the offset of a step within a budget of 1."""
    raise NotImplementedError

  def _scene(self, problem: Problem, step: Array) -> Scene:
    offset = problem.eps * self.motion(problem, step)
    return Scene(offset, jax.random.key_data(problem.key), (problem.eps > 0).astype(jnp.int32))

  def init(self, problem: Problem) -> DescentState:
    start = jnp.zeros((), jnp.int32)
    return DescentState(self._scene(problem, start), (), start)

  def step(self, model: Any, problem: Problem, state: DescentState) -> tuple[DescentState, Probe]:
    image = self.threat.render(problem.image, state.scene)
    probe = Probe(image, model(image), queries=1, witness=state.scene)
    after = state.step + 1
    return DescentState(self._scene(problem, after), (), after), probe


@dataclass(frozen=True)
class RigidGrid(_RigidSearch):
  """Tries every rotation and translation of a grid.

  Example:
    >>> RigidGrid(RigidMotion()).num_steps
    775
  """

  threat: Any
  angles: int = 31
  shifts: int = 5
  name: str = "rigid-grid"

  @property
  def num_steps(self) -> int:  # type: ignore[override]
    return self.angles * self.shifts**2

  def motion(self, problem: Problem, step: Array) -> Array:
    del problem
    return jnp.asarray(motions(self.angles, self.shifts))[jnp.minimum(step, self.num_steps - 1)]


@dataclass(frozen=True)
class RigidRandom(_RigidSearch):
  """Tries some rotations and translations at random."""

  threat: Any
  num_steps: int = 10
  name: str = "rigid-random"

  def motion(self, problem: Problem, step: Array) -> Array:
    return jax.random.uniform(jax.random.fold_in(problem.key, step), (3,), minval=-1.0)


@ATTACKS.register("rigid-grid")
def rigid_grid(angles: int = 31, shifts: int = 5, angle: float = 30.0, shift: float = 0.1) -> RigidGrid:
  """Tries every rotation and translation of a grid."""
  return RigidGrid(RigidMotion(angle, shift), angles, shifts)


@ATTACKS.register("rigid-random")
def rigid_random(num_steps: int = 10, angle: float = 30.0, shift: float = 0.1) -> RigidRandom:
  """Tries some rotations and translations at random."""
  return RigidRandom(RigidMotion(angle, shift), num_steps)
