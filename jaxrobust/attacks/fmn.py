"""Fast minimum norm (FMN): gradient steps inside a ball whose radius follows the decision boundary.

  eps    <- min(eps · (1 - gamma_k), |best delta|)     on a success
            eps · (1 + gamma_k)                        on a failure after a success
            |delta| + |margin| / |∇ margin|_dual       before the first success: the boundary, to first order,
                                                       but no less than eps · (1 + gamma_k)
  x'     <- P_eps(x' + alpha_k · ∇ margin/|∇ margin|_2)

Norms l1, l2, linf; untargeted and targeted; a minimal attack. Loss: the margin of logits.
Source: Pintor et al. 2021 (arXiv:2102.12827): 100 steps, alpha from 1 to alpha/100 and gamma from 0.05 to
0.001 by a cosine, start at the image. Deviations:
  * Before the first success eps grows at least as fast as after it. The authors trust the estimate alone, which the
    box can keep too small for ever: in l2 3 % of the reference images were then never fooled.
  * The l1 projection is the exact one onto ball ∩ box; the authors clip afterwards, which wastes part of the ball.
  * Where the gradient is exactly zero, the direction is a random unit vector of the image's own key.
foolbox 3.3 has the same method, but its l2 projection does nothing, so ours finds far closer images in l2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp

from jaxrobust.attacks import losses, norms
from jaxrobust.attacks.ddn import cosine, direction, farthest, random_direction
from jaxrobust.attacks.registry import ATTACKS, check_steps
from jaxrobust.core.budget import check_norm
from jaxrobust.core.gradients import loss_and_grad
from jaxrobust.core.threat import by_norm
from jaxrobust.core.types import Array, Cost, LogitsFn, Probe, Problem

_DUAL = {"l1": "linf", "l2": "l2", "linf": "l1"}


class FMNState(NamedTuple):
  """State of one image.

  Attributes:
    image: the point to evaluate next.
    radius: of the ball it is kept in.
    best: the norm of the closest success, infinity without one.
    step: steps taken.
    noise: a direction for where there is no gradient.
  """

  image: Array
  radius: Array
  best: Array
  step: Array
  noise: Array


@ATTACKS.register("fmn")
@dataclass(frozen=True)
class FMN:
  """Fast minimum norm.

  Example:
    >>> FMN().norm, FMN(step_size=10.0).final_step_size
    ('l2', 0.1)
  """

  norm: str = "l2"
  num_steps: int = 100
  step_size: float = 1.0
  final_step_size: float | None = None
  gamma: float = 0.05
  final_gamma: float = 0.001
  loss: str = "margin"
  name: str = "fmn"
  threat = by_norm
  minimal = True
  access = "gradient"
  cost = Cost()

  def __post_init__(self) -> None:
    check_norm(self.norm)
    check_steps(self.num_steps)
    if self.final_step_size is None:
      object.__setattr__(self, "final_step_size", self.step_size / 100)

  def init(self, problem: Problem) -> FMNState:
    infinity = jnp.full((), jnp.inf, jnp.float32)
    return FMNState(problem.image, jnp.zeros(()), infinity, jnp.zeros((), jnp.int32), random_direction(problem))

  def step(self, model: LogitsFn, problem: Problem, state: FMNState) -> tuple[FMNState, Probe]:
    point = loss_and_grad(model, losses.bind(self.loss, problem), state.image)
    margin = losses.margin(point.probe.logits, problem.label, problem.target)
    size = norms.distance(self.norm, state.image - problem.image)
    best = jnp.where(margin > 0.0, jnp.minimum(state.best, size), state.best)
    radius = self._radius(problem, state._replace(best=best), size, margin, point.grad)
    alpha = cosine(self.step_size, self.final_step_size or 0.0, state.step, self.num_steps)
    moved = state.image + alpha * direction(point.grad, state.noise)
    image = norms.project(self.norm, moved, problem.image, radius)
    return FMNState(image, radius, best, state.step + 1, state.noise), point.probe

  def _radius(self, problem: Problem, state: FMNState, size: Array, margin: Array, grad: Array) -> Array:
    """Returns the radius of the next ball; never more than the box allows."""
    gamma = cosine(self.gamma, self.final_gamma, state.step, self.num_steps)
    slope = norms.distance(_DUAL[self.norm], grad)
    boundary = size + jnp.where(slope > 0.0, jnp.abs(margin) / slope, jnp.inf)
    wider = state.radius * (1.0 + gamma)
    outward = jnp.where(jnp.isfinite(state.best), wider, jnp.maximum(boundary, wider))
    radius = jnp.where(margin > 0.0, jnp.minimum(state.radius * (1.0 - gamma), state.best), outward)
    limit = farthest(self.norm, problem.image)
    return jnp.where(radius < limit, radius, limit)  # Also where a NaN came from the model.

  def candidate(self, problem: Problem, state: FMNState) -> Array:
    del problem
    return state.image
