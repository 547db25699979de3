"""AutoAE: cascades that were built greedily, by what each attack newly breaks per iteration.

Liu, Peng and Tang 2022 (arXiv:2211.12713) record which training images each candidate breaks after how many iterations,
and append, again and again, the attack and length with the most newly broken images per iteration, up to 1,000
iterations; `jaxrobust cascade` does the same with stored cells. Their two results, in their order, as the code runs
them (LeegerPENG/AutoAE, get_robust_accuracy_by_AutoAE.py and attack_ops.py):

  linf                    iterations   | l2                     iterations
  APGD-DLR                32           | DDN                    124
  APGD-CE                 32           | APGD-CE                31
  MultiTargeted           63 × 9       | DDN                    624
  FAB                     63           | APGD-DLR               31
  MultiTargeted           126 × 9      | MultiTargeted          62 × 9
  APGD-DLR                160          |
  MultiTargeted           378 × 9      |

MultiTargeted is Auto-PGD on the targeted DLR loss (`apgd-t`), from a random start for each of the nine most likely
wrong classes by clean logits. The budget of 1,000 counts its iterations once, but the code takes them for each target;
`split` is the other reading, in which nine targets share them (7, 14 and 42 each). FAB is untargeted, without a random
start. No attack begins where another ended (`previous_p` is None throughout).

Norms linf and l2; untargeted. Known deviations: theirs runs every attack on every correct image and takes the worst
case afterwards, ours goes on with survivors, which gives the same flags; their APGD averages 20 equal gradients
(`eot_iter`), ours takes one; DDN and FAB end here once they are inside the budget, and a DDN image outside it is not
scaled back onto the ball; those of `apgd`, `fab` and `ddn`. With too few classes for DLR plain margins stand in, as in
`autoattack`.
"""

from __future__ import annotations

from collections.abc import Iterator

from jaxrobust.attacks.apgd import apgd_ce, apgd_dlr, apgd_t
from jaxrobust.attacks.autoattack import TARGETS, ranks
from jaxrobust.attacks.ddn import DDN
from jaxrobust.attacks.fab import FAB
from jaxrobust.attacks.registry import ATTACKS
from jaxrobust.attacks.schedule import Cascade, Stage
from jaxrobust.core.budget import check_norm

# Attack and iterations, in the authors' order.
_PLANS = {
  "linf": (("dlr", 32), ("ce", 32), ("targets", 63), ("fab", 63), ("targets", 126), ("dlr", 160), ("targets", 378)),
  "l2": (("ddn", 124), ("ce", 31), ("ddn", 624), ("dlr", 31), ("targets", 62)),
}


@ATTACKS.register("autoae")
def autoae(norm: str = "linf", split: bool = False) -> Cascade:
  """AutoAE's ensembles: APGD, MultiTargeted and FAB in linf, DDN and APGD in l2.

  >>> len(autoae().stages), len(autoae(norm="l2").stages)
  (31, 13)
  >>> sum(stage.attack.num_steps for stage in autoae(split=True).stages)
  854
  """
  check_norm(norm, tuple(_PLANS))
  stages = (stage for name, steps in _PLANS[norm] for stage in _stages(norm, name, steps, split))
  return Cascade(tuple(stages), "autoae", adaptive=True)


def _stages(norm: str, name: str, steps: int, split: bool) -> Iterator[Stage]:
  if name == "targets":
    yield from ranks(apgd_t(norm, steps // TARGETS if split else steps), TARGETS)
  elif name == "ddn":
    yield Stage(DDN(num_steps=steps))
  elif name == "fab":
    yield Stage(FAB(norm, steps))
  else:
    yield Stage({"ce": apgd_ce, "dlr": apgd_dlr}[name](norm, steps))
