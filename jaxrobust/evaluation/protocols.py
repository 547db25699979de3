"""The attack protocols of the published benchmarks, as suites: `make_suite("robustart-large")`.

Sets of attacks on whatever data is given; the benchmarks with data of their own are in `evaluation.benchmarks`.

RobustART (paper 000, appendix E.3, and its code): nine attacks at three budgets. l1 100/400/1600, l2 0.5/2/8,
  linf 0.5/2/8 over 255; PGD and MIM 20 steps of 3/40 eps, DDN 10 steps, C&W 5 searches of 100 steps of 0.001. The
  ninth, transfer, needs a source network and belongs to the transfer suites.
ARES (paper 001, appendix B): linf 8/255, l2 1.0; BIM and MIM 20 steps of 0.15 eps, DeepFool 100, C&W 100 steps.
ARES-Bench (paper 003, appendix A): FGSM, PGD-100 (steps of 1/255) and AutoAttack, linf 4/255.
OODRobustBench (paper 002): MM5 at the budget given (8/255 on CIFAR-10, 4/255 on ImageNet, l2 0.5).
NAS robustness data (paper 004, §3.2): linf; FGSM at 11 budgets; PGD-40 of 1/30 eps, APGD-CE-100 and Square-5000 at 7.
RobustBench: AutoAttack standard.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from jaxrobust.core.threat import Budget
from jaxrobust.evaluation.suites import SUITES, Entry, attack_entry, clean_entry

ROBUSTART = {
  "small": ("0.5/255", "0.5", "100"),
  "middle": ("2/255", "2", "400"),
  "large": ("8/255", "8", "1600"),
}
NAS_FGSM = ("0.1/255", "0.5/255", *(f"{eps}/255" for eps in range(1, 9)), "255/255")
NAS_OTHER = ("0.1/255", "0.5/255", "1/255", "2/255", "3/255", "4/255", "8/255")


def robustart_attacks(size: str) -> list[Entry]:
  """Clean accuracy and RobustART's attacks at one of its three budgets."""
  linf, l2, l1 = ROBUSTART[size]
  steps: dict[str, Any] = {"num_steps": 20, "step_size": 3 / 40}
  return [
    clean_entry(),
    attack_entry("fgsm", linf),
    attack_entry("pgd", linf, **steps),
    attack_entry("mim", linf, **steps),
    attack_entry("pgd", l2, norm="l2", **steps),
    attack_entry("pgd", l1, norm="l1", **steps),
    attack_entry("ddn", l2, num_steps=10),
    attack_entry("cw", l2, binary_search_steps=5, steps=100, step_size=0.001),
    attack_entry("autoattack", linf),
  ]


def _robustart(size: str) -> Callable[[str, Budget], list[Entry]]:
  def suite(norm: str, eps: Budget) -> list[Entry]:
    del norm, eps  # They are the protocol's own.
    return robustart_attacks(size)

  suite.__doc__ = f"RobustART's attacks at its {size} budgets."
  return suite


for _size in ROBUSTART:
  SUITES.register(f"robustart-{_size}")(_robustart(_size))


@SUITES.register("ares-attacks")
def ares(norm: str, eps: Budget) -> list[Entry]:
  """ARES' white-box attacks in one norm; its own budgets are linf 8/255 and l2 1.0."""
  steps: dict[str, Any] = {"norm": norm, "num_steps": 20, "step_size": 0.15}
  entries = [
    clean_entry(),
    attack_entry("fgsm", eps, norm=norm),
    attack_entry("bim", eps, **steps),
    attack_entry("mim", eps, **steps),
    attack_entry("deepfool", eps, norm=norm, num_steps=100),
  ]
  return entries if norm == "linf" else [*entries, attack_entry("cw", eps, norm=norm, steps=100)]


@SUITES.register("ares-bench-attacks")
def ares_bench(norm: str, eps: Budget) -> list[Entry]:
  """FGSM, PGD-100 and AutoAttack, as in ARES-Bench (linf 4/255)."""
  return [
    clean_entry(),
    attack_entry("fgsm", eps, norm=norm),
    attack_entry("pgd", eps, norm=norm, num_steps=100, step_size=1 / 4),
    attack_entry("autoattack", eps, norm=norm),
  ]


@SUITES.register("oodrb-attack")
def oodrb(norm: str, eps: Budget) -> list[Entry]:
  """MM5, OODRobustBench's attack, at the budget given."""
  return [clean_entry(), attack_entry("mm5", eps, norm=norm)]


@SUITES.register("nas-attacks")
def nas(norm: str, eps: Budget) -> list[Entry]:
  """FGSM, PGD-40, APGD-CE and Square at all budgets of the NAS robustness data (linf)."""
  del norm, eps
  return [
    clean_entry(),
    *(attack_entry("fgsm", budget) for budget in NAS_FGSM),
    *(attack_entry("pgd", budget, num_steps=40, step_size=0.01 / 0.3) for budget in NAS_OTHER),
    *(attack_entry("apgd-ce", budget) for budget in NAS_OTHER),
    *(attack_entry("square", budget) for budget in NAS_OTHER),
  ]


@SUITES.register("robustbench")
def robustbench(norm: str, eps: Budget) -> list[Entry]:
  """Clean accuracy and AutoAttack standard."""
  return [clean_entry(), attack_entry("autoattack", eps, norm=norm)]


@SUITES.register("main")
def main(norm: str, eps: Budget) -> list[Entry]:
  """Clean accuracy, FGSM, PGD-20, MM5, and AutoAttack on the first 100 examples: the main job."""
  autoattack = attack_entry("autoattack", eps, norm=norm)
  return [
    clean_entry(),
    attack_entry("fgsm", eps, norm=norm),
    attack_entry("pgd", eps, norm=norm, num_steps=20),
    attack_entry("mm5", eps, norm=norm),
    dataclasses.replace(autoattack, first=100),
  ]
