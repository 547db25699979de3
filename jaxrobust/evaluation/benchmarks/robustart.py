"""RobustART (Tang et al. 2021, arXiv:2109.05211): adversarial, natural and system noise.

Adversarial: eight attacks at small, middle and large budgets (`protocols`; AR each, WCAR over all of one size).
Natural: corruptions (1 - mCE, or the mean accuracy where there is no AlexNet), perturbation sequences (NmFP), the
hard relative (accuracy), outliers (AUPR). System: the same files through every decoder and resize (NSD).

The ninth attack, transfer, needs a source network: `jaxrobust transfer`.
"""

from __future__ import annotations

from typing import Any

from jaxrobust.evaluation.benchmarks.relatives import ENCODED, HARD, OUTLIERS, corrupted
from jaxrobust.evaluation.plan import BENCHMARKS, Part, Setting
from jaxrobust.evaluation.protocols import ROBUSTART, robustart_attacks
from jaxrobust.evaluation.suites import Entry, attack_entry, clean_entry
from jaxrobust.noises.sequences import BENCHMARK as SEQUENCES
from jaxrobust.noises.system import DECODERS, RESIZES

SMALL_SEQUENCES = ("brightness", "translate")
SMALL_RESIZES = ("pil-bilinear", "pil-nearest")


def _attacks(setting: Setting, size: str) -> list[Entry]:
  if not setting.small:
    return [entry for entry in robustart_attacks(size) if entry.attack != "none"]
  linf, l2, l1 = ROBUSTART[size]
  steps: dict[str, Any] = {"num_steps": 4, "step_size": 0.3}
  return [
    attack_entry("fgsm", linf),
    attack_entry("pgd", linf, **steps),
    attack_entry("pgd", l2, norm="l2", **steps),
    attack_entry("pgd", l1, norm="l1", **steps),
  ]


@BENCHMARKS.register("robustart")
def robustart(setting: Setting) -> list[Part]:
  """RobustART: attacks at three budgets, corruptions, sequences, hard examples, outliers, decoders and resizes."""
  clean = (clean_entry(),)
  base = setting.base
  system = SMALL_RESIZES if setting.small else tuple(RESIZES)
  decoders = ("pil",) if setting.small else tuple(DECODERS)
  parts = [
    Part(setting.data, "none", clean, "id"),
    *(Part(setting.data, "none", tuple(_attacks(setting, size)), f"adversarial-{size}") for size in ROBUSTART),
    *corrupted(setting, clean),
    *(
      Part(setting.data, f"sequence-{name}", clean, "sequence")
      for name in (SMALL_SEQUENCES if setting.small else SEQUENCES)
    ),
  ]
  if base in HARD:
    parts.append(Part(HARD[base], "none", clean, "hard"))
  if base in OUTLIERS:
    parts.append(Part(OUTLIERS[base], "none", clean, "outlier"))
  if base in ENCODED:
    parts += [
      Part(ENCODED[base], f"system-{decoder}-{resize}", clean, "system") for decoder in decoders for resize in system
    ]
  return parts
