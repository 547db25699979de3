"""Momentum iterative method (MI-FGSM): PGD along an accumulated, normalized gradient.

  g_{k+1} = mu · g_k + ∇ loss / |∇ loss|_1
  x_{k+1} = P(x_k + alpha · eps · steepest(g_{k+1}))

Norms l1, l2, linf; untargeted and targeted. Source: Dong et al. 2018 (arXiv:1710.06081); decay 1, 10 steps.
alpha defaults to 2 / steps, as in foolbox 3. The l1 norm is the image's own: batch-wide norms in other
libraries make the result depend on the batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple, cast

import jax.numpy as jnp

from jaxrobust.attacks import losses, norms
from jaxrobust.attacks.registry import ATTACKS, check_steps
from jaxrobust.core.budget import check_norm
from jaxrobust.core.gradients import loss_and_grad
from jaxrobust.core.threat import by_norm
from jaxrobust.core.types import Access, Array, Cost, LogitsFn, Probe, Problem


class MIMState(NamedTuple):
  """The point to evaluate next, and the gradient it has accumulated."""

  image: Array
  momentum: Array


@ATTACKS.register("mim")
@dataclass(frozen=True)
class MIM:
  """Gradient steps with momentum.

  Example:
    >>> MIM(num_steps=20).step_size
    0.1
  """

  norm: str = "linf"
  num_steps: int = 10
  step_size: float | None = None
  decay: float = 1.0
  random_start: bool = False
  loss: str = "ce"
  name: str = "mim"
  threat = by_norm
  minimal: ClassVar[bool] = False
  access: ClassVar[Access] = "gradient"
  cost: ClassVar[Cost] = Cost()

  def __post_init__(self) -> None:
    check_norm(self.norm)
    check_steps(self.num_steps)
    if self.step_size is None:
      object.__setattr__(self, "step_size", 2.0 / self.num_steps)

  def init(self, problem: Problem) -> MIMState:
    image = problem.image
    if self.random_start:
      image = norms.random_start(self.norm, problem.key, image, problem.eps)
    return MIMState(image, jnp.zeros_like(image))

  def step(self, model: LogitsFn, problem: Problem, state: MIMState) -> tuple[MIMState, Probe]:
    point = loss_and_grad(model, losses.bind(self.loss, problem), state.image)
    momentum = self.decay * state.momentum + norms.normalize("l1", point.grad)
    move = norms.steepest(self.norm, momentum, cast(float, self.step_size) * problem.eps, state.image)
    image = norms.project(self.norm, state.image + move, problem.image, problem.eps)
    return MIMState(image, momentum), point.probe

  def candidate(self, problem: Problem, state: MIMState) -> Array:
    del problem
    return state.image
