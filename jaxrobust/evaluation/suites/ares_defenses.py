"""ARES' defenses × attacks (Dong et al. 2020, arXiv:1912.11852), one row per model: untargeted, at the paper's budgets.

  white-box  FGSM, BIM and MIM in linf and l2 (20 steps of 0.15 eps), DeepFool and C&W in l2
  score      NES, SPSA and NATTACK in linf and l2, 20,000 queries
  decision   Boundary and Evolutionary in l2, 20,000 queries
  transfer   of a defended model: FGSM, BIM, MIM and DIM on the network inside, 10 steps of 0.15 eps, in linf and l2
  naive      BIM along the defense's own gradient of one draw, where that is not the adaptive one

Run on several models (`--model`, `--defense`) the cells make up the paper's matrix, and the page shows it: adaptive
attacks rank models, the last two groups stand apart. Curves are the suite `ares`; images of another network
`jaxrobust transfer --suite=ares`. Known deviations: the paper's substitute is an adversarially trained network.
"""

from __future__ import annotations

from typing import Any

from jaxrobust.evaluation.metrics.proportions import proportion
from jaxrobust.evaluation.suites.ares import QUERIES, STEP, protocol
from jaxrobust.evaluation.suites.entry import SuiteEntry, attack_entry, clean_entry, oblivious
from jaxrobust.evaluation.suites.report import Report
from jaxrobust.evaluation.suites.suite import SUITES, Part, Setting, Suite, Summary

NORMS = ("linf", "l2")
SMALL_QUERIES = 420
# The groups whose attacks know the model.
ADAPTIVE = ("white-box", "score", "decision")


def _iterative(names: tuple[str, ...], eps: dict[str, str], steps: int) -> list[SuiteEntry]:
  """Returns attacks by gradients in both norms."""
  found = []
  for norm in NORMS:
    for name in names:
      more: dict[str, Any] = {} if name == "fgsm" else {"num_steps": steps, "step_size": STEP}
      found.append(attack_entry(name, eps[norm], norm=norm, **more))
  return found


def _groups(setting: Setting) -> dict[str, list[SuiteEntry]]:
  eps = protocol(setting).eps
  steps, transfer = (4, 3) if setting.small else (20, 10)
  queries = setting.queries or (SMALL_QUERIES if setting.small else QUERIES)
  score = [attack_entry(name, eps[norm], norm=norm, queries=queries) for norm in NORMS for name in _score(setting)]
  white = _iterative(("fgsm", "bim", "mim"), eps, steps)
  white += [
    attack_entry("deepfool", eps["l2"], norm="l2", num_steps=5 if setting.small else 100),
    *([] if setting.small else [attack_entry("cw", eps["l2"], norm="l2", steps=100)]),
  ]
  decision = ("boundary",) if setting.small else ("boundary", "evolutionary")
  found = {
    "clean": [clean_entry()],
    "white-box": white,
    "score": score,
    "decision": [attack_entry(name, eps["l2"], norm="l2", queries=queries) for name in decision],
  }
  if "images" in setting.ignorable:
    made = _iterative(("fgsm", "bim", "mim", "dim"), eps, transfer)
    found["transfer"] = [oblivious(entry, "images") for entry in made]
  if "gradient" in setting.ignorable:
    found["naive"] = [oblivious(entry, "gradient") for entry in _iterative(("bim",), eps, steps)]
  return found


def _score(setting: Setting) -> tuple[str, ...]:
  return ("nes",) if setting.small else ("nes", "spsa", "nattack")


@SUITES.register("ares-defenses")
def ares_defenses(setting: Setting) -> Suite:
  """ARES' attacks on one, perhaps defended, model at the paper's budgets: a row of its defense × attack matrix."""
  most = protocol(setting).n
  parts = tuple(Part(setting.data, "none", tuple(entries), group, most) for group, entries in _groups(setting).items())
  notes = ("groups transfer and naive ignore the defense: they stand apart and rank nothing",)
  return Suite(parts, _metrics, fixes=("norm", "eps"), instead="basic", numbers=("queries",), notes=notes)


def _metrics(report: Report) -> Summary:
  """Returns the accuracy under each attack, and the share of examples that no adaptive attack of a norm broke."""
  metrics: Summary = {}
  tables: Summary = {}
  for group in ("clean", *ADAPTIVE, "transfer", "naive"):
    cells = report.group(group)
    metrics |= {cell.entry.title: cell.accuracy.plain() for cell in cells}
    if cells:
      tables[group] = {cell.entry.title: cell.accuracy.plain() for cell in cells}
  for norm in NORMS:
    stands = None
    for group in ADAPTIVE:
      for cell in report.group(group):
        if cell.entry.attack.startswith(f"{norm}-"):
          flags = cell.result.examples["robust"]
          stands = flags if stands is None else stands & flags
    if stands is not None:
      metrics[f"worst of all adaptive attacks, {norm}"] = proportion(stands).plain()
  return {"metrics": metrics, "tables": tables}
