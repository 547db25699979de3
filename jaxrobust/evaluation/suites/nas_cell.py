"""The NAS robustness data (Jung et al. 2023, arXiv:2306.06712) for one network: attacks × eps, corruption × severity.

Every cell has its accuracy, confusion matrix and confidence matrices. Attacks and budgets are those of the paper
(section 3.2: FGSM at 11; PGD-40 of 1/30 eps, APGD-CE-100 and Square-5000 at 7, all linf); corruptions are CIFAR-C's
fifteen at five severities, which the paper's ImageNet16-120 does not have.

Known deviations: an attack ends at its first success, and examples that are wrong from the start are not attacked, so
confidences are those of the image that decided: the adversarial one, the attack's last point where that was looked
at, or the clean image. AutoAttack's attacks are counted so in the paper too; its FGSM and PGD are Foolbox's, which
counts the last point of every image, right or wrong before: `jaxrobust nas run --foolbox` has that reading.
"""

from __future__ import annotations

from dataclasses import replace

from jaxrobust.evaluation.suites.entry import SuiteEntry, attack_entry, clean_entry
from jaxrobust.evaluation.suites.report import Report
from jaxrobust.evaluation.suites.shifted_datasets import corrupted
from jaxrobust.evaluation.suites.suite import SUITES, Part, Setting, Suite, Summary, attack_set
from jaxrobust.evaluation.suites.summary import corruption_metrics

FGSM_BUDGETS = ("0.1/255", "0.5/255", *(f"{eps}/255" for eps in range(1, 9)), "255/255")
OTHER_BUDGETS = ("0.1/255", "0.5/255", "1/255", "2/255", "3/255", "4/255", "8/255")
# The paper has no corruptions of these; `generated` makes some.
UNCORRUPTED = ("imagenet16-120",)
SMALL_BUDGETS = ("0.5/255", "4/255")


def _attacks(small: bool) -> list[SuiteEntry]:
  if small:
    return [
      clean_entry(),
      *(attack_entry("fgsm", eps) for eps in SMALL_BUDGETS),
      *(attack_entry("pgd", eps, num_steps=4, step_size=0.3) for eps in SMALL_BUDGETS),
      *(attack_entry("apgd-ce", eps, num_steps=5) for eps in SMALL_BUDGETS),
      *(attack_entry("square", eps, num_steps=20) for eps in SMALL_BUDGETS),
    ]
  return [
    clean_entry(),
    *(attack_entry("fgsm", eps) for eps in FGSM_BUDGETS),
    *(attack_entry("pgd", eps, num_steps=40, step_size=0.01 / 0.3) for eps in OTHER_BUDGETS),
    *(attack_entry("apgd-ce", eps) for eps in OTHER_BUDGETS),
    *(attack_entry("square", eps) for eps in OTHER_BUDGETS),
  ]


@SUITES.register("nas-attacks")
def nas_attacks(setting: Setting) -> Suite:
  """FGSM, PGD-40, APGD-CE and Square at all budgets of the NAS robustness data (linf)."""
  return replace(attack_set(setting, _attacks(small=False)), fixes=("norm", "eps"), instead="basic")


@SUITES.register("nas-cell")
def nas_cell(setting: Setting) -> Suite:
  """The NAS robustness data's attacks and corruptions, with confidence and confusion matrices."""
  entries = tuple(replace(entry, matrices=True) for entry in _attacks(setting.small))
  clean = replace(clean_entry(), matrices=True)
  noisy = () if setting.base in UNCORRUPTED and not setting.generated else corrupted(setting, [clean])
  parts = (Part(setting.data, "none", entries, "id"), *noisy)
  notes = ("FGSM and PGD count the first wrong point; the paper's, Foolbox's, the last one: nas run --foolbox",)
  return Suite(parts, _metrics, fixes=("norm", "eps"), instead="basic", notes=notes)


def _metrics(report: Report) -> Summary:
  """Returns accuracy over attacks × eps and corruptions × severities; the matrices are in the cells' own summaries."""
  metrics: Summary = {cell.entry.title: cell.accuracy.plain() for cell in report.group("id")}
  tables: Summary = {}
  clean = report.one("id", False)
  if noisy := report.group("corruption"):
    tables["corruptions"] = corruption_metrics(noisy, clean)
    metrics["corruption accuracy"] = report.mean("corruption", False)
  tables["confidence of right and wrong predictions"] = {
    f"{cell.part.condition} {cell.entry.title}": cell.result.summary["confidence"]["prediction"]
    for cell in report.cells
  }
  return {"metrics": metrics, "tables": tables}
