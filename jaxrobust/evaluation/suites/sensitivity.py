"""What a classifier listens to: the norm of its Jacobian, that of its loss gradient, its frequency bias.

None of them is an accuracy, and none is good or bad: they are columns to set beside robustness, as `jaxrobust trends
--show correlations` does. On 1,000 images by default. The Jacobian is exact up to 16 classes and takes 16 random
projections beyond (`evaluation.measures`); the NAS robustness data has it among its measures (arXiv:2306.06712, from
arXiv:1908.02729), of normalized images. Low-pass filters are ARES-Bench's (`suites.low_pass`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from jaxrobust.evaluation.measures import GRADIENT, JACOBIAN
from jaxrobust.evaluation.metrics.means import mean_interval
from jaxrobust.evaluation.suites.entry import clean_entry
from jaxrobust.evaluation.suites.low_pass import BIAS, UNFILTERED, UNIT, bias_of, low_pass_curves, low_pass_parts
from jaxrobust.evaluation.suites.report import Metric, Report
from jaxrobust.evaluation.suites.suite import SUITES, Setting, Suite, Summary

N = 1_000
# Metric -> the measure that it is the mean of, and its unit.
MEASURED = {
  "Jacobian norm": (f"{JACOBIAN}16", "logits per unit of image"),
  "gradient norm": (GRADIENT, "nats per unit of linf"),
}


@SUITES.register("sensitivity")
def sensitivity(setting: Setting) -> Suite:
  """Norms of the Jacobian and of the loss gradient, and the frequency bias: what robustness is correlated with."""
  measured = replace(clean_entry(), measures=tuple(name for name, _ in MEASURED.values()))
  return Suite(low_pass_parts(setting, N, measured), _metrics, fixes=("norm", "eps"), instead="basic")


def _metrics(report: Report) -> Summary:
  """Returns accuracy, mean measures with their intervals, and the frequency bias."""
  cell = report.one(UNFILTERED, False)
  metrics: Summary = {"accuracy": None if cell is None else cell.accuracy.plain()}
  for name, (measure, _) in MEASURED.items():
    metrics[name] = None if cell is None else _mean(cell.result.examples[measure])
  curves = low_pass_curves(report)
  metrics[BIAS] = bias_of(report, curves)
  units = {name: unit for name, (_, unit) in MEASURED.items()} | {BIAS: UNIT}
  return {"metrics": metrics, "curves": curves, "units": units}


def _mean(values: np.ndarray) -> Metric:
  """Returns the mean over the images with a finite value, and how many these are."""
  known = values[np.isfinite(values)]
  return mean_interval(known)._asdict() if len(known) else None
