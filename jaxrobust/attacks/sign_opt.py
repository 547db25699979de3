"""Sign-OPT: descends the distance to the boundary along the signs of its directional derivatives.

Cheng et al. 2020 (arXiv:1909.10773). g(θ) is the distance of the boundary along θ (`direction_search`). The estimate
of its gradient is Σ sign(g(θ + β u_i) - g(θ)) u_i / K over K Gaussian directions of length one on average; a sign
takes one query: the goal is met at distance g(θ) along θ + β u_i, or it is not.

Norm l2; untargeted and targeted. Each step is one query. Defaults (K 200, α 0.2, β 0.001, 100 directions, 20,000
queries) are the authors' for untargeted attacks; they give targeted ones 40,000 to 80,000. Deviations, all of which
save queries: see `direction_search`; directions lead to starting points that all decision attacks share, not to
Gaussian noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import jax.numpy as jnp

from jaxrobust.attacks.direction_search import DirectionSearch, DirectionState
from jaxrobust.attacks.registry import ATTACKS
from jaxrobust.core.types import Array


@ATTACKS.register("sign-opt")
@dataclass(frozen=True)
class SignOPT(DirectionSearch):
  """Descent of the distance along signs of directional derivatives.

  Example:
    >>> SignOPT(queries=4000).num_steps
    4000
  """

  norm: str = "l2"
  queries: int = 20_000
  directions: int = 100
  probes: int = 200
  alpha: float = 0.2
  beta: float = 0.001
  tolerance: float = 2e-6
  name: str = "sign-opt"
  _measures: ClassVar[bool] = False

  def _weight(self, state: DirectionState, found: Array, met: Array) -> Any:
    return jnp.where(met, -1.0, 1.0)
