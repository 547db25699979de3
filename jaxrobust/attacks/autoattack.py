"""AutoAttack and the Minimum-Margin attack: cascades of attacks over the images still standing.

AutoAttack (Croce and Hein 2020, arXiv:2003.01690; parameters of the authors' code, fra31/auto-attack a392200):
  standard  apgd-ce, apgd-t × 9 targets, fab-t × 9 targets, square 5000
  plus      apgd-ce × 5 restarts, apgd-dlr × 5, fab × 5, square, apgd-t × 9, fab-t × 9
  rand      apgd-ce, apgd-dlr, for randomized classifiers: gradients are means over `samples` passes (20)
In l1, apgd-ce has 5 restarts and apgd-t 5 targets. Targets are the most likely wrong classes by clean logits.

MM3, MM5, MM9 (Gao et al. 2022, arXiv:2206.07314; MM5 in OODRobustBench): 20 steps toward the 3, 5 or 9 most likely
wrong classes; MM+: 100 steps, 9 targets.

Norms l1, l2, linf; untargeted. A success ends an example's way through the cascade, so the result is the pointwise
worst case. Known deviations: an example goes on to its next stage at once instead of waiting for the whole set, and
every stage's noise depends on the example alone; fab is a minimal attack that stops here once it is inside the budget.
With too few classes for DLR (3) or its targeted form (4) the plain margins stand in, and the result says so.
"""

from __future__ import annotations

from collections.abc import Iterator

from jaxrobust.attacks.apgd import apgd_ce, apgd_dlr, apgd_t
from jaxrobust.attacks.fab import FAB, FABT
from jaxrobust.attacks.mm import MM
from jaxrobust.attacks.registry import ATTACKS
from jaxrobust.attacks.schedule import Cascade, Stage
from jaxrobust.attacks.square import Square
from jaxrobust.core.budget import check_norm

TARGETS = 9


def _restarts(attack: object, count: int) -> Iterator[Stage]:
  return (Stage(attack, restart=restart) for restart in range(count))  # type: ignore[arg-type]


def ranks(attack: object, count: int) -> Iterator[Stage]:
  """Yields the attack once toward each of the `count` most likely wrong classes."""
  return (Stage(attack, rank=rank) for rank in range(1, count + 1))  # type: ignore[arg-type]


@ATTACKS.register("autoattack")
def autoattack(norm: str = "linf", num_steps: int = 100, queries: int = 5000) -> Cascade:
  """AutoAttack standard: APGD-CE, APGD-T, FAB-T and Square over the survivors.

  >>> cascade = autoattack()
  >>> len(cascade.stages), len(autoattack(norm="l1").stages)
  (20, 20)
  """
  check_norm(norm)
  stages = (
    *_restarts(apgd_ce(norm, num_steps), 5 if norm == "l1" else 1),
    *ranks(apgd_t(norm, num_steps), 5 if norm == "l1" else TARGETS),
    *ranks(FABT(norm, num_steps, steer=True), TARGETS),
    Stage(Square(norm, queries)),
  )
  return Cascade(stages, "autoattack", adaptive=True)


@ATTACKS.register("autoattack-plus")
def autoattack_plus(norm: str = "linf", num_steps: int = 100, queries: int = 5000) -> Cascade:
  """AutoAttack plus: untargeted attacks with five restarts, Square, then the targeted ones."""
  check_norm(norm)
  fab = [Stage(FAB(norm, num_steps, random_start=restart > 0), restart=restart) for restart in range(5)]
  stages = (
    *_restarts(apgd_ce(norm, num_steps), 5),
    *_restarts(apgd_dlr(norm, num_steps), 5),
    *fab,
    Stage(Square(norm, queries)),
    *ranks(apgd_t(norm, num_steps), 5 if norm == "l1" else TARGETS),
    *ranks(FABT(norm, num_steps, steer=True), TARGETS),
  )
  return Cascade(stages, "autoattack-plus", adaptive=True)


@ATTACKS.register("autoattack-rand")
def autoattack_rand(norm: str = "linf", num_steps: int = 100) -> Cascade:
  """AutoAttack for randomized classifiers: APGD-CE and APGD-DLR on mean gradients."""
  check_norm(norm)
  stages = (Stage(apgd_ce(norm, num_steps)), Stage(apgd_dlr(norm, num_steps)))
  return Cascade(stages, "autoattack-rand", adaptive=True)


def _mm(norm: str, num_steps: int, targets: int, name: str) -> Cascade:
  return Cascade(tuple(ranks(MM(norm, num_steps), targets)), name)


@ATTACKS.register("mm3")
def mm3(norm: str = "linf", num_steps: int = 20) -> Cascade:
  """Minimum-Margin attack on the 3 most likely wrong classes."""
  return _mm(norm, num_steps, 3, "mm3")


@ATTACKS.register("mm5")
def mm5(norm: str = "linf", num_steps: int = 20) -> Cascade:
  """Minimum-Margin attack on the 5 most likely wrong classes."""
  return _mm(norm, num_steps, 5, "mm5")


@ATTACKS.register("mm9")
def mm9(norm: str = "linf", num_steps: int = 20) -> Cascade:
  """Minimum-Margin attack on the 9 most likely wrong classes."""
  return _mm(norm, num_steps, 9, "mm9")


@ATTACKS.register("mm+")
def mm_plus(norm: str = "linf", num_steps: int = 100) -> Cascade:
  """Minimum-Margin attack on the 9 most likely wrong classes, 100 steps each."""
  return _mm(norm, num_steps, 9, "mm+")
