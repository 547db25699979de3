"""SPSA: Adam along a gradient that is estimated from the scores of random signs in pairs.

  g   = 1/q · Σ_i (L(x + σ v_i) - L(x - σ v_i)) / (2σ) · v_i,   v_i of independent random signs
  x  <- P(x + α ε Adam(g)),   Adam(β₁ 0.9, β₂ 0.999), P the projection onto ball and box

Norms linf and l2; untargeted and targeted. A step looks at x (1 query), then asks for q pairs: 2q + 1 queries;
`queries` counts all of them, the last look included.
Sources: Uesato et al. 2018 (arXiv:1802.05666); ARES (Dong et al. 2020, arXiv:1912.11852), appendix B, and its code.
Defaults:
  spsa          ARES: margin loss, σ = 0.001, q = 100 pairs (its code: 50), Adam's ε 1e-9, 20,000 queries; α is 1/255 at
                linf 8/255 and 0.005 at l2 1.0, as in its curves of strength. Its searches for budgets take 0.3 in linf.
  spsa-authors  the paper's attack as cleverhans, advertorch and torchattacks have it: margin loss, σ = 0.01, 128 pairs,
                a step of 0.01, here α = 0.32 (0.01 at about 8/255). linf alone; 100 steps, 25,701 queries.
Deviations: α is relative to ε. The look at x is counted. Points x ± σ v may lie outside [0, 1], as in all of these.
torchattacks shares its signs over the images of a batch; here each image draws its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, cast

import jax
import jax.numpy as jnp
import optax

from jaxrobust.attacks import norms
from jaxrobust.attacks.estimates import PARALLEL, estimate_gradient, score_of, signs
from jaxrobust.attacks.query_attack import QueryAttack
from jaxrobust.attacks.registry import ATTACKS
from jaxrobust.core.types import Array, Cost, LogitsFn, Probe, Problem

_ADAM = optax.scale_by_adam(eps=1e-9)
_STEP_SIZES = {"linf": 0.125, "l2": 0.005}


class SPSAState(NamedTuple):
  """The point to evaluate next, the optimizer, and the steps taken."""

  image: Array
  adam: Any
  step: Array


@ATTACKS.register("spsa")
@dataclass(frozen=True)
class SPSA(QueryAttack):
  """Estimated gradients from antithetic random signs, followed by Adam.

  Example:
    >>> SPSA().step_size, SPSA("l2").step_size, SPSA().num_steps
    (0.125, 0.005, 99)
  """

  norm: str = "linf"
  queries: int = 20_000
  pairs: int = 100
  sigma: float = 0.001
  step_size: float | None = None
  loss: str = "margin"
  name: str = "spsa"
  _at_the_end: ClassVar[int] = 1

  def __post_init__(self) -> None:
    super().__post_init__()
    if self.step_size is None:
      object.__setattr__(self, "step_size", _STEP_SIZES[self.norm])

  @property
  def cost(self) -> Cost:
    return Cost(2 * self.pairs + 1, 0, min(2 * self.pairs, PARALLEL))

  def init(self, problem: Problem) -> SPSAState:
    return SPSAState(problem.image, _ADAM.init(problem.image), jnp.zeros((), jnp.int32))

  def step(self, model: LogitsFn, problem: Problem, state: SPSAState) -> tuple[SPSAState, Probe]:
    logits = model(state.image)
    key = jax.random.fold_in(problem.key, state.step)

    def direction(number: Array) -> Array:
      return signs(jax.random.fold_in(key, number), state.image.shape)

    score = score_of(model, self.loss, problem)
    found = estimate_gradient(score, state.image, direction, self.pairs, self.sigma)
    update, adam = _ADAM.update(found.grad, state.adam)
    moved = state.image + cast(float, self.step_size) * problem.eps * update
    image = norms.project(self.norm, moved, problem.image, problem.eps)
    probe = Probe(state.image, logits, self.cost.forward, point_query=1, nan=found.nan, flat=found.flat)
    return SPSAState(image, adam, state.step + 1), probe

  def candidate(self, problem: Problem, state: SPSAState) -> Array:
    del problem
    return state.image


@ATTACKS.register("spsa-authors")
def spsa_authors(queries: int = 25_701, pairs: int = 128) -> SPSA:
  """SPSA with the settings of the paper's public forms."""
  return SPSA("linf", queries, pairs, 0.01, 0.32, "margin", "spsa-authors")
