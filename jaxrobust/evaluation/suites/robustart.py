"""RobustART (Tang et al. 2021, arXiv:2109.05211): adversarial, natural and system noise.

Adversarial: eight attacks at small, middle and large budgets (AR each, WCAR over all of one size); appendix E.3 and the
authors' code: l1 100/400/1600, l2 0.5/2/8, linf 0.5/2/8 over 255; PGD and MIM 20 steps of 3/40 eps, DDN 10 steps, C&W 5
searches of 100 steps of 0.001. `robustart-small`, `-middle` and `-large` are these attacks alone, on any data.
Natural: corruptions (1 - mCE, or the mean accuracy where there is no AlexNet), perturbation sequences (NmFP), the
hard set (accuracy), outliers (AUPR). System: the same files through every decoder and resize (NSD).

The ninth attack, transfer, needs a source network: `jaxrobust transfer`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jaxrobust.evaluation.metrics.adversarial import worst_case
from jaxrobust.evaluation.metrics.flips import negative_mean_flip_probability
from jaxrobust.evaluation.metrics.outliers import area_under_roc, average_precision
from jaxrobust.evaluation.metrics.proportions import proportion
from jaxrobust.evaluation.metrics.stability import negative_standard_deviation
from jaxrobust.evaluation.suites.entry import SuiteEntry, attack_entry, clean_entry
from jaxrobust.evaluation.suites.report import Report
from jaxrobust.evaluation.suites.shifted_datasets import ENCODED, HARD, OUTLIERS, corrupted, sequence_of, sequences
from jaxrobust.evaluation.suites.suite import SUITES, Part, Setting, Suite, Summary, attack_set
from jaxrobust.evaluation.suites.summary import corruption_metrics
from jaxrobust.noises.sequences import BENCHMARK as SEQUENCES
from jaxrobust.noises.system import DECODERS, RESIZES

# size -> linf, l2, l1.
BUDGETS = {
  "small": ("0.5/255", "0.5", "100"),
  "middle": ("2/255", "2", "400"),
  "large": ("8/255", "8", "1600"),
}
SMALL_SEQUENCES = ("brightness", "translate")
SMALL_RESIZES = ("pil-bilinear", "pil-nearest")


def _attacks(size: str, small: bool = False) -> list[SuiteEntry]:
  linf, l2, l1 = BUDGETS[size]
  steps: dict[str, Any] = {"num_steps": 4, "step_size": 0.3} if small else {"num_steps": 20, "step_size": 3 / 40}
  fgsm, pgd = attack_entry("fgsm", linf), attack_entry("pgd", linf, **steps)
  others = [attack_entry("pgd", l2, norm="l2", **steps), attack_entry("pgd", l1, norm="l1", **steps)]
  if small:
    return [fgsm, pgd, *others]
  return [
    fgsm,
    pgd,
    attack_entry("mim", linf, **steps),
    *others,
    attack_entry("ddn", l2, num_steps=10),
    attack_entry("cw", l2, binary_search_steps=5, steps=100, step_size=0.001),
    attack_entry("autoattack", linf),
  ]


def _attacks_alone(size: str) -> Callable[[Setting], Suite]:
  def suite(setting: Setting) -> Suite:
    return attack_set(setting, [clean_entry(), *_attacks(size)])

  suite.__doc__ = f"RobustART's attacks at its {size} budgets."
  return suite


for _size in BUDGETS:
  SUITES.register(f"robustart-{_size}")(_attacks_alone(_size))


@SUITES.register("robustart")
def robustart(setting: Setting) -> Suite:
  """RobustART: attacks at three budgets, corruptions, sequences, hard examples, outliers, decoders and resizes."""
  clean, base = (clean_entry(),), setting.base
  system = SMALL_RESIZES if setting.small else tuple(RESIZES)
  decoders = ("pil",) if setting.small else tuple(DECODERS)
  parts = [
    Part(setting.data, "none", clean, "id"),
    *(Part(setting.data, "none", tuple(_attacks(size, setting.small)), f"adversarial-{size}") for size in BUDGETS),
    *corrupted(setting, clean),
    *sequences(setting, SMALL_SEQUENCES if setting.small else SEQUENCES, clean),
  ]
  if base in HARD:
    parts.append(Part(HARD[base], "none", clean, "hard"))
  if base in OUTLIERS:
    parts.append(Part(OUTLIERS[base], "none", clean, "outlier"))
  if base in ENCODED:
    parts += [
      Part(ENCODED[base], f"system-{decoder}-{resize}", clean, "system") for decoder in decoders for resize in system
    ]
  return Suite(tuple(parts), _metrics)


def _metrics(report: Report) -> Summary:
  """Returns clean accuracy, AR of each attack, WCAR of each size, corruptions, NmFP, hard accuracy, AUPR, NSD."""
  clean = report.one("id", False)
  metrics: Summary = {"clean accuracy": None if clean is None else clean.accuracy.plain()}
  tables: Summary = {}
  for size, attacks in report.groups("adversarial-"):
    tables[f"AR, {size}"] = {cell.entry.title: cell.robustness.plain() for cell in attacks}
    correct = attacks[0].result.examples["correct"]
    standing = worst_case([cell.result.examples["robust"] for cell in attacks])
    metrics[f"WCAR, {size}"] = proportion(standing[correct]).plain() if correct.any() else None
  if noisy := report.group("corruption"):
    tables["corruptions"] = corruption_metrics(noisy, clean)
    metrics["corruption accuracy"] = tables["corruptions"]["mean accuracy"]
    metrics["1 - mCE"] = tables["corruptions"].get("1 - mCE")
  flips = {sequence_of(cell.part): cell.result.summary["flip_probability"] for cell in report.group("sequence")}
  if flips:
    tables["flip probability"] = flips
    metrics["NmFP"] = negative_mean_flip_probability(flips)
  hard, outlier = report.one("hard", False), report.one("outlier", False)
  metrics["hard accuracy"] = None if hard is None else hard.accuracy.plain()
  if clean is not None and outlier is not None:
    scores = [-cell.result.examples["confidence"].astype(np.float64) for cell in (clean, outlier)]
    metrics["AUPR"], metrics["AUROC"] = average_precision(*scores), area_under_roc(*scores)
  system = report.group("system")
  if system:
    tables["system noise"] = {cell.part.condition.removeprefix("system-"): cell.accuracy.plain() for cell in system}
    metrics["NSD"] = negative_standard_deviation(np.array([cell.accuracy.value for cell in system]))
  return {"metrics": metrics, "tables": tables}
