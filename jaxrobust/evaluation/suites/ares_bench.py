"""ARES-Bench (Liu et al. 2023, arXiv:2302.14301): natural shifts, white-box attacks, robustness curve, frequency bias.

Natural: accuracy on ten data sets, each judged as its own paper does, corruptions by 1 - mCE; all images. Adversarial,
on 1,000 random validation images (section 4.2): FGSM, PGD-100 and AutoAttack at linf 4/255 (Table 6) and l2 0.5
(Table D1), PGD from a random start in steps of 1/255 and 1.0 (appendix A). Curve: AutoAttack's minimum budget of each
image by binary search (section 3.1.2). Frequency: the lowest cutoff at which an image is still right (Eq. 4).

Known deviations: those of `suites.low_pass`, which filters the same 1,000 images. All networks see one preprocessing,
as in the authors' `run_attack.py`.
Black-box attacks by transfer need source networks: `jaxrobust transfer --suite=ares-bench`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jaxrobust.attacks.cascade_budget import CascadeBudget
from jaxrobust.attacks.registry import make_attack
from jaxrobust.data.preprocessing import USUAL
from jaxrobust.evaluation.metrics.curves import accuracy_vs_budget, area
from jaxrobust.evaluation.suites.entry import SuiteEntry, attack_entry, clean_entry, entry_of
from jaxrobust.evaluation.suites.low_pass import BIAS, UNIT, bias_of, low_pass_curves, low_pass_parts
from jaxrobust.evaluation.suites.report import Report, SuiteCell
from jaxrobust.evaluation.suites.shifted_datasets import ARES_BENCH, corrupted, naturals
from jaxrobust.evaluation.suites.suite import SUITES, Part, Setting, Suite, Summary, attack_set
from jaxrobust.evaluation.suites.summary import corruption_metrics

# norm -> (budget, PGD's step over it: 1/255 of 4/255, and 1.0 of 0.5).
BUDGETS = {"linf": ("4/255", 1 / 4), "l2": ("0.5", 2.0)}
N = 1_000
# Curves are drawn to twice the budget of the tables (figure 4); to 16/255 and 2.
CURVE = {"linf": np.arange(33) / 2 / 255, "l2": np.arange(33) / 16}
SMALL = {"num_steps": 4, "queries": 20}


def _table(norm: str, small: bool = False) -> list[SuiteEntry]:
  """Returns FGSM, PGD-100 and AutoAttack at the budget of the paper."""
  eps, step = BUDGETS[norm]
  steps = 6 if small else 100
  quick: dict[str, Any] = SMALL if small else {}
  return [
    attack_entry("fgsm", eps, norm=norm),
    attack_entry("pgd", eps, norm=norm, num_steps=steps, step_size=step),
    attack_entry("autoattack", eps, norm=norm, **quick),
  ]


def _search(small: bool) -> SuiteEntry:
  """Returns AutoAttack's minimum budget of each image."""
  quick: dict[str, Any] = SMALL if small else {}
  return entry_of(CascadeBudget(make_attack("autoattack", **quick), max_items=2 if small else 12))


@SUITES.register("ares-bench-attacks")
def ares_bench_attacks(setting: Setting) -> Suite:
  """FGSM, PGD-100 and AutoAttack, as in ARES-Bench, at the budget given."""
  norm, eps = setting.norm, setting.eps
  entries = [
    clean_entry(),
    attack_entry("fgsm", eps, norm=norm),
    attack_entry("pgd", eps, norm=norm, num_steps=100, step_size=BUDGETS.get(norm, BUDGETS["linf"])[1]),
    attack_entry("autoattack", eps, norm=norm),
  ]
  return attack_set(setting, entries)


@SUITES.register("ares-bench")
def ares_bench(setting: Setting) -> Suite:
  """ARES-Bench: natural shifts, corruptions, FGSM, PGD-100, AutoAttack and its curve in two norms, low-pass filters."""
  clean, norms = (clean_entry(),), list(BUDGETS)[: 1 if setting.small else None]
  parts = (
    Part(setting.data, "none", clean, "id"),
    *naturals(setting, ARES_BENCH, clean),
    *corrupted(setting, clean),
    *(Part(setting.data, "none", tuple(_table(norm, setting.small)), f"adversarial-{norm}", N) for norm in norms),
    Part(setting.data, "none", (_search(setting.small),), "curve", N),
    *low_pass_parts(setting, N),
  )
  notes = ("ImageNet-A, -R, -V and ObjectNet are judged among their own classes; by oodrb among all 1,000",)
  instead, fixes = "ares-bench-attacks", ("norm", "eps")
  return Suite(parts, _metrics, fixes=fixes, instead=instead, preprocess=USUAL, notes=notes)


def _metrics(report: Report) -> Summary:
  """Returns accuracy on shifted data sets, under corruptions and attacks, AutoAttack over budgets, frequency bias."""
  clean = report.one("id", False)
  metrics: Summary = {"accuracy": None if clean is None else clean.accuracy.plain()}
  natural = report.group("natural")
  metrics |= {cell.part.data: cell.accuracy.plain() for cell in natural}
  tables: Summary = {}
  if noisy := report.group("corruption"):
    tables["corruptions"] = corruption_metrics(noisy, clean)
    metrics["corruption accuracy"] = report.mean("corruption", False)
    metrics["1 - mCE"] = tables["corruptions"].get("1 - mCE")
  metrics["Avg."] = _average(report, metrics)
  for _, found in report.groups("adversarial-"):
    metrics |= {cell.entry.title: cell.accuracy.plain() for cell in found}
  curves = _curve(report.one("curve", True)) | low_pass_curves(report)
  if "low-pass" in curves:
    metrics[BIAS] = bias_of(report, curves)
  return {"metrics": metrics, "tables": tables, "curves": curves, "units": {BIAS: UNIT}}


def _average(report: Report, metrics: Summary) -> Any:
  """Returns the mean over the data sets as Tables 4 and 5 have it: accuracies, and 1 - mCE for the corruptions.

  Where corruptions have no mCE their mean accuracy stands for it.
  """
  sets = [metrics["accuracy"], *(cell.accuracy.plain() for cell in report.group("natural"))]
  shares = [None if one is None else one["value"] for one in sets]
  missing = report.suite.expected("natural") - len(report.group("natural"))
  noisy = metrics.get("1 - mCE")
  return report.built(*shares, *[None] * missing, metrics.get("corruption accuracy") if noisy is None else noisy)


def _curve(cell: SuiteCell | None) -> Summary:
  """Returns accuracy under AutoAttack over budgets, from the minimum budget of each image."""
  if cell is None:
    return {}
  examples = cell.result.examples
  curve = accuracy_vs_budget(examples["distance"], examples["correct"], CURVE["linf"])
  return {"AutoAttack": {"unit": "linf", "area": area(curve), **curve.plain()}}
