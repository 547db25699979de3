"""Minimum-Margin attack: Auto-PGD on the plain margin of one target class, z_t - z_y.

The full attack tries the k most likely wrong classes by clean logits, in order, on the images still standing
(a cascade of stages with ranks 1 to k; 20 steps × 3, 5 or 9 targets, MM+ 100 × 9). The value here is one stage.

Norms l1, l2, linf; toward `problem.target`, where any wrong class counts unless the run is targeted.
Source: Gao et al. 2022 (arXiv:2206.07314): 20 steps, Auto-PGD's own defaults, one random start. Unlike DLR the
margin is not rescaled: sign and normalized steps do not feel the scale of a loss whose gradient does not vanish.
Known deviations: those of `apgd`. In the l1 ball the steps stay inside eps (`large_eps` off), as in the authors' code.
"""

from __future__ import annotations

from jaxrobust.attacks.apgd import APGD, apgd
from jaxrobust.attacks.apgd_l1 import APGDL1
from jaxrobust.attacks.registry import ATTACKS


@ATTACKS.register("mm")
def MM(norm: str = "linf", num_steps: int = 20, rho: float = 0.75) -> APGD | APGDL1:  # noqa: N802 - as in `pgd`
  """Auto-PGD on the margin of one target class.

  >>> MM().loss, MM(norm="l1").may_leave_ball
  ('mm', False)
  """
  return apgd(norm, num_steps, "mm", rho, "mm", large_eps=False)
