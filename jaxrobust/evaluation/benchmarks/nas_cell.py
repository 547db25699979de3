"""The NAS robustness data (Jung et al. 2023, arXiv:2306.06712) for one network: attacks × eps, corruption × severity.

Every cell has its accuracy, confusion matrix and confidence matrices. Attacks and budgets are those of the paper
(section 3.2, `protocols.nas`); corruptions are CIFAR-C's fifteen at five severities.

Known deviations: an attack ends at its first success, and examples that are wrong from the start are not attacked, so
confidences are those of the image that decided: the adversarial one, the attack's last point where that was looked
at, or the clean image. Accuracies and confusion of right and wrong are the same.
"""

from __future__ import annotations

from dataclasses import replace

from jaxrobust.evaluation.benchmarks.relatives import corrupted
from jaxrobust.evaluation.plan import BENCHMARKS, Part, Setting
from jaxrobust.evaluation.protocols import nas
from jaxrobust.evaluation.suites import Entry, attack_entry, clean_entry

SMALL_BUDGETS = ("0.5/255", "4/255")


def _attacks(setting: Setting) -> list[Entry]:
  if not setting.small:
    return nas(setting.norm, setting.eps)
  return [
    clean_entry(),
    *(attack_entry("fgsm", eps) for eps in SMALL_BUDGETS),
    *(attack_entry("pgd", eps, num_steps=4, step_size=0.3) for eps in SMALL_BUDGETS),
    *(attack_entry("apgd-ce", eps, num_steps=5) for eps in SMALL_BUDGETS),
    *(attack_entry("square", eps, num_steps=20) for eps in SMALL_BUDGETS),
  ]


@BENCHMARKS.register("nas-cell")
def nas_cell(setting: Setting) -> list[Part]:
  """The NAS robustness data's attacks and corruptions, with confidence and confusion matrices."""
  entries = tuple(replace(entry, matrices=True) for entry in _attacks(setting))
  clean = replace(clean_entry(), matrices=True)
  return [Part(setting.data, "none", entries, "id"), *corrupted(setting, [clean])]
