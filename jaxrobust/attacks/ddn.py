"""Decoupled direction and norm (DDN): the direction follows the gradient, the norm follows success.

  delta   <- delta + alpha_k · g/|g|_2
  eps     <- eps · (1 - gamma) if x + delta is adversarial, else eps · (1 + gamma)
  x'      <- clip(x + eps · delta/|delta|_2)

Norm l2; untargeted and targeted; a minimal attack. Loss: cross-entropy.
Source: Rony et al. 2019 (arXiv:1811.09600): eps_0 = 1, gamma = 0.05, 100 steps, alpha from 1 to 0.01 by a cosine.
Deviations from the authors' code, as in foolbox 3: no rounding of images to 256 levels, and eps is kept below
the norm of the farthest corner of the box. Where the gradient is exactly zero, the direction is one random
unit vector of the image's own key (the authors draw a new one each time).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp

from jaxrobust.attacks import losses, norms
from jaxrobust.attacks.registry import ATTACKS, check_steps
from jaxrobust.core.budget import check_norm
from jaxrobust.core.gradients import loss_and_grad
from jaxrobust.core.threat import by_norm
from jaxrobust.core.types import Array, Cost, LogitsFn, Probe, Problem


def cosine(first: float, final: float, step: Array, num_steps: int) -> Array:
  """Returns a value that falls from `first` to `final` along half a cosine.

  >>> [round(float(cosine(1.0, 0.0, k, 4)), 3) for k in range(4)]
  [1.0, 0.854, 0.5, 0.146]
  """
  return final + 0.5 * (first - final) * (1.0 + jnp.cos(jnp.pi * step / num_steps))


def random_direction(problem: Problem) -> Array:
  """Returns a random l2 unit vector, for where there is no gradient."""
  return norms.random_direction("l2", problem.key, problem.image.shape)


def direction(grad: Array, noise: Array) -> Array:
  """Returns the l2 unit vector along `grad`, or `noise` where the gradient is exactly zero."""
  return jnp.where(jnp.any(grad != 0.0), norms.normalize("l2", grad), noise)


def farthest(norm: str, image: Array) -> Array:
  """Returns the distance of the farthest point of the box."""
  return norms.distance(norm, jnp.maximum(image, 1.0 - image))


class DDNState(NamedTuple):
  """The point to evaluate next, the norm it aims at, the steps taken, and a spare direction."""

  image: Array
  radius: Array
  step: Array
  noise: Array


@ATTACKS.register("ddn")
@dataclass(frozen=True)
class DDN:
  """Decoupled direction and norm.

  Example:
    >>> DDN().num_steps, DDN().gamma
    (100, 0.05)
  """

  norm: str = "l2"
  num_steps: int = 100
  init_eps: float = 1.0
  gamma: float = 0.05
  step_size: float = 1.0
  final_step_size: float = 0.01
  loss: str = "ce"
  name: str = "ddn"
  threat = by_norm
  minimal = True
  access = "gradient"
  cost = Cost()

  def __post_init__(self) -> None:
    check_norm(self.norm, ("l2",))
    check_steps(self.num_steps)

  def init(self, problem: Problem) -> DDNState:
    radius = jnp.full((), self.init_eps, jnp.float32)
    return DDNState(problem.image, radius, jnp.zeros((), jnp.int32), random_direction(problem))

  def step(self, model: LogitsFn, problem: Problem, state: DDNState) -> tuple[DDNState, Probe]:
    image, radius = state.image, state.radius
    point = loss_and_grad(model, losses.bind(self.loss, problem), image)
    success = losses.margin(point.probe.logits, problem.label, problem.target) > 0.0
    alpha = cosine(self.step_size, self.final_step_size, state.step, self.num_steps)
    delta = image - problem.image + alpha * direction(point.grad, state.noise)
    radius = radius * jnp.where(success, 1.0 - self.gamma, 1.0 + self.gamma)
    radius = jnp.minimum(radius, farthest("l2", problem.image))
    image = jnp.clip(problem.image + radius * norms.normalize("l2", delta), 0.0, 1.0)
    return DDNState(image, radius, state.step + 1, state.noise), point.probe

  def candidate(self, problem: Problem, state: DDNState) -> Array:
    del problem
    return state.image
