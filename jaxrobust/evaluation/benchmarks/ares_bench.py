"""ARES-Bench (Liu et al. 2023, arXiv:2302.14301): natural relatives, AutoAttack over budgets, frequency bias.

Natural: accuracy on the relatives and under corruptions. Adversarial: FGSM, PGD-100 and AutoAttack at 4/255 (the budget
given), and AutoAttack over budgets. Frequency: accuracy after low-pass filters of rising bandwidth.

Known deviations: the paper bisects AutoAttack's budget for each example; here it is run at a list of budgets, each a
number of its own that other papers report too. PGD's step of 1/255 is a quarter of the budget. An image of
ImageNet-ReaL counts as right where its first acceptable class is predicted, not any of them.
"""

from __future__ import annotations

from typing import Any

from jaxrobust.core.threat import Budget
from jaxrobust.evaluation.benchmarks.relatives import ARES_BENCH, corrupted, naturals
from jaxrobust.evaluation.plan import BENCHMARKS, Part, Setting
from jaxrobust.evaluation.protocols import ares_bench as attacks
from jaxrobust.evaluation.suites import Entry, attack_entry, clean_entry

# Of the budget given: 0.5/255 to 8/255 for 4/255.
CURVE = ("1/8", "1/4", "1/2", "1", "3/2", "2")
BANDWIDTHS = {"imagenet": (1, 2, 4, 8, 16, 32, 48, 64, 96, 128, 160, 192, 224)}
BANDWIDTHS_SMALL_IMAGES = (1, 2, 4, 6, 8, 12, 16, 20, 24, 28, 32)


def _budget(eps: Budget, factor: str) -> Budget:
  """A multiple of a budget, written as such: 1/2 of 4/255 is 2/255.

  >>> _budget(Budget("4/255"), "1/8").text, _budget(Budget("0.5"), "3/2").text
  ('0.5/255', '0.75')
  """
  top, _, bottom = eps.text.partition("/")
  times, _, part = factor.partition("/")
  return Budget.parse(f"{float(top) * float(times) / float(part or 1):g}" + (f"/{bottom}" if bottom else ""))


def _attacks(setting: Setting) -> list[Entry]:
  eps, norm = setting.eps, setting.norm
  if setting.small:
    quick: dict[str, Any] = {"norm": norm, "num_steps": 4, "queries": 20}
    return [
      attack_entry("fgsm", eps, norm=norm),
      attack_entry("pgd", eps, norm=norm, num_steps=6, step_size=1 / 4),
      *(attack_entry("autoattack", _budget(eps, factor), **quick) for factor in ("1/2", "1")),
    ]
  table = [entry for entry in attacks(norm, eps) if entry.attack != "none"]
  others = [factor for factor in CURVE if factor != "1"]
  return [*table, *(attack_entry("autoattack", _budget(eps, factor), norm=norm) for factor in others)]


@BENCHMARKS.register("ares-bench")
def ares_bench(setting: Setting) -> list[Part]:
  """ARES-Bench: relatives, corruptions, FGSM, PGD-100 and AutoAttack, AutoAttack over budgets, low-pass filters."""
  clean = (clean_entry(),)
  bandwidths = BANDWIDTHS.get(setting.base, BANDWIDTHS_SMALL_IMAGES)
  return [
    Part(setting.data, "none", clean, "id"),
    *naturals(setting, ARES_BENCH, clean),
    *corrupted(setting, clean),
    Part(setting.data, "none", tuple(_attacks(setting)), "adversarial"),
    *(
      Part(setting.data, f"lowpass-{bandwidth}", clean, "filter")
      for bandwidth in (bandwidths[1::3] if setting.small else bandwidths)
    ),
  ]
