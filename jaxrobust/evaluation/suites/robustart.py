"""RobustART (Tang et al. 2021, arXiv:2109.05211): adversarial, natural and system noise.

Adversarial: eight attacks at small, middle and large budgets (AR each, WCAR over all of one size); appendix E.3 and the
authors' code: l1 100/400/1600, l2 0.5/2/8, linf 0.5/2/8 over 255; PGD and MIM 20 steps of 3/40 eps, DDN 10 steps, C&W 5
searches of 100 steps of 0.001. `robustart-small`, `-middle` and `-large` are these attacks alone. The budgets are
those of 224 pixels; on other sizes only `robustart,scaled` is run, whose l2 grows with the root of the number of pixels
and whose l1 with the number itself. All examples of every set.
Natural: corruptions (1 - mCE, or the mean accuracy where there is no AlexNet), perturbation sequences (NmFP), the
hard set (accuracy among its own classes), outliers (AUPR, beside the validation images of the same classes). System:
the same files through every decoder and resize (NSD; the paper prints it in points, 100 times the fraction stored
here). Appendix E.3.3 changes one of the two at a time, while the other is Pillow's or bilinear: "NSD, one factor". The
paper's own "1 - mCE" (41.4 for ResNet-50, where ARES-Bench has 23.3) looks like the mean accuracy instead, which is
given too.

The ninth attack is FGSM by transfer at the same budgets (figures 3, 16 and 17), from the network that `--source` names;
the paper does not say whose images enter its WCAR. Without a source WCAR is over eight of nine attacks, and says so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from jaxrobust.core.errors import InputError
from jaxrobust.evaluation.metrics.adversarial import worst_case
from jaxrobust.evaluation.metrics.flips import negative_mean_flip_probability
from jaxrobust.evaluation.metrics.outliers import area_under_roc, average_precision
from jaxrobust.evaluation.metrics.proportions import proportion
from jaxrobust.evaluation.metrics.stability import negative_standard_deviation
from jaxrobust.evaluation.suites.entry import SuiteEntry, attack_entry, clean_entry, transferred
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
SIDE = 224
SMALL_SEQUENCES = ("brightness", "translate")
SMALL_RESIZES = ("pil-bilinear", "pil-nearest")


def _budgets(size: str, setting: Setting) -> tuple[str, str, str]:
  """Returns the budgets of a size, for images of 224 pixels or scaled to theirs."""
  linf, l2, l1 = BUDGETS[size]
  side = setting.pixels or SIDE
  if side == SIDE or (side > 96 and not setting.scaled):
    return linf, l2, l1
  if not setting.scaled:
    raise InputError(
      f"RobustART's budgets are for {SIDE} pixels and break everything at {side}: run robustart,scaled (l1, l2 by size)"
    )
  return linf, f"{float(l2) * side / SIDE:.4g}", f"{float(l1) * side**2 / SIDE**2:.4g}"


def _attacks(size: str, setting: Setting) -> list[SuiteEntry]:
  (linf, l2, l1), small = _budgets(size, setting), setting.small
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


def _adversarial(size: str, setting: Setting) -> Part:
  """Returns all attacks of a size, the one by transfer among them where there is a source for it."""
  attacks = _attacks(size, setting)
  moved = [transferred(attack_entry("fgsm", _budgets(size, setting)[0]), setting.source)] if setting.source else []
  return Part(setting.data, "none", (*attacks, *moved), f"adversarial-{size}", of=len(attacks) + 1)


def _attacks_alone(size: str) -> Callable[[Setting], Suite]:
  def suite(setting: Setting) -> Suite:
    suite = attack_set(setting, [clean_entry(), *_attacks(size, setting)])
    return replace(suite, fixes=("norm", "eps"), instead="basic")

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
    *(_adversarial(size, setting) for size in BUDGETS),
    *corrupted(setting, clean),
    *sequences(setting, SMALL_SEQUENCES if setting.small else SEQUENCES, clean),
  ]
  if base in HARD:
    parts.append(Part(HARD[base], "none", clean, "hard"))
  if base in OUTLIERS:
    outliers, inliers = OUTLIERS[base]
    parts += [Part(outliers, "none", clean, "outlier"), Part(inliers, "none", clean, "inlier")]
  if base in ENCODED:
    parts += [
      Part(ENCODED[base], f"system-{decoder}-{resize}", clean, "system") for decoder in decoders for resize in system
    ]
  notes = ("ImageNet-A and -O are judged among their own 200 classes", "the ninth attack, FGSM by transfer: --source")
  return Suite(tuple(parts), _metrics, fixes=("norm", "eps"), instead="basic", notes=notes)


def _one_factor(part: Part) -> bool:
  """Tells whether a picture's decoder or resize is the usual one."""
  decoder, _, resize = part.condition.removeprefix("system-").partition("-")
  return decoder == "pil" or resize == "pil-bilinear"


def _metrics(report: Report) -> Summary:
  """Returns clean accuracy, AR of each attack, WCAR of each size, corruptions, NmFP, hard accuracy, AUPR, NSD."""
  clean = report.one("id", False)
  metrics: Summary = {"clean accuracy": None if clean is None else clean.accuracy.plain()}
  tables: Summary = {}
  for size, attacks in report.groups("adversarial-"):
    tables[f"AR, {size}"] = {cell.entry.title: cell.robustness.plain() for cell in attacks}
    correct = attacks[0].result.examples["correct"]
    standing = worst_case([cell.result.examples["robust"] for cell in attacks])
    worst = proportion(standing[correct]).plain() if correct.any() else None
    whole = len(attacks) == report.suite.expected(f"adversarial-{size}")
    metrics[f"WCAR, {size}"] = (
      worst if whole else report.counted(worst["value"] if worst else None, f"adversarial-{size}")
    )
  if noisy := report.group("corruption"):
    tables["corruptions"] = corruption_metrics(noisy, clean)
    metrics["corruption accuracy"] = report.mean("corruption", False)
    metrics["1 - mCE"] = tables["corruptions"].get("1 - mCE")
  flips = {sequence_of(cell.part): cell.result.summary["flip_probability"] for cell in report.group("sequence")}
  if flips:
    tables["flip probability"] = flips
    metrics["NmFP"] = report.counted(negative_mean_flip_probability(flips), "sequence")
  hard, outlier, inlier = (report.one(group, False) for group in ("hard", "outlier", "inlier"))
  metrics["hard accuracy"] = None if hard is None else hard.accuracy.plain()
  if inlier is not None and outlier is not None:
    scores = [-cell.result.examples["confidence"].astype(np.float64) for cell in (inlier, outlier)]
    metrics["AUPR"], metrics["AUROC"] = average_precision(*scores), area_under_roc(*scores)
    tables["outliers"] = {"inliers": len(scores[0]), "outliers": len(scores[1])}
  system = report.group("system")
  if system:
    tables["system noise"] = {cell.part.condition.removeprefix("system-"): cell.accuracy.plain() for cell in system}
    for name, chosen in (("NSD", lambda part: True), ("NSD, one factor", _one_factor)):
      shares = np.array([cell.accuracy.value for cell in system if chosen(cell.part)])
      spread = negative_standard_deviation(shares) if len(shares) else None
      metrics[name] = report.counted(spread, "system", chosen=chosen)
  return {"metrics": metrics, "tables": tables}
