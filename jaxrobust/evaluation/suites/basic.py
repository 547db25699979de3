"""Suites that are sets of attacks on whatever data is given: clean, basic, main, audit, cascade, and RobustBench's."""

from __future__ import annotations

from dataclasses import replace

from jaxrobust.attacks.audit import audit_of
from jaxrobust.attacks.by_yield import ByYield
from jaxrobust.attacks.cascade_text import parse_cascade
from jaxrobust.attacks.registry import make_attack
from jaxrobust.core.errors import InputError
from jaxrobust.core.registry import unknown_name
from jaxrobust.evaluation.suites.entry import attack_entry, clean_entry, entry_of
from jaxrobust.evaluation.suites.suite import SUITES, USUAL_EPS, Setting, Suite, attack_set
from jaxrobust.evaluation.suites.summary import attack_metrics


@SUITES.register("clean")
def clean(setting: Setting) -> Suite:
  """Clean accuracy alone."""
  return attack_set(setting, [clean_entry()])


@SUITES.register("basic")
def basic(setting: Setting) -> Suite:
  """Clean accuracy, FGSM and PGD-20."""
  norm, eps = setting.norm, setting.eps
  entries = [clean_entry(), attack_entry("fgsm", eps, norm=norm), attack_entry("pgd", eps, norm=norm, num_steps=20)]
  return attack_set(setting, entries)


@SUITES.register("main")
def main(setting: Setting) -> Suite:
  """Clean accuracy, FGSM, PGD-20, MM5, and AutoAttack on the first 100 examples: the main job."""
  norm, eps = setting.norm, setting.eps
  entries = [
    clean_entry(),
    attack_entry("fgsm", eps, norm=norm),
    attack_entry("pgd", eps, norm=norm, num_steps=20),
    attack_entry("mm5", eps, norm=norm),
    replace(attack_entry("autoattack", eps, norm=norm), first=100),
  ]
  return attack_set(setting, entries)


@SUITES.register("audit")
def audit(setting: Setting) -> Suite:
  """Clean accuracy, and that under AutoAttack from a sample of what MM5 leaves standing, to ± 0.5 points."""
  wanted = setting.audit
  cheap, full = (make_attack(name, norm=setting.norm) for name in (wanted.cheap, wanted.full))
  audited = entry_of(audit_of(cheap, full, wanted.width, wanted.evaluations), setting.eps)
  return attack_set(setting, [clean_entry(), audited])


@SUITES.register("cascade")
def cascade(setting: Setting) -> Suite:
  """Clean accuracy, and that under a cascade of your own, perhaps in the order of measured yield."""
  wanted = setting.cascade
  if wanted.order not in ("", "yield"):
    raise unknown_name("order of a cascade", wanted.order, ["yield"])
  stages = parse_cascade(wanted.stages, setting.norm)
  schedule, threat = ByYield(stages, wanted.pilot) if wanted.order else stages, stages.stages[0].attack.threat.name
  if threat not in USUAL_EPS and "norm" in setting.given:
    raise InputError(f"{threat} is no norm: leave --norm out")
  if threat not in USUAL_EPS and "eps" not in setting.given:
    raise InputError(f"{threat} has no usual budget: pass --eps")
  return attack_set(setting, [clean_entry(), entry_of(schedule, setting.eps)])


@SUITES.register("robustbench")
def robustbench(setting: Setting) -> Suite:
  """Clean accuracy and AutoAttack standard."""
  return attack_set(
    setting, [clean_entry(), attack_entry("autoattack", setting.eps, norm=setting.norm)], attack_metrics
  )
