"""ARES (Dong et al. 2020, arXiv:1912.11852): two curves for each attack, untargeted and targeted, in linf and l2.

Accuracy against budget: distances of minimal attacks (DeepFool, C&W) or of a minimum-budget search around a budget
attack (FGSM, BIM, MIM): one run serves every eps. Accuracy against strength: one run at the paper's budget (linf 8/255,
l2 1.0), where each example says after how many steps or queries it broke. Parameters: appendix B; targets are random.

Black-box attacks of the paper (`nes spsa nattack zoo boundary evolutionary dim`) join where they are registered;
`square` stands for score-based attacks until then. Transfer needs a source network: `jaxrobust transfer`.
"""

from __future__ import annotations

from typing import Any

from jaxrobust.attacks.minimum_budget import MinimumBudget
from jaxrobust.attacks.registry import ATTACKS, make_attack
from jaxrobust.evaluation.plan import BENCHMARKS, Part, Setting
from jaxrobust.evaluation.suites import Entry, attack_entry, clean_entry, entry_of, targeted

STRENGTH_EPS = {"linf": "8/255", "l2": "1.0"}
STEP = 0.15
QUERIES = 20_000
_SCORE = ("square", "nes", "spsa", "nattack")
_DECISION = ("boundary", "evolutionary")


def _iterative(norm: str, small: bool) -> list[Any]:
  """FGSM, BIM and MIM as the paper sets them."""
  steps: dict[str, Any] = {"num_steps": 6 if small else 20, "step_size": 0.3 if small else STEP, "norm": norm}
  return [make_attack("fgsm", norm=norm), make_attack("bim", **steps), make_attack("mim", **steps)]


def _budget_curves(norm: str, small: bool) -> list[Entry]:
  searches = [entry_of(MinimumBudget(attack, max_items=5 if small else 15)) for attack in _iterative(norm, small)]
  if small:
    return searches[1:2]
  goals = [*searches, *map(targeted, searches), attack_entry("deepfool", norm=norm, num_steps=100)]
  if norm != "l2":
    return goals
  cw = attack_entry("cw", norm=norm, steps=100)
  decision = [attack_entry(name, norm=norm) for name in _DECISION if name in ATTACKS]
  return [*goals, cw, targeted(cw), *decision]


def _strength_curves(norm: str, small: bool) -> list[Entry]:
  eps = STRENGTH_EPS[norm]
  iterative = [entry_of(attack, eps) for attack in _iterative(norm, small)[1:]]
  score = [attack_entry(name, eps, norm=norm, num_steps=20 if small else QUERIES) for name in _SCORE if name in ATTACKS]
  if small:
    return [iterative[0], targeted(iterative[0]), *score[:1]]
  return [*iterative, *map(targeted, iterative), *score]


@BENCHMARKS.register("ares")
def ares(setting: Setting) -> list[Part]:
  """ARES: accuracy against budget and against strength, untargeted and targeted, linf and l2."""
  parts = [Part(setting.data, "none", (clean_entry(),), "id")]
  for norm in ("linf", "l2"):
    parts.append(Part(setting.data, "none", tuple(_budget_curves(norm, setting.small)), f"budget-{norm}"))
    parts.append(Part(setting.data, "none", tuple(_strength_curves(norm, setting.small)), f"strength-{norm}"))
  return parts
