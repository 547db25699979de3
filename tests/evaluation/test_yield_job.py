"""Cascades in the order of measured yield: flags of any order, one order for all layouts, costs that come true."""

from __future__ import annotations

import numpy as np
import pytest

from jaxrobust.attacks.by_yield import ByYield
from jaxrobust.attacks.cascade_text import parse_cascade
from jaxrobust.attacks.registry import make_attack
from jaxrobust.attacks.schedule import Cascade
from jaxrobust.cli.main import main
from jaxrobust.core.errors import InputError, StoppedError
from jaxrobust.data.registry import load_data
from jaxrobust.engine.api import attack_images
from jaxrobust.engine.options import EngineOptions
from jaxrobust.evaluation import yield_job
from jaxrobust.evaluation.evaluate import evaluate
from jaxrobust.evaluation.job import RunOptions
from jaxrobust.evaluation.suites import entry_of
from jaxrobust.evaluation.suites.entry import stage_id
from jaxrobust.results import load_results
from tests.evaluation.digits_model import digits_classifier
from tests.evaluation.test_runner import stopping

N, EPS, PILOT = 60, "24/255", 20
# The first stage is a poor one; fab-t is minimal when it is alone.
CASCADE = parse_cascade(
  "square,num_steps=2:bim,num_steps=8,step_size=0.01:apgd-t,num_steps=4,targets=2:fab-t,num_steps=4,steer=True,rank=1:fgsm"
)


def options(slots: int = 16, **more) -> RunOptions:
  return RunOptions(EngineOptions.for_platform(slots), quiet=True, **more)


def evaluated(out, schedule, run=None, n=N):
  return evaluate(digits_classifier(), "digits32", [entry_of(schedule, EPS)], n=n, name="digits", out=out,
                  options=run or options())  # fmt: skip


@pytest.fixture(scope="module")
def ordered(tmp_path_factory):
  out = tmp_path_factory.mktemp("ordered")
  return out, evaluated(out, ByYield(CASCADE, PILOT)).results[0]


def test_flags_do_not_depend_on_the_order(ordered):
  images, labels = load_data("digits32").subset(N).take(np.arange(N))
  orders = [np.random.default_rng(seed).permutation(len(CASCADE.stages)) for seed in range(2)]
  schedules = [CASCADE, *(CASCADE.ordered(order) for order in orders)]
  found = [attack_images(one, digits_classifier(), images, labels, eps=EPS, batch_size=16) for one in schedules]
  assert 0 < found[0].robust.sum() < found[0].correct.sum()
  for other in found[1:]:
    assert (other.robust == found[0].robust).all()
  assert len({int(one.queries.sum()) for one in found}) > 1
  assert (ordered[1].examples["robust"] == found[0].robust).all()


def test_the_pilot_decides_the_order_and_predicts_the_cost(ordered, tmp_path):
  _, result = ordered
  told = result.summary["cascade"]
  assert sorted(told["order"]) == list(range(6)) and told["order"] != sorted(told["order"])
  assert told["order"][-1] == 0, "an attack without gradients stays behind those with them"
  assert told["pilot_ordered"] < told["pilot_usual"] <= told["measuring"]
  assert result.cell.attack.startswith("linf-cascade~") and result.cell.attack.endswith("-by-yield-20")
  # What was measured of the stages alone is what the cascade spends, to the pass.
  plain = Cascade(CASCADE.stages[1:], "cascade")
  (same,) = evaluated(tmp_path, ByYield(plain, PILOT), n=PILOT).results
  assert {yield_job.passes_per_query(stage) for stage in plain.stages} == {3.0}
  assert 3 * same.examples["queries"].sum() == same.summary["cascade"]["pilot_ordered"]
  # Stages are numbered as they are written: the one that broke an example breaks it alone.
  alone = {one.cell.attack: one.examples["robust"] for one in load_results(tmp_path) if one.cell != same.cell}
  assert len(alone) == len(plain.stages)
  for number, stage in enumerate(plain.stages):
    assert not alone[stage_id(stage)][same.examples["stage"] == number].any()
  assert len(set(same.examples["stage"].tolist())) > 2


@pytest.mark.ci
def test_layout_processes_and_a_resumed_run_have_the_same_order(ordered, tmp_path, monkeypatch):
  _, alone = ordered
  shards = [
    evaluated(tmp_path / "a", ByYield(CASCADE, PILOT), options(6, process=part, processes=2)) for part in (1, 0)
  ]
  assert not shards[0].whole and shards[1].whole
  with monkeypatch.context() as patch, pytest.raises(StoppedError, match="asked to stop at"):
    patch.setattr(yield_job.OrderedRun, "record", stopping(yield_job.OrderedRun.record, 12))
    evaluated(tmp_path / "b", ByYield(CASCADE, PILOT))
  resumed = evaluated(tmp_path / "b", ByYield(CASCADE, PILOT)).results[0]
  for other in (shards[1].results[0], resumed):
    assert other.summary == alone.summary
    for name, array in alone.examples.items():
      assert (other.examples[name] == array).all(), name


def test_what_has_no_order_is_refused_in_a_line(tmp_path, capsys):
  with pytest.raises(InputError, match="all minimal ones"):
    ByYield(parse_cascade("ddn:ddn,num_steps=5", "l2"))
  with pytest.raises(InputError, match="of a cascade of attacks, not of a Audit"):
    ByYield(make_attack("autoattack-audit"))
  with pytest.raises(InputError, match="pilot must be at least 1"):
    ByYield(CASCADE, 0)
  with pytest.raises(InputError, match="names each of 0 to 5 once"):
    CASCADE.ordered([0, 1, 1, 2, 3, 4])
  given = ["evaluate", "--suite=cascade", "--dry_run=true", "--data=digits32"]
  assert main([*given, "--order=yeild"]) == 2 and "'yield'" in capsys.readouterr().err
  assert main([*given, "--order=yield", "--pilot=7"]) == 0 and "by-yield-7" in capsys.readouterr().out
  with pytest.raises(InputError, match="an order by yield takes no certificates"):
    evaluated(tmp_path, ByYield(CASCADE, PILOT), options(certify="crown"))
