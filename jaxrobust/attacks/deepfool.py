"""DeepFool: steps onto the nearest linearized boundary until it is crossed.

Moosavi-Dezfooli et al. 2016 (arXiv:1511.04599):
  k  = argmin_k |z_k - z_y| / |w_k|_q,  w_k = ∇(z_k - z_y),  over the most likely wrong classes
  r += (|z_k - z_y| / |w_k|_q + 1e-4) · direction;  direction = w_k / |w_k|_2 (l2, q = 2) or sign(w_k) (linf, q = 1)
  x' = clip(x_0 + (1 + overshoot)·r)

Norms l2 and linf. Untargeted; with a target the boundary is that of the target against its strongest rival.
One forward pass per step and a backward pass per candidate but the label.

Defaults and sources: 50 steps, overshoot 0.02, 10 candidates with the label among them, 1e-4: the authors' code
and foolbox 3.
Known deviations:
  * `refine` looks once more, at a quarter of the overshoot, when the boundary has been crossed; the closer of
    the two counts. With the overshoot every distance is 2 % too large, even for a linear classifier. Without
    `refine` this is foolbox's attack.
  * The candidates are the most likely classes at the current point, theirs at the image; the same up to 10 classes.
ARES 1.0 takes the 2-norm of w for linf too, and ARES 2.0 always steps to the last class; neither is a reference here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp

from jaxrobust.attacks import losses, norms
from jaxrobust.attacks.hyperplane import against, boundaries, likely_wrong, nearest, span
from jaxrobust.attacks.registry import ATTACKS, check_steps
from jaxrobust.core.budget import check_norm
from jaxrobust.core.errors import InputError
from jaxrobust.core.threat import by_norm
from jaxrobust.core.types import Array, Cost, LogitsFn, Probe, Problem

# Longer by this much, so that a point on the boundary still moves.
_STABLE = 1e-4
# A margin below this fraction of the largest logit may be rounding, and the engine would not count it.
_CLEAR = 4e-6


class DeepFoolState(NamedTuple):
  """The point to evaluate next, the sum of all moves without overshoot, and whether the boundary has been crossed."""

  image: Array
  total: Array
  crossed: Array


@ATTACKS.register("deepfool")
@dataclass(frozen=True)
class DeepFool:
  """Straight to the nearest boundary, again until there.

  Attributes:
    candidates: the most likely classes that are considered, the label included.
    refine: whether to look once more with less overshoot after success.

  Example:
    >>> DeepFool(norm="linf").cost
    Cost(forward=1, backward=9, parallel=1)
  """

  norm: str = "l2"
  num_steps: int = 50
  overshoot: float = 0.02
  candidates: int = 10
  refine: bool = True
  name: str = "deepfool"
  threat = by_norm
  minimal = True
  access = "gradient"

  def __post_init__(self) -> None:
    check_norm(self.norm, ("l2", "linf"))
    check_steps(self.num_steps)
    if self.candidates < 2:
      raise InputError(f"DeepFool needs at least 2 candidates, the label included; got {self.candidates}")

  @property
  def cost(self) -> Cost:
    """Returns an upper bound where the classifier has fewer classes than `candidates`."""
    return Cost(forward=1, backward=self.candidates - 1)

  def init(self, problem: Problem) -> DeepFoolState:
    return DeepFoolState(problem.image, jnp.zeros_like(problem.image), jnp.zeros((), bool))

  def step(self, model: LogitsFn, problem: Problem, state: DeepFoolState) -> tuple[DeepFoolState, Probe]:
    def pairs(logits: Array) -> tuple[Array, Array]:
      return against(problem, logits, likely_wrong(logits, problem.label, self.candidates - 1))

    seen = boundaries(model, state.image, pairs)
    logits = seen.probe.logits
    margin = losses.margin(logits, problem.label, problem.target)
    crossed = state.crossed | (margin > _CLEAR * jnp.max(jnp.abs(logits)))
    gap, normal = nearest(self.norm, seen.gap, seen.normal)
    length = span(self.norm, gap, normal)
    length = jnp.where(jnp.isfinite(length), length + _STABLE, 0.0)
    move = norms.steepest(self.norm, normal, length, state.image)
    total = jnp.where(crossed, state.total, state.total + move)
    overshoot = jnp.where(crossed, 0.25 * self.overshoot, self.overshoot)
    image = jnp.clip(problem.image + (1 + overshoot) * total, 0.0, 1.0)
    done = state.crossed if self.refine else crossed
    return DeepFoolState(image, total, crossed), seen.probe._replace(done=done)

  def candidate(self, problem: Problem, state: DeepFoolState) -> Array:
    del problem
    return state.image
