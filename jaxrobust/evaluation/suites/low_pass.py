"""How low a frequency suffices: low-pass filtered images as parts of a suite, and what their cells say (ARES-Bench).

Source: Liu et al. 2023 (arXiv:2302.14301), Eq. 4. Known deviations: the mask is a square (the paper does not say), and
cutoffs are tried on a grid of 2 (1 on small images).
"""

from __future__ import annotations

import numpy as np

from jaxrobust.evaluation.metrics.curves import Curve
from jaxrobust.evaluation.metrics.stability import frequency_bias, low_pass_curve
from jaxrobust.evaluation.suites.entry import SuiteEntry, clean_entry
from jaxrobust.evaluation.suites.report import Metric, Report
from jaxrobust.evaluation.suites.suite import Part, Setting, Summary

BIAS, UNIT = "frequency bias", "cycles per image"
UNFILTERED, FILTER = "unfiltered", "filter"


def cutoffs(setting: Setting) -> tuple[int, ...]:
  """Returns the cutoff frequencies that are tried, in cycles per image."""
  side = setting.pixels or 224
  step = (2 if side >= 96 else 1) * (4 if setting.small else 1)
  return tuple(range(step, side // 2 + 1, step))


def low_pass_parts(setting: Setting, n: int, unfiltered: SuiteEntry | None = None) -> tuple[Part, ...]:
  """Returns a part for the images as they are and one for each cutoff, of n examples; `unfiltered` is asked there."""
  clean = clean_entry()
  return (
    Part(setting.data, "none", (unfiltered or clean,), UNFILTERED, n),
    *(Part(setting.data, f"cutoff-{cutoff}", (clean,), FILTER, n) for cutoff in cutoffs(setting)),
  )


def low_pass_curves(report: Report) -> Summary:
  """Returns accuracy over the cutoff of a low-pass filter, relative to the clean accuracy, and the frequency bias."""
  clean, filtered = report.one(UNFILTERED, False), report.group(FILTER, False)
  if clean is None or not filtered or not clean.result.examples["correct"].any():
    return {}
  by_cutoff = {int(cell.part.condition.split("-")[1]): cell.result.examples["correct"] for cell in filtered}
  radii = np.array(sorted(by_cutoff))
  flags, right = np.stack([by_cutoff[radius] for radius in radii]), clean.result.examples["correct"]
  curve = Curve(radii, low_pass_curve(flags, right))
  return {"low-pass": {"unit": "cutoff", BIAS: frequency_bias(radii, flags, right), **curve.plain()}}


def bias_of(report: Report, curves: Summary) -> Metric:
  """Returns the frequency bias among the curves of `low_pass_curves`, marked where cutoffs are missing."""
  return report.counted(curves["low-pass"][BIAS] if "low-pass" in curves else None, FILTER)
