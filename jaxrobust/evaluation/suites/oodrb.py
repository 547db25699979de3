"""OODRobustBench (Li et al. 2024, arXiv:2310.12793): robustness where test data or attack differ from training.

Dataset shift: MM5 in the threat model that the classifier was trained for, on the data set itself (ID), on its
natural shifts and under 15 corruptions × 5 severities: 1 + 4 + 75 = 80 adversarial evaluations. Threat shift: other
attacks on the data set itself; a larger budget, another norm, and four attacks without a norm (PPGD, LPA, ReColor,
StAdv). Budgets are section 3's: linf 8/255 and l2 0.5 on CIFAR-10, linf 4/255 on ImageNet.
Random samples of at most 10,000 (CIFAR-10) and 5,000 examples (ImageNet) of every set (appendix B.1).

ImageNet's variants are judged among all 1,000 classes, as in the authors' code, and ObjectNet by the objects of one
class alone. Data sets that the paper does not have take any budget; their two unforeseen ones are CIFAR-10's.

PPGD and LPA are bounded in the features of a network: torchvision's AlexNet on ImageNet, as in the paper, if its
weights are there. The paper's own AlexNet for CIFAR-10 cannot be had any more, so that small images are measured by one
that ships with this package. The name of OOD_t then says so, and it is not comparable with published numbers. `oodrb,
lpips=alexnet:FILE` has weights of your own, of any network in `models.perceptual`; `lpips=alexnet-cifar:FILE` is how to
use the paper's for CIFAR-10, if you have them.
"""

from __future__ import annotations

import functools
from typing import Any

from jaxrobust.core.budget import Budget
from jaxrobust.core.errors import InputError
from jaxrobust.core.lpips import Lpips
from jaxrobust.evaluation.suites.entry import SuiteEntry, attack_entry, clean_entry, threat_config
from jaxrobust.evaluation.suites.report import Report
from jaxrobust.evaluation.suites.shifted_datasets import NATURAL, corrupted, naturals
from jaxrobust.evaluation.suites.suite import SUITES, Part, Setting, Suite, Summary, attack_set
from jaxrobust.evaluation.suites.summary import corruption_metrics
from jaxrobust.models.perceptual import make_threat
from jaxrobust.results.exchange.oodrobustbench import OTHER_BUDGETS
from jaxrobust.results.ids import without_threat

# data set -> norm trained for -> its budget.
TRAINED = {"cifar10": {"linf": "8/255", "l2": "0.5"}, "imagenet": {"linf": "4/255"}}
MOST = {"cifar10": 10_000, "imagenet": 5_000}
# name -> (budget, steps on small images, steps on ImageNet).
PERCEPTUAL = {
  "ppgd": ("0.5", 40, 40),
  "lpa": ("0.5", 40, 40),
  "stadv": ("0.05", 100, 200),
  "recolor": ("0.06", 100, 200),
}
# Which of them are bounded in features, and by which networks: the paper's on ImageNet, and what stands in elsewhere.
FEATURES = ("ppgd", "lpa")
PUBLISHED, STAND_IN = "lpips-alexnet", "lpips-cifar10-alexnet-half"
# The name with torchvision's weights in it, which numbers are comparable under; the paper's for CIFAR-10 is not known.
PAPERS = {"imagenet": f"{PUBLISHED}.f8a620"}
THREATS = 2 + len(PERCEPTUAL)
SMALL_STEPS = 4


@SUITES.register("oodrb")
def oodrb(setting: Setting) -> Suite:
  """OODRobustBench: MM5 on the data set, its shifts and 75 corruptions, and unforeseen attacks."""
  steps: dict[str, Any] = {"num_steps": SMALL_STEPS} if setting.small else {}
  entries = (clean_entry(), attack_entry("mm5", _trained(setting), norm=setting.norm, **steps))
  most = MOST.get(setting.base)
  parts = (
    Part(setting.data, "none", entries, "id", most),
    *naturals(setting, NATURAL, entries, most),
    *corrupted(setting, entries, most),
    Part(setting.data, "none", tuple(_threats(setting)), "threat", most, THREATS),
  )
  notes: tuple[str, ...] = (
    "ImageNet's variants are judged among all 1,000 classes, as in the authors' code; by ares-bench among their own",
    "subsets follow the authors' image_ids lists where those lie beside the data sets",
  )
  measured = _network(setting)
  if isinstance(measured, str):
    notes += (f"OOD_t is partial, without {' and '.join(FEATURES)}: {measured} (--suite=oodrb,lpips=alexnet:FILE)",)
  elif measured.name != PAPERS.get(setting.base):
    notes += (f"PPGD and LPA are bounded by {measured.name}, which is not known to be the paper's network",)
  fixes = ("eps",) if setting.base in TRAINED else ()
  return Suite(parts, _metrics, fixes=fixes, instead="oodrb-attack", notes=notes, numbers=("lpips",))


@SUITES.register("oodrb-attack")
def oodrb_attack(setting: Setting) -> Suite:
  """MM5, OODRobustBench's attack, at the budget given."""
  return attack_set(setting, [clean_entry(), attack_entry("mm5", setting.eps, norm=setting.norm)])


def _trained(setting: Setting) -> Budget:
  """Returns the budget that networks for this data set are trained for in the paper; any for other data sets."""
  known = TRAINED.get(setting.base)
  if known is None:
    return setting.eps
  if setting.norm not in known:
    raise InputError(f"OODRobustBench has no {setting.norm} on {setting.base}: use --norm={next(iter(known))}")
  return Budget(known[setting.norm])


def _threats(setting: Setting) -> list[SuiteEntry]:
  steps: dict[str, Any] = {"num_steps": SMALL_STEPS} if setting.small else {}
  large = setting.base == "imagenet"
  place = (setting.base, setting.norm)
  unforeseen = OTHER_BUDGETS[place if place in OTHER_BUDGETS else ("cifar10", "l2" if setting.norm == "l2" else "linf")]
  entries = [attack_entry("mm5", eps, norm=norm, **steps) for norm, eps in unforeseen]
  measured = _network(setting)
  for name, (eps, short, long) in PERCEPTUAL.items():
    numbers: dict[str, Any] = {"num_steps": SMALL_STEPS if setting.small else long if large else short}
    if name in FEATURES:
      if isinstance(measured, str):
        continue
      numbers["threat"] = measured
    entries.append(attack_entry(name, eps, **numbers))
  return entries


def _network(setting: Setting) -> Lpips | str:
  """Returns the perceptual threat that is asked for, or else that of a data set; or why there is none."""
  if setting.lpips:
    return make_threat(f"lpips-{setting.lpips}")
  return _threat(PUBLISHED if setting.base == "imagenet" else STAND_IN)


@functools.cache
def _threat(name: str) -> Lpips | str:
  try:
    return make_threat(name)
  except InputError as error:
    return str(error)


def threat_of(entry: SuiteEntry) -> str:
  """Returns the name of an entry's threat."""
  return str((threat_config(entry.schedule) or {}).get("name", ""))


def _metrics(report: Report) -> Summary:
  """Returns ID accuracy and robustness, R_c, R_n, OOD_d = (R_c + R_n) / 2, OOD_t, OOD = (OOD_d + OOD_t) / 2."""
  metrics: Summary = {}
  for attacked, letter in ((False, "accuracy"), (True, "robustness")):
    one = report.one("id", attacked)
    natural, noisy = (report.mean(group, attacked) for group in ("natural", "corruption"))
    metrics[f"ID {letter}"] = None if one is None else one.accuracy.plain()
    metrics["R_c" if attacked else "A_c"] = noisy
    metrics["R_n" if attacked else "A_n"] = natural
    metrics["OOD_d" if attacked else "OOD_d accuracy"] = report.built(noisy, natural)
  threats = report.group("threat", True)
  networks = {name for cell in threats if (name := threat_of(cell.entry)).startswith("lpips-")}
  other = sorted(networks - {PAPERS.get(report.suite.setting.base)})
  suffix = f" [{', '.join(other)}]" if other else ""
  unforeseen = report.mean("threat", True)
  metrics[f"OOD_t{suffix}"] = unforeseen
  metrics[f"OOD{suffix}"] = report.built(metrics["OOD_d"], unforeseen)
  metrics[f"worst of the threats{suffix}"] = report.worst("threat")
  there = {without_threat(cell.entry.attack, threat_of(cell.entry)).split("-")[0] for cell in threats}
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
