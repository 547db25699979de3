"""OODRobustBench (Li et al. 2024, arXiv:2310.12793): robustness where test data or attack differ from training.

Dataset shift: MM5 in the threat model that the classifier was trained for, on the data set itself (ID), on its natural
relatives and under 15 corruptions × 5 severities: 1 + 4 + 75 = 80 adversarial evaluations. Threat shift: other attacks
on the data set itself; a larger budget, another norm, and four attacks without a norm (PPGD, LPA, ReColor, StAdv) where
they are registered, with the paper's budgets (section 3).

Known deviations: natural relatives are evaluated as a whole, the paper draws 10,000 examples at most; use `n` for that.
OOD_t is the mean over those of the six attacks that exist here; the summary says which.
"""

from __future__ import annotations

from typing import Any

from jaxrobust.attacks.registry import ATTACKS
from jaxrobust.evaluation.benchmarks.relatives import NATURAL, corrupted, naturals
from jaxrobust.evaluation.plan import BENCHMARKS, Part, Setting
from jaxrobust.evaluation.suites import Entry, attack_entry, clean_entry

# norm trained for -> unforeseen (norm, eps): the same norm with a larger budget, and the other norm.
UNFORESEEN = {
  "linf": (("linf", "12/255"), ("l2", "0.5")),
  "l2": (("l2", "1"), ("linf", "8/255")),
}
UNFORESEEN_IMAGENET = (("linf", "8/255"), ("l2", "1"))
# name -> (budget, steps on small images, steps on ImageNet).
PERCEPTUAL = {
  "ppgd": ("0.5", 40, 40),
  "lpa": ("0.5", 40, 40),
  "stadv": ("0.05", 100, 200),
  "recolor": ("0.06", 100, 200),
}
SMALL_STEPS = 4


@BENCHMARKS.register("oodrb")
def oodrb(setting: Setting) -> list[Part]:
  """OODRobustBench: MM5 on the data set, its relatives and 75 corruptions, and unforeseen attacks."""
  steps: dict[str, Any] = {"num_steps": SMALL_STEPS} if setting.small else {}
  entries = (clean_entry(), attack_entry("mm5", setting.eps, norm=setting.norm, **steps))
  return [
    Part(setting.data, "none", entries, "id"),
    *naturals(setting, NATURAL, entries),
    *corrupted(setting, entries),
    Part(setting.data, "none", tuple(_threats(setting)), "threat"),
  ]


def _threats(setting: Setting) -> list[Entry]:
  steps: dict[str, Any] = {"num_steps": SMALL_STEPS} if setting.small else {}
  large = setting.base == "imagenet"
  unforeseen = UNFORESEEN_IMAGENET if large else UNFORESEEN.get(setting.norm, UNFORESEEN["linf"])
  entries = [attack_entry("mm5", eps, norm=norm, **steps) for norm, eps in unforeseen]
  for name, (eps, short, long) in PERCEPTUAL.items():
    if name in ATTACKS:
      entries.append(attack_entry(name, eps, **({"num_steps": long if large else short} | steps)))
  return entries
