"""A cheap attack on all examples and a full one on those still standing, of which a sample may be enough.

As a schedule it is the cascade of both, on every example. An evaluation runs the full attack on a random sample of the
survivors only, until the robust accuracy is known to ± `width` points with 95 % confidence, and says so: see
`jaxrobust.evaluation.audit_job`, and `jaxrobust.evaluation.metrics.audit` for the statistics. What is estimated is the
accuracy under both attacks together; it is that of the full one unless the cheap one breaks more.

`autoattack-audit` audits MM5 (Gao et al. 2022) with AutoAttack (Croce and Hein 2020).
"""

from __future__ import annotations

from dataclasses import dataclass

from jaxrobust.attacks.autoattack import autoattack, mm5
from jaxrobust.attacks.cascade_rule import CascadeRule
from jaxrobust.attacks.registry import ATTACKS
from jaxrobust.attacks.schedule import Cascade, Schedule, as_schedule
from jaxrobust.core.errors import InputError
from jaxrobust.core.types import Attack


@dataclass(frozen=True)
class Audit(CascadeRule):
  """Two attacks, and how exactly the second is to be known.

  Attributes:
    cheap: runs on all examples.
    full: audits what is left.
    width: half of the interval of the robust accuracy at which the audit ends, in percentage points.
    evaluations: forward passes after which it ends at the latest, both attacks together; 0 for no bound.

  Example:
    >>> audit = Audit(mm5(), autoattack())
    >>> len(audit.stages), audit.norm, audit.width
    (25, 'linf', 0.5)
  """

  cheap: Cascade
  full: Cascade
  width: float = 0.5
  evaluations: float = 0.0
  name = "audit"

  def __post_init__(self) -> None:
    if self.cheap.minimal or self.full.minimal:
      raise InputError("an audit needs two attacks within a budget; minimal ones know no survivors")
    if not 0 < self.width < 50:
      raise InputError(f"the width of an audit must be more than 0 and less than 50 points, got {self.width}")
    if self.evaluations < 0:
      raise InputError(f"an audit cannot be bounded by {self.evaluations} evaluations")
    self.cascade  # noqa: B018 - refuses attacks of two threats now

  @property
  def cascade(self) -> Cascade:
    """Returns both attacks, one after the other."""
    return Cascade((*self.cheap.stages, *self.full.stages))


def audit_of(cheap: Attack | Schedule, full: Attack | Schedule, width: float = 0.5, evaluations: float = 0.0) -> Audit:
  """Returns an audit of any two attacks or cascades within a budget.

  >>> from jaxrobust.attacks.registry import make_attack
  >>> len(audit_of(make_attack("pgd", num_steps=10), make_attack("mm5"), 1.0).stages)
  6
  """
  return Audit(_cascade(cheap), _cascade(full), width, evaluations)


def _cascade(attack: Attack | Schedule) -> Cascade:
  schedule = as_schedule(attack)
  if not isinstance(schedule, Cascade):
    raise InputError(f"an audit needs attacks or cascades of attacks, not a {type(schedule).__name__}")
  return schedule


@ATTACKS.register("autoattack-audit")
def autoattack_audit(norm: str = "linf", width: float = 0.5, evaluations: float = 0.0) -> Audit:
  """MM5 on all examples, AutoAttack on a sample of those that it leaves standing."""
  return Audit(mm5(norm), autoattack(norm), width, evaluations)
