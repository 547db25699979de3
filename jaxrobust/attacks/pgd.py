"""Projected gradient descent and its two relatives without a random start: FGSM and BIM.

  x_0     = x, or uniform in the ball (random_start)
  x_{k+1} = P(x_k + alpha · eps · steepest(∇ loss(x_k)))

`step_size` alpha is relative to eps, so that one program serves every budget. Norms l1, l2, linf;
untargeted and targeted.

Defaults and sources:
  FGSM  one step of length eps; Goodfellow et al. 2015 (arXiv:1412.6572).
  BIM   10 steps of alpha 0.2, no random start; Kurakin et al. 2017 (arXiv:1607.02533), foolbox 3.
  PGD   40 steps, uniform random start, alpha 2.5 / steps; Madry et al. 2018 (arXiv:1706.06083).
Known deviation: the l1 move is the steepest one inside the box (see `norms.steepest`), where foolbox
moves along g/|g|_1 and rescales; ours is the stronger attack.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, cast

from jaxrobust.attacks import losses, norms
from jaxrobust.attacks.registry import ATTACKS, check_steps
from jaxrobust.core.budget import check_norm
from jaxrobust.core.gradients import loss_and_grad
from jaxrobust.core.threat import by_norm
from jaxrobust.core.types import Array, Cost, LogitsFn, Probe, Problem


class PGDState(NamedTuple):
  """The point to evaluate next."""

  image: Array


@dataclass(frozen=True)
class PGD:
  """Signed or normalized gradient steps, projected.

  Example:
    >>> PGD(num_steps=20).step_size, FGSM().num_steps, BIM().random_start
    (0.125, 1, False)
  """

  norm: str = "linf"
  num_steps: int = 40
  step_size: float | None = None
  random_start: bool = True
  loss: str = "ce"
  name: str = "pgd"
  threat = by_norm
  minimal = False
  access = "gradient"
  cost = Cost()

  def __post_init__(self) -> None:
    check_norm(self.norm)
    check_steps(self.num_steps)
    if self.step_size is None:
      object.__setattr__(self, "step_size", 2.5 / self.num_steps)

  def init(self, problem: Problem) -> PGDState:
    if not self.random_start:
      return PGDState(problem.image)
    return PGDState(norms.random_start(self.norm, problem.key, problem.image, problem.eps))

  def step(self, model: LogitsFn, problem: Problem, state: PGDState) -> tuple[PGDState, Probe]:
    point = loss_and_grad(model, losses.bind(self.loss, problem), state.image)
    length = cast(float, self.step_size) * problem.eps
    image = norms.climb(self.norm, point.grad, length, state.image, problem.image, problem.eps)
    return PGDState(image), point.probe

  def candidate(self, problem: Problem, state: PGDState) -> Array:
    del problem
    return state.image


@ATTACKS.register("fgsm")
def FGSM(norm: str = "linf", loss: str = "ce") -> PGD:  # noqa: N802 - constructors read like classes
  """One full step from the image: the fast gradient (sign) method."""
  return PGD(norm, num_steps=1, step_size=1.0, random_start=False, loss=loss, name="fgsm")


@ATTACKS.register("bim")
def BIM(  # noqa: N802
  norm: str = "linf", num_steps: int = 10, step_size: float | None = None, loss: str = "ce"
) -> PGD:
  """Iterated steps from the image itself: the basic iterative method."""
  alpha = 2.0 / num_steps if step_size is None else step_size
  return PGD(norm, num_steps, alpha, random_start=False, loss=loss, name="bim")


ATTACKS.register("pgd")(PGD)
