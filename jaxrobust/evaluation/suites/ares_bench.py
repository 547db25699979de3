"""ARES-Bench (Liu et al. 2023, arXiv:2302.14301): natural shifts, AutoAttack over budgets, frequency bias.

Natural: accuracy on shifted data sets and under corruptions. Adversarial: FGSM, PGD-100 and AutoAttack at 4/255 (the
budget given), and AutoAttack over budgets. Frequency: accuracy after low-pass filters of rising bandwidth. Transfer
needs a source network: `jaxrobust transfer --suite=ares-bench`.

Known deviations: the paper bisects AutoAttack's budget for each example; here it is run at a list of budgets, each a
number of its own that other papers report too. PGD's step of 1/255 is a quarter of the budget. An image of
ImageNet-ReaL counts as right where its first acceptable class is predicted, not any of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jaxrobust.evaluation.metrics.curves import Curve, area
from jaxrobust.evaluation.metrics.stability import frequency_bias, low_pass_curve
from jaxrobust.evaluation.suites.entry import SuiteEntry, attack_entry, clean_entry
from jaxrobust.evaluation.suites.report import Report
from jaxrobust.evaluation.suites.shifted_datasets import ARES_BENCH, corrupted, naturals
from jaxrobust.evaluation.suites.suite import SUITES, Part, Setting, Suite, Summary, attack_set
from jaxrobust.evaluation.suites.summary import corruption_metrics

# Of the budget given: 0.5/255 to 8/255 for 4/255.
CURVE = ("1/8", "1/4", "1/2", "1", "3/2", "2")
BANDWIDTHS = {"imagenet": (1, 2, 4, 8, 16, 32, 48, 64, 96, 128, 160, 192, 224)}
BANDWIDTHS_SMALL_IMAGES = (1, 2, 4, 6, 8, 12, 16, 20, 24, 28, 32)


def _attacks(setting: Setting) -> list[SuiteEntry]:
  eps, norm = setting.eps, setting.norm
  if setting.small:
    quick: dict[str, Any] = {"norm": norm, "num_steps": 4, "queries": 20}
    return [
      attack_entry("fgsm", eps, norm=norm),
      attack_entry("pgd", eps, norm=norm, num_steps=6, step_size=1 / 4),
      *(attack_entry("autoattack", eps.times(factor), **quick) for factor in ("1/2", "1")),
    ]
  others = [factor for factor in CURVE if factor != "1"]
  return [*_table(setting), *(attack_entry("autoattack", eps.times(factor), norm=norm) for factor in others)]


def _table(setting: Setting) -> list[SuiteEntry]:
  """Returns FGSM, PGD-100 and AutoAttack."""
  norm, eps = setting.norm, setting.eps
  return [
    attack_entry("fgsm", eps, norm=norm),
    attack_entry("pgd", eps, norm=norm, num_steps=100, step_size=1 / 4),
    attack_entry("autoattack", eps, norm=norm),
  ]


@SUITES.register("ares-bench-attacks")
def ares_bench_attacks(setting: Setting) -> Suite:
  """FGSM, PGD-100 and AutoAttack, as in ARES-Bench (linf 4/255)."""
  return attack_set(setting, [clean_entry(), *_table(setting)])


@SUITES.register("ares-bench")
def ares_bench(setting: Setting) -> Suite:
  """ARES-Bench: natural shifts, corruptions, FGSM, PGD-100, AutoAttack, AutoAttack over budgets, low-pass filters."""
  clean = (clean_entry(),)
  bandwidths = BANDWIDTHS.get(setting.base, BANDWIDTHS_SMALL_IMAGES)
  parts = (
    Part(setting.data, "none", clean, "id"),
    *naturals(setting, ARES_BENCH, clean),
    *corrupted(setting, clean),
    Part(setting.data, "none", tuple(_attacks(setting)), "adversarial"),
    *(
      Part(setting.data, f"lowpass-{bandwidth}", clean, "filter")
      for bandwidth in (bandwidths[1::3] if setting.small else bandwidths)
    ),
  )
  return Suite(parts, _metrics)


def _metrics(report: Report) -> Summary:
  """Returns accuracy on shifted data sets, under corruptions and attacks, AutoAttack over budgets, frequency bias."""
  clean = report.one("id", False)
  metrics: Summary = {"accuracy": None if clean is None else clean.accuracy.plain()}
  metrics |= {cell.part.data: cell.accuracy.plain() for cell in report.group("natural")}
  metrics |= {cell.entry.title: cell.accuracy.plain() for cell in report.group("adversarial")}
  tables: Summary = {}
  if noisy := report.group("corruption"):
    tables["corruptions"] = corruption_metrics(noisy, clean)
    metrics["corruption accuracy"] = tables["corruptions"]["mean accuracy"]
    metrics["1 - mCE"] = tables["corruptions"].get("1 - mCE")
  curves = _autoattack_curve(report) | _frequency(report)
  if "low-pass" in curves:
    metrics["frequency bias"] = curves["low-pass"]["frequency bias"]
  return {"metrics": metrics, "tables": tables, "curves": curves}


def _autoattack_curve(report: Report) -> Summary:
  """Returns accuracy under AutoAttack at each budget it was run at; the clean accuracy at 0."""
  clean = report.one("id", False)
  points = {0.0: clean.accuracy.value} if clean is not None else {}
  for cell in report.group("adversarial", True):
    if "autoattack" in cell.entry.attack and cell.entry.eps is not None:
      points[cell.entry.eps.value] = cell.accuracy.value
  if len(points) < 2:
    return {}
  curve = Curve(np.array(sorted(points)), np.array([points[eps] for eps in sorted(points)]))
  return {"AutoAttack": {"unit": report.suite.setting.norm, "area": area(curve), **curve.plain()}}


def _frequency(report: Report) -> Summary:
  """Returns accuracy over low-pass bandwidth, relative to the clean accuracy, and the frequency bias."""
  clean, filtered = report.one("id", False), report.group("filter", False)
  if clean is None or not filtered or not clean.result.examples["correct"].any():
    return {}
  by_width = {int(cell.part.condition.split("-")[1]): cell.result.examples["correct"] for cell in filtered}
  widths = np.array(sorted(by_width))
  flags, right = np.stack([by_width[width] for width in widths]), clean.result.examples["correct"]
  curve = Curve(widths, low_pass_curve(flags, right))
  return {"low-pass": {"unit": "bandwidth", "frequency bias": frequency_bias(widths, flags, right), **curve.plain()}}
