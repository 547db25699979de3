"""OPT: descends the distance to the boundary along finite differences of it.

Cheng et al. 2019 (arXiv:1807.04457). g(θ) is the distance of the boundary along θ (`direction_search`). The estimate
of its gradient is the mean of (g(θ + β u_i) - g(θ)) / β · u_i over q Gaussian directions of length one on average;
each g is searched for, at some 15 queries. A probe that is closer than θ counts as a step, too.

Norm l2; untargeted and targeted. Each step is one query. Defaults (q 10, α 0.2, β 0.001, 100 directions) are the
authors'; they spend up to 80,000 queries. Deviations, all of which save queries: see `direction_search` and
`sign_opt`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import jax.numpy as jnp

from jaxrobust.attacks.direction_search import DirectionSearch, DirectionState
from jaxrobust.attacks.registry import ATTACKS
from jaxrobust.core.types import Array


@ATTACKS.register("opt")
@dataclass(frozen=True)
class OPT(DirectionSearch):
  """Descent of the distance along its finite differences.

  Example:
    >>> OPT(queries=4000).num_steps
    4000
  """

  norm: str = "l2"
  queries: int = 20_000
  directions: int = 100
  probes: int = 10
  alpha: float = 0.2
  beta: float = 0.001
  tolerance: float = 2e-6
  name: str = "opt"
  _measures: ClassVar[bool] = True

  def _weight(self, state: DirectionState, found: Array, met: Array) -> Any:
    return jnp.where(jnp.isfinite(found), (found - state.g) / state.beta, 0.0)
