"""Perceptual projected gradient descent (PPGD): steps of known length in a network's features.

  x_0     = clip(x + N(0, 0.01²), 0, 1)
  v       = (JᵀJ)⁻¹ g by conjugate gradients,  g = grad m(x_k),  J = D phi(x_k)
  x_{k+1} = P(clip(x_k + s v / |J v|, 0, 1)),  s = 2 b / steps

m is the margin max_{j≠y} z_j - z_y, but no more than 1, so that a misclassified image stays where it is; P is
`perceptual_steps.project`, b the budget. J v is a finite difference of length h = 1e-3, or with `exact` the
derivative itself; Jᵀ is one pass backward. Conjugate gradients stop after five iterations, or, from the second on, once
the squared residual is below 0.1; an image whose gradient is below 1e-4 everywhere is not moved. Untargeted, targeted.

Source: Laidlaw et al. 2021 (arXiv:2006.12655), perceptual-advex 0.2.6; 40 steps within 0.5 are OODRobustBench's
(arXiv:2310.12793). Known deviations: the start is clipped, nothing depends on a batch (there, the largest gradient and
residual of a batch decide for all), and those of `perceptual_steps`.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxrobust.attacks import losses
from jaxrobust.attacks.perceptual_steps import (
  BISECTIONS,
  NEWTON_STEPS,
  PerceptualAttack,
  finite,
  look,
  noisy_start,
  project,
)
from jaxrobust.attacks.registry import ATTACKS
from jaxrobust.core.gradients import with_gradient
from jaxrobust.core.lpips import OWN, length
from jaxrobust.core.summation import ordered_sum
from jaxrobust.core.types import Array, Cost, LogitsFn, Probe, Problem

FLAT = 1e-4
SOLVED = 0.1


class PPGDState(NamedTuple):
  """The point to evaluate next, and phi of the original."""

  image: Array
  anchor: Array


@dataclass(frozen=True)
class PPGD(PerceptualAttack):
  """Steepest steps under the metric of a network's features, projected.

  Example:
    >>> PPGD().threat.name, PPGD().cost.threat_backward
    ('lpips-self', 15)
  """

  num_steps: int = 40
  cg_steps: int = 5
  exact: bool = False
  loss: str = "margin-1"
  threat: Any = OWN
  name: str = "ppgd"

  @property
  def cost(self) -> Cost:
    # The point, a product for each iteration, the length of the step, and the way back into the ball.
    passes = 1 + self.cg_steps + 1 + NEWTON_STEPS + BISECTIONS
    return Cost(1, 1, threat_forward=passes, threat_backward=self.cg_steps + NEWTON_STEPS)

  def init(self, problem: Problem) -> PPGDState:
    return PPGDState(noisy_start(problem), self.threat.embed(problem.image))

  def step(self, model: LogitsFn, problem: Problem, state: PPGDState) -> tuple[PPGDState, Probe]:
    seen = look(self.threat, model, losses.bind(self.loss, problem), state.image)
    point = with_gradient(seen.loss, seen.pull(seen.slope, None), state.image, seen.draws)
    pull = functools.partial(seen.pull, None)

    def push(vector: Array) -> Array:
      """Returns J v."""
      if self.exact:  # The transpose of Jᵀ; networks with gradients of their own have no forward mode.
        return jax.vjp(pull, jnp.zeros_like(seen.phi))[1](vector)[0]
      return (self.threat.embed(state.image + 1e-3 * vector) - seen.phi) / 1e-3

    direction = solve(lambda vector: finite(pull(push(vector))), point.grad, self.cg_steps)
    speed = length(push(direction))
    moves = (jnp.max(jnp.abs(point.grad)) >= FLAT) & (speed > 0) & jnp.isfinite(speed)
    step = 2.0 * problem.eps / self.num_steps / jnp.where(moves, speed, 1.0)
    moved = jnp.clip(state.image + step * direction, 0.0, 1.0)
    image = jnp.where(moves, moved, state.image)
    image = project(self.threat, state.anchor, problem.image, image, problem.eps)
    return PPGDState(image, state.anchor), point.probe._replace(distance=length(seen.phi - state.anchor))


class _Solution(NamedTuple):
  """A solution so far, its residual, the direction to search next, and the residual's square."""

  solution: Array
  residual: Array
  direction: Array
  squared: Array
  step: Array


def solve(multiply: Any, wanted: Array, num_steps: int) -> Array:
  """Returns x with multiply(x) ≈ wanted, by conjugate gradients from zero.

  >>> [round(x, 4) for x in solve(lambda x: jnp.array([2.0, 4.0]) * x, jnp.array([1.0, 1.0]), 5).tolist()]
  [0.5, 0.25]
  """

  def unsolved(state: _Solution) -> Array:
    return (state.step < num_steps) & ((state.squared >= SOLVED) | ((state.step == 0) & (state.squared > 0)))

  def improve(state: _Solution) -> _Solution:
    product = multiply(state.direction)
    curvature = ordered_sum(state.direction * product)
    known = curvature != 0
    alpha = jnp.where(known, state.squared / jnp.where(known, curvature, 1.0), 0.0)
    residual = state.residual - alpha * product
    squared = ordered_sum(jnp.square(residual))
    direction = residual + squared / state.squared * state.direction
    return _Solution(state.solution + alpha * state.direction, residual, direction, squared, state.step + 1)

  start = _Solution(jnp.zeros_like(wanted), wanted, wanted, ordered_sum(jnp.square(wanted)), jnp.zeros((), jnp.int32))
  return jax.lax.while_loop(unsolved, improve, start).solution


ATTACKS.register("ppgd")(PPGD)
