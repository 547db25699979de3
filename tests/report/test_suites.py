"""Boards of suites say what the summaries say: values, partial marks, ranks, averages, curves, techniques."""

import csv
import io
import json

import numpy as np
import pytest

from jaxrobust.report.report import write_report
from jaxrobust.report.suite_boards import SuiteBoard, make_suite_boards, suite_curves, technique_effects, top_models
from jaxrobust.report.suite_plots import write_suite_plots
from jaxrobust.report.suite_tables import as_csv, as_latex, as_markdown, top_markdown
from jaxrobust.results import Cell, query, save_result
from jaxrobust.results.folder import open_folder
from jaxrobust.results.metrics import read_summaries
from tests.report.synthetic import result

MODELS = {"plain": ("net", "standard", 0.8), "at": ("net", "pgd-at", 0.6), "wide": ("wide", "standard", 0.9)}
PART = "corruption accuracy"
CURVE = {"x": [0.0, 4 / 255, 8 / 255], "y": [0.9, 0.5, 0.25]}


def summary(model, value, n=100, **metrics):
  share = lambda v: {"value": v, "low": v - 0.05, "high": v + 0.05, "n": n}
  found = {"accuracy": share(value), "imagenet-v2": share(value / 2), "1 - mCE": value / 4, "frequency bias": 30.9}
  return {
    "suite": "ares-bench", "model": model, "data": "digits", "threat": {"norm": "linf", "eps": "4/255"},
    "metrics": {**found, "linf-fgsm@4/255": share(value / 3), "NSD": None, **metrics},
    "curves": {"AutoAttack": {"unit": "linf", "area": 0.1, **CURVE}},
    "tables": {"corruptions": {"severity curve": {"x": [1, 5], "y": [0.7, 0.2]}, "mean accuracy": 0.5}},
    "cells": [f"{model} digits clean none n={n} seed=0"], "missing": {},
  }  # fmt: skip


def write_summary(root, document):
  path = root / document["model"] / f"{document['suite']}.summary.json"
  path.parent.mkdir(parents=True, exist_ok=True)
  path.write_text(json.dumps(document))


@pytest.fixture
def root(tmp_path):
  for model, (arch, technique, value) in MODELS.items():
    correct = np.arange(100) < 100 * value
    about = {"arch": arch, "technique": technique, "family": "f", "params": 1000 if arch == "net" else 5000}
    cell = Cell(model=model, data="digits", n=100)
    save_result(tmp_path, result(cell, {"correct": correct, "robust": correct}, about))
    write_summary(tmp_path, summary(model, value, **{PART: {"value": 0.3 + value / 10, "cells": 2, "of": 6}}))
  return tmp_path


def boards(root, about=None):
  wrong = []
  found = make_suite_boards(read_summaries(open_folder(root), lambda *problem: wrong.append(problem)), about)
  assert not wrong
  return found


def test_metrics_are_a_table_of_sql(root):
  pytest.importorskip("duckdb", reason="pip install 'jaxrobust[report]'")
  rows = query(root, "SELECT * FROM metrics WHERE model = 'at'").set_index("metric")
  assert rows.loc["accuracy", ["value", "low", "n", "partial"]].tolist() == [0.6, pytest.approx(0.55), 100, False]
  assert rows.loc[PART, ["value", "cells", "whole", "partial"]].tolist() == [pytest.approx(0.36), 2, 6, True]
  assert "NSD" not in rows.index and set(rows.suite) == {"ares-bench"} and set(rows.eps) == {"4/255"}
  best = query(
    root, "SELECT arg_max(m.model, m.value) AS b FROM metrics m JOIN cells c USING (model) WHERE metric = 'accuracy'"
  )
  assert best.b[0] == "wide"
  (root / "at" / "broken.summary.json").write_text("{")
  found = query(root, "SELECT kind, path FROM findings")
  assert found.values.tolist() == [["damaged", "at/broken.summary.json"]]


def test_ranks_and_averages_are_of_whole_numbers(root):
  (board,) = boards(root)
  assert board.ranks["accuracy"] == {"wide": 1, "plain": 2, "at": 3}
  assert board.ranks[PART] == {} and board.ranks["frequency bias"] == {}
  # Over the data sets, corruptions as 1 - mCE; not over attacks, nor what is not whole.
  assert board.averaged == ("accuracy", "imagenet-v2", "1 - mCE")
  assert list(board.rows) == ["wide", "plain", "at"] and board.mean_rank("wide") == 1.0
  write_summary(root, summary("plain", 0.95, n=10))
  (board,) = boards(root)
  assert board.ranks["accuracy"] == {"wide": 1, "at": 2} and board.mean_rank("plain") is None
  # Numbers that say no n of their own are of as many examples as their run.
  assert board.ranks["1 - mCE"] == {"wide": 1, "at": 2}
  assert [board.title(model) for model in ("plain", "at")] == ["plain (n = 10)", "at (n = 100)"]
  about = {"plain": {"arch": "net", "technique": ""}, "at": {"arch": "net", "technique": "pgd-at"}}
  (board,) = boards(root, about)
  assert not any(effect.means for effect in technique_effects(board)), "of another number of examples"


def test_a_metric_with_a_unit_is_no_share_and_has_no_ranks(root):
  for model, (_, _, value) in MODELS.items():
    norm = {"value": 30 * value, "low": 1.0, "high": 40.0, "n": 100}
    write_summary(root, summary(model, value, **{"Jacobian norm": norm}) | {"units": {"Jacobian norm": "logits"}})
  (board,) = boards(root)
  column = next(column for column in board.columns if column.name == "Jacobian norm")
  assert not column.share and board.ranks["Jacobian norm"] == {} and board.mean_rank("wide") == 1.0
  assert column.title == "Jacobian norm, logits" and "| Jacobian norm, logits |" in as_markdown(board)
  alone = SuiteBoard(**{**vars(board), "ranks": {name: {"wide": 1} for name in board.ranks}})
  assert alone.mean_rank("wide") is None, "there is nobody else"
  assert column.shown(board.metric("plain", "Jacobian norm")) == "24"


def test_what_ignores_a_defense_has_no_ranks(root):
  naive = "oblivious:gradient:linf-fgsm@4/255"
  for model in ("at", "wide"):
    write_summary(root, summary(model, MODELS[model][2], **{naive: {"value": 0.9, "n": 100}}))
    write_summary(root, summary(model, 0.9) | {"suite": "oblivious:gradient:basic"})
  adaptive, ignoring = boards(root)
  assert adaptive.ranks[naive] == {} and adaptive.mean_rank("plain") is not None
  assert ignoring.suite == "oblivious:gradient:basic" and not any(ignoring.ranks.values())


def test_an_average_lacks_models_that_lack_a_part(root):
  document = summary("short", 0.7)
  del document["metrics"]["imagenet-v2"]
  write_summary(root, document)
  (board,) = boards(root)
  assert board.averages["wide"] == pytest.approx(np.mean([0.9, 0.45, 0.225])) and "short" not in board.averages


def test_tables_say_the_same_as_the_summaries(root):
  (board,) = boards(root)
  text = as_markdown(board)
  assert "40.0 (2 of 6)" not in text and "38.0 (2 of 6)" in text and "**90.0**" in text and "30.9" in text
  assert r"\textbf{90.0}" in as_latex(board) and "wide (90.0)" in top_markdown(board).replace("\\", "")
  rows = list(csv.DictReader(io.StringIO(as_csv(board))))
  one = next(row for row in rows if (row["model"], row["metric"]) == ("at", "1 - mCE"))
  assert float(one["value"]) == 0.6 / 4 and one["rank"] == "3" and one["path"] == "at/ares-bench.summary.json"
  assert [model for model, _ in top_models(board)["accuracy"]] == ["wide", "plain", "at"]


def test_curves_and_techniques(root):
  about = {model: {"arch": arch, "technique": technique} for model, (arch, technique, _) in MODELS.items()}
  (board,) = boards(root, about)
  curves = suite_curves(board)
  assert curves["AutoAttack"][0] == "budget × 255" and curves["AutoAttack"][1]["at"] == [[0, 90], [4, 50], [8, 25]]
  assert curves["corruptions by severity"][1]["wide"] == [[1, 70], [5, 20]]
  (effect,) = technique_effects(board)
  assert effect.technique == "pgd-at" and effect.pairs == (("net", "plain", "at"),)
  assert effect.means["accuracy"] == (0.8, 0.6) and PART not in effect.means
  # Of several networks without it, the one that differs least.
  about |= {
    "plain": {"arch": "net", "technique": "flip+standard"},
    "at": {"arch": "net", "technique": "flip+pgd-at+ema"},
  }
  about["wide"] = {"arch": "net", "technique": "flip+pgd-at+awp+ema"}
  (board,) = boards(root, about)
  assert {e.technique: e.pairs[0][1:] for e in technique_effects(board)} == {
    "pgd-at+ema": ("plain", "at"), "awp": ("at", "wide"),
  }  # fmt: skip


def test_a_curve_of_success_is_not_called_accuracy(root, tmp_path):
  pytest.importorskip("matplotlib", reason="pip install 'jaxrobust[report]'")
  found = summary("plain", 0.8)
  found["curves"]["budget, success rate: AutoAttack"] = {"unit": "linf", **CURVE}
  write_summary(root, found)
  (board,) = boards(root)
  write_suite_plots([board], tmp_path / "plots")
  for path in (tmp_path / "plots").glob("*curve*AutoAttack*.svg"):
    assert (">success rate, %<" in path.read_text()) == ("success" in path.name)


def test_the_report_holds_boards_and_figures(root, tmp_path):
  pytest.importorskip("matplotlib", reason="pip install 'jaxrobust[report]'")
  written = write_report(root, tmp_path / "site", plots=True)
  assert written.suites == 1
  plots = {path.name for path in (tmp_path / "site" / "plots").glob("suite-*.svg")}
  for name in ("over-params", "technique-pgd-at", "curve-AutoAttack", "curve-corruptions_by_severity", "radar"):
    assert any(name in plot for plot in plots), (name, plots)
  document = (tmp_path / "site" / "data" / "index.js").read_text()
  suite = json.loads(document.strip().removeprefix("JR.boards(").removesuffix(");"))["suites"][0]
  row = next(row for row in suite["rows"] if row["name"] == "at")
  at = [column["name"] for column in suite["columns"]].index(PART)
  assert row["numbers"][at] == [36.0, None, None, None, 2, 6] and row["ranks"][at] is None
  assert row["cells"] == ["at digits clean none n=100 seed=0"] and row["params"] == 1000


def test_damaged_summaries_are_problems_and_nothing_more(root, tmp_path):
  texts = ["{", "[]", '{"model": 3, "metrics": {}}', '{"model": "x", "metrics": {"a": {"value": [1]}}, "tables": 3}']
  for at, text in enumerate(texts):
    (root / f"bad{at}.summary.json").write_text(text)
  written = write_report(root, tmp_path / "site")
  assert written.suites == 1 and len(written.problems) == len(texts)
