"""Audits as cells: both phases are ordinary verdicts, a narrower one continues, and layout changes nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from jaxrobust.attacks.audit import Audit, audit_of
from jaxrobust.attacks.registry import make_attack
from jaxrobust.core.errors import InputError
from jaxrobust.engine.options import EngineOptions
from jaxrobust.evaluation import audit_job
from jaxrobust.evaluation.evaluate import evaluate
from jaxrobust.evaluation.job import RunOptions
from jaxrobust.evaluation.suites import entry_of
from jaxrobust.report.cell_rows import make_cell_row
from jaxrobust.results import load_result, load_results
from tests.evaluation.digits_model import digits_classifier

N, EPS = 200, "24/255"
CHEAP, FULL = make_attack("bim", num_steps=2, step_size=0.4), make_attack("pgd", num_steps=4)


def options(slots: int = 16, **more) -> RunOptions:
  return RunOptions(EngineOptions.for_platform(slots), quiet=True, **more)


def audited(out, width, run=None, evaluations=0.0):
  entry = entry_of(audit_of(CHEAP, FULL, width, evaluations), EPS)
  return evaluate(digits_classifier(), "digits32", [entry], n=N, name="digits", out=out, options=run or options())


@pytest.fixture(scope="module")
def full(tmp_path_factory):
  out = tmp_path_factory.mktemp("full")
  entries = [entry_of(attack, EPS) for attack in (CHEAP, FULL)]
  report = evaluate(digits_classifier(), "digits32", entries, n=N, name="digits", out=out, options=options())
  return [result.examples["robust"] for result in report.results]


def test_a_whole_audit_is_the_cascade_of_both_attacks(tmp_path, full):
  wide, whole = (audited(tmp_path, width).results[0] for width in (8.0, 0.001))
  cheap, pgd = full
  assert (whole.examples["robust"] == (cheap & pgd)).all() and (whole.examples["robust_cheap"] == cheap).all()
  assert whole.summary["robust_accuracy"] == (cheap & pgd).mean() and (cheap & ~pgd).any()
  assert whole.summary["audit"]["low"] == whole.summary["audit"]["high"] == whole.summary["robust_accuracy"]
  # Both phases are verdicts of ordinary cells, sampled in one order, which the wider audit has begun.
  drawn = [np.argsort(one.examples["audited"])[(one.examples["audited"] < 0).sum() :] for one in (wide, whole)]
  assert 0 < len(drawn[0]) < len(drawn[1]) == cheap.sum()
  assert (drawn[1][: len(drawn[0])] == drawn[0]).all()
  assert wide.summary["audit"]["low"] <= (cheap & pgd).mean() <= wide.summary["audit"]["high"]
  stages = whole.examples["stage"]
  assert (stages[cheap & ~pgd] == 1).all() and (stages[cheap & pgd] == -1).all()


def test_an_audit_does_not_depend_on_layout_history_or_processes(tmp_path, monkeypatch):
  alone = audited(tmp_path / "a", 3.0).results[0]
  audited(tmp_path / "b", 8.0, options(6))
  again = audited(tmp_path / "b", 3.0, options(6)).results[0]
  shards = [audited(tmp_path / "c", 3.0, options(process=part, processes=2)) for part in (1, 0)]
  assert not shards[0].whole and shards[1].whole
  for other in (again, shards[1].results[0]):
    assert alone.summary == other.summary
    for name in ("robust", "robust_cheap", "audited", "stratum", "queries", "stage"):
      assert (alone.examples[name] == other.examples[name]).all(), name
  # What is on disk is neither attacked nor audited again.
  monkeypatch.setattr(audit_job, "run_some", None)
  (path,) = (tmp_path / "b").rglob("*audit-3%7E*.json")
  path.unlink()
  assert audited(tmp_path / "b", 3.0).results[0].summary == alone.summary


def test_an_audit_ends_at_its_evaluations_and_is_marked(tmp_path):
  result = audited(tmp_path, 0.01, evaluations=250.0).results[0]
  told = result.summary["audit"]
  assert 250 <= result.examples["queries"].sum() < 400 and told["audited"] < told["survivors"]
  row = make_cell_row("x", load_result(result.cell.path(tmp_path)))
  assert row.number.audited and row.flags() is None and str(row.number).startswith("≈")
  assert row.number.plain()["audited"] and (row.number.low, row.number.high) == (told["low"], told["high"])
  assert len(list(load_results(tmp_path))) == 2  # Phase one, and the audit; what is kept of phase two is no cell.
  assert told["share_of_queries"] == pytest.approx(
    result.examples["queries"].sum() / (result.examples["queries"].sum() + told["queries_left"])
  )


def test_what_makes_no_audit_is_refused_in_a_line():
  cascade = make_attack("mm5")
  for width in (0.0, -1.0, 50.0):
    with pytest.raises(InputError, match="width of an audit"):
      audit_of(cascade, cascade, width)
  with pytest.raises(InputError, match="within a budget"):
    audit_of(make_attack("ddn"), make_attack("pgd", norm="l2"))
  with pytest.raises(InputError, match="share one threat"):
    audit_of(cascade, make_attack("pgd", norm="l2"))
  with pytest.raises(InputError, match="not a Audit"):
    audit_of(make_attack("autoattack-audit"), cascade)
  with pytest.raises(InputError, match="bounded by"):
    replace(Audit(cascade, cascade), evaluations=-1.0)
