"""Cascades from stored cells: the greedy choice by hand, texts that run, unlike cells refused in a line."""

from __future__ import annotations

import json

import numpy as np
import pytest

from jaxrobust.analysis.cascade_cells import CellFilter, build_cascade
from jaxrobust.attacks.cascade_text import cascade_text, parse_cascade, stage_of
from jaxrobust.attacks.registry import ATTACKS, make_attack
from jaxrobust.attacks.schedule import Cascade, Stage
from jaxrobust.cli.main import main
from jaxrobust.core.errors import InputError, UnknownNameError
from jaxrobust.evaluation.metrics.cascades import cascade_cost, choose_stages, order_by_yield
from jaxrobust.evaluation.suites.entry import entry_of, schedule_config, threat_config
from jaxrobust.results import Cell, Result, save_result

WANTED = CellFilter("net", "images", "8/255")
FINGERPRINTS = {"model_fingerprint": "m", "data_fingerprint": "d", "precision": "highest", "samples": 1}


def stored(attack, broken, queries, eps="8/255", distance=None, **config) -> Result:
  """A cell of five examples of which the classifier has the first four right."""
  entry = entry_of(attack, eps)
  correct = np.array([True] * 4 + [False])
  flags = correct & ~np.array([*map(bool, broken), False])
  examples = {"correct": correct, "robust": flags, "queries": np.array([*queries, 0], np.int32)}
  if distance is not None:
    examples["distance"] = np.array([*distance, 0], np.float32)
  schedule = {"attack": schedule_config(entry.schedule), "threat": threat_config(entry.schedule)}
  cell = Cell(model="net", data="images", attack=entry.attack, eps=eps, n=5)
  return Result(cell=cell, config={**schedule, **FINGERPRINTS, **config}, summary={"robust": 1}, examples=examples,
                provenance={}, findings=[])  # fmt: skip


APGD = stored(make_attack("apgd-ce", num_steps=10), (1, 1, 0, 0), (10, 10, 10, 10))
MM = stored(make_attack("mm3"), (1, 1, 1, 0), (20, 20, 20, 60))
FAB = stored(make_attack("fab-t", num_steps=50), (0, 0, 0, 1), (50,) * 4, None, (9, 9, 9, 0.01))
POOR = stored(make_attack("fgsm"), (0, 0, 0, 0), (1,) * 4)


def test_the_greedy_choice_by_hand():
  # APGD-CE: 2 per 40 queries, MM3 3 per 120; then MM3 1 per 80, FAB-T 1 per 100; then FAB-T. FGSM breaks nothing.
  built, passed = build_cascade([POOR, FAB, MM, APGD], WANTED)
  assert [built.candidates[one.candidate].cell.attack for one in built.choices] == [
    "linf-apgd-ce-10", "linf-mm3", "linf-fab-t-50",
  ]  # fmt: skip
  assert [(one.standing, one.newly, one.cost) for one in built.choices] == [(4, 2, 120), (2, 1, 240), (1, 1, 150)]
  assert (built.n, built.correct, built.robust, built.standing, passed) == (5, 4, 0, 0, {})
  assert built.text == "apgd-ce,num_steps=10:mm,targets=3:fab-t,num_steps=50"
  stages = parse_cascade(built.text).stages
  assert stages == (Stage(make_attack("apgd-ce", num_steps=10)), *make_attack("mm3").stages,
                    Stage(make_attack("fab-t", num_steps=50)))  # fmt: skip
  # An example that stands takes 30 passes of APGD-CE and 180 of MM3.
  assert [one.newly for one in build_cascade([FAB, MM, APGD], WANTED, budget=210)[0].choices] == [2, 1]
  assert [one.newly for one in build_cascade([FAB, MM, APGD], WANTED, budget=150)[0].choices] == [2]


def test_greedy_is_a_good_order_on_random_flags():
  rng = np.random.default_rng(0)
  for _ in range(20):
    broken, cost = rng.random((5, 40)) < rng.random((5, 1)), rng.uniform(1, 20, (5, 1)) * np.ones((5, 40))
    order = order_by_yield(broken, cost)
    assert sorted(order) == list(range(5))
    others = [cascade_cost(rng.permutation(5), broken, cost) for _ in range(30)]
    assert cascade_cost(order, broken, cost) <= 1.05 * min(others)
    assert sum(one.newly for one in choose_stages(broken, cost)) == broken.any(0).sum()


def test_unlike_cells_are_refused_in_a_line():
  other = stored(make_attack("pgd"), (1, 0, 0, 0), (40,) * 4, data_fingerprint="e")
  with pytest.raises(InputError, match=r"linf-apgd-ce-10@8/255 and linf-pgd-40@8/255 differ in data_fingerprint"):
    build_cascade([APGD, other], WANTED)
  flipped = stored(make_attack("pgd"), (1, 0, 0, 0), (40,) * 4)
  flipped.examples["correct"][0] = False
  with pytest.raises(InputError, match="right before the attack"):
    build_cascade([APGD, flipped], WANTED)
  with pytest.raises(InputError, match="no cell of net on images within linf 4/255"):
    build_cascade([APGD], WANTED._replace(eps="4/255"))
  with pytest.raises(InputError, match="nothing to build"):
    build_cascade([POOR], WANTED)
  # Whose stages cost differently cannot be told apart by a sum of queries; another question is no candidate.
  mixed = stored(make_attack("autoattack"), (1, 1, 1, 1), (9,) * 4)
  moved = stored(make_attack("pgd"), (1, 1, 1, 1), (1,) * 4, transfer={"source": "other"})
  built, passed = build_cascade([APGD, mixed, moved], WANTED)
  assert len(built.candidates) == 1 and list(passed) == ["linf-autoattack@8/255"]


def test_texts_and_configurations_make_the_same_stages():
  for name in ("autoattack", "autoattack-plus", "mm+", "autoae"):
    for norm in ("linf", "l2"):
      stages = make_attack(name, norm=norm).stages
      assert parse_cascade(cascade_text(stages), norm).stages == stages
      assert tuple(map(stage_of, schedule_config(Cascade(stages)))) == stages
  assert "mm+" in ATTACKS and parse_cascade("mm+:square").stages[:-1] == make_attack("mm+").stages
  for text, message in (
    ("", "needs stages"),
    ("pgd,steps", "written pgd,key=value"),
    ("apgd-t,targets=2,rank=1", "targets or rank, not both"),
    ("apgd-t,rank=0", "rank must be at least 1"),
    ("mm5,targets=2", "chooses its own stages"),
    ("autoattack-audit", "no cascade of stages"),
  ):
    with pytest.raises(InputError, match=message):
      parse_cascade(text)
  with pytest.raises(UnknownNameError, match="did you mean 'pgd'"):
    parse_cascade("apgd-ce:pgdd")
  with pytest.raises(InputError, match="not a registered one"):
    stage_of({"rank": None, "restart": 0, "attack": "Mine", "strength": 3})


def test_the_command_prints_stages_and_the_line_that_runs_them(tmp_path, capsys):
  for result in (APGD, MM, FAB):
    save_result(tmp_path, result)
  given = ["cascade", f"--root={tmp_path}", "--model=net", "--data=images"]
  assert main(given) == 0
  shown = capsys.readouterr().out
  assert "0 of 5 examples stand, for 510 forward passes" in shown
  assert "--suite=cascade --stages=apgd-ce,num_steps=10:mm,targets=3:fab-t,num_steps=50" in shown
  assert main([*given, "--json", "--attacks=*mm*"]) == 0
  told = json.loads(capsys.readouterr().out)
  assert (told["stages"], told["robust"], told["rows"][0]["newly"]) == ("mm,targets=3", 1, 3)
  save_result(tmp_path, Result(**{**vars(MM), "cell": Cell(**{**vars(MM.cell), "n": 4}), "examples": {
    name: array[:4] for name, array in MM.examples.items()}}))  # fmt: skip
  assert main(given) == 2 and "choose with --n" in capsys.readouterr().err
  assert main([*given, "--n=4"]) == 0
  assert main(["cascade", f"--root={tmp_path}"]) == 2 and "no model" in capsys.readouterr().err
