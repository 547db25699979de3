"""OODRobustBench (Li et al. 2024, arXiv:2310.12793): robustness where test data or attack differ from training.

Dataset shift: MM5 in the threat model that the classifier was trained for, on the data set itself (ID), on its natural
shifts and under 15 corruptions × 5 severities: 1 + 4 + 75 = 80 adversarial evaluations. Threat shift: other attacks
on the data set itself; a larger budget, another norm, and four attacks without a norm (PPGD, LPA, ReColor, StAdv) where
they are registered, with the paper's budgets (section 3).

Known deviations: natural shifts are evaluated as a whole, the paper draws 10,000 examples at most; use `n` for that.
OOD_t is the mean over those of the six attacks that exist here; the summary says which.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jaxrobust.attacks.registry import ATTACKS
from jaxrobust.evaluation.suites.entry import SuiteEntry, attack_entry, clean_entry
from jaxrobust.evaluation.suites.report import Report, mean
from jaxrobust.evaluation.suites.shifted_datasets import NATURAL, corrupted, naturals
from jaxrobust.evaluation.suites.suite import SUITES, Part, Setting, Suite, Summary, attack_set
from jaxrobust.evaluation.suites.summary import corruption_metrics

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


@SUITES.register("oodrb")
def oodrb(setting: Setting) -> Suite:
  """OODRobustBench: MM5 on the data set, its shifts and 75 corruptions, and unforeseen attacks."""
  steps: dict[str, Any] = {"num_steps": SMALL_STEPS} if setting.small else {}
  entries = (clean_entry(), attack_entry("mm5", setting.eps, norm=setting.norm, **steps))
  parts = (
    Part(setting.data, "none", entries, "id"),
    *naturals(setting, NATURAL, entries),
    *corrupted(setting, entries),
    Part(setting.data, "none", tuple(_threats(setting)), "threat"),
  )
  return Suite(parts, _metrics)


@SUITES.register("oodrb-attack")
def oodrb_attack(setting: Setting) -> Suite:
  """MM5, OODRobustBench's attack, at the budget given."""
  return attack_set(setting, [clean_entry(), attack_entry("mm5", setting.eps, norm=setting.norm)])


def _threats(setting: Setting) -> list[SuiteEntry]:
  steps: dict[str, Any] = {"num_steps": SMALL_STEPS} if setting.small else {}
  large = setting.base == "imagenet"
  unforeseen = UNFORESEEN_IMAGENET if large else UNFORESEEN.get(setting.norm, UNFORESEEN["linf"])
  entries = [attack_entry("mm5", eps, norm=norm, **steps) for norm, eps in unforeseen]
  for name, (eps, short, long) in PERCEPTUAL.items():
    if name in ATTACKS:
      entries.append(attack_entry(name, eps, **({"num_steps": long if large else short} | steps)))
  return entries


def _metrics(report: Report) -> Summary:
  """Returns ID accuracy and robustness, R_c, R_n, OOD_d = (R_c + R_n) / 2, OOD_t, OOD = (OOD_d + OOD_t) / 2."""
  metrics: Summary = {}
  for attacked, letter in ((False, "accuracy"), (True, "robustness")):
    one = report.one("id", attacked)
    natural, noisy = (mean(report.group(group, attacked)) for group in ("natural", "corruption"))
    metrics[f"ID {letter}"] = None if one is None else one.accuracy.plain()
    metrics["R_c" if attacked else "A_c"] = noisy
    metrics["R_n" if attacked else "A_n"] = natural
    parts = [value for value in (natural, noisy) if value is not None]
    metrics["OOD_d" if attacked else "OOD accuracy"] = float(np.mean(parts)) if parts else None
  threats = report.group("threat", True)
  metrics["OOD_t"] = mean(threats)
  both = [metrics[name] for name in ("OOD_d", "OOD_t") if metrics[name] is not None]
  metrics["OOD"] = float(np.mean(both)) if len(both) == 2 else None
  there = {cell.entry.attack.partition("-")[2].split("-")[0] for cell in threats}
  tables: Summary = {
    "natural": {
      f"{cell.part.data} {'robustness' if cell.attacked else 'accuracy'}": cell.accuracy.plain()
      for cell in report.group("natural")
    },
    "threats": {cell.entry.title: cell.accuracy.plain() for cell in threats},
    "threats without an attack here": [name for name in PERCEPTUAL if name not in there],
  }
  for attacked, name in ((False, "accuracy"), (True, "robustness")):
    cells, one = report.group("corruption", attacked), report.one("id", attacked)
    if cells:
      tables[f"corruptions, {name}"] = corruption_metrics(cells, one)
  return {"metrics": metrics, "tables": tables}
