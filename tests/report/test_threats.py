"""Threats that are no norms: boards of their own after those of the norms, named with their unit on page and plots."""

import csv
import io
import json
import re

import numpy as np
import pytest

from jaxrobust.analysis.transfer_map import transfer_map
from jaxrobust.analysis.zoo_cells import cells_zoo
from jaxrobust.cli.attack import _verdict
from jaxrobust.core.errors import InputError
from jaxrobust.engine.api import AttackResult
from jaxrobust.evaluation.verdicts import summarize
from jaxrobust.report.boards import make_boards
from jaxrobust.report.cell_rows import read_cell_rows
from jaxrobust.report.documents import budget_curves, model_id, strength_curves, transfer_maps
from jaxrobust.report.report import write_report
from jaxrobust.results import Cell, Result, load_results, save_result
from jaxrobust.results.exchange import oodrobustbench
from jaxrobust.results.folder import open_folder
from tests.report.synthetic import result, write_model

N = 24
STADV = {"name": "stadv", "unit": "pixels"}
LPIPS = {"name": "lpips-alexnet"}


def save(root, attack, eps, threat, robust=0.5, model="a", **arrays):
  """A cell whose configuration says its threat."""
  correct = np.arange(N) < N - 4
  examples = {"correct": correct, "robust": correct & (np.arange(N) < robust * N), **arrays}
  made = result(Cell(model=model, data="digits", attack=attack, eps=eps, n=N), examples)
  save_result(root, Result(**{**vars(made), "config": {"threat": threat}}))


@pytest.fixture
def root(tmp_path):
  for at, model in enumerate("ab"):
    write_model(tmp_path, model, at, n=N)
    broken_at = np.where(np.arange(N) < 12, -1, 3).astype(np.int32)
    for eps, robust in (("0.05", 0.5), ("0.02", 0.75)):
      save(tmp_path, "stadv-flow-10", eps, STADV, robust, model, broken_at=broken_at)
    save(tmp_path, "lpips-alexnet-pgd-40", "0.5", LPIPS, 0.25, model)
    distance = np.linspace(0.1, 0.9, N, dtype=np.float32)
    save(tmp_path, "lpips-alexnet-lpa-40", None, LPIPS, 0.0, model, distance=distance)
    save(tmp_path, "transfer:b:stadv-flow-10", "0.05", STADV, 0.7, model)
  return tmp_path


def rows_of(root):
  return read_cell_rows(open_folder(root)).rows


def test_boards_of_other_threats_follow_those_of_the_norms(root):
  boards = make_boards(rows_of(root))
  assert [board.name for board in boards] == [
    "digits, linf 4/255", "digits, linf 8/255",
    "digits, lpips-alexnet 0.5", "digits, stadv 0.02 pixels", "digits, stadv 0.05 pixels",
  ]  # fmt: skip
  assert [board.norm for board in boards] == ["linf", "linf", "", "", ""]
  perceptual, flow = boards[2], boards[4]
  assert {column.label for column in perceptual.columns[3:]} == {"lpa-40", "PGD-40"}
  assert {column.key for column in flow.columns[3:]} == {"stadv-flow-10"}
  assert flow.rows["a"][0].value == 12 / N
  # Within 0.5 the attack without a budget broke what lies nearer.
  near = perceptual.columns.index(next(column for column in perceptual.columns if "lpa" in column.key))
  expected = (np.linspace(0.1, 0.9, N) > 0.5) & (np.arange(N) < N - 4)
  assert perceptual.rows["a"][near].value == pytest.approx(expected.mean())


def test_norm_boards_are_what_they_were_without_other_threats(root, tmp_path_factory):
  alone = tmp_path_factory.mktemp("alone")
  for at, model in enumerate("ab"):
    write_model(alone, model, at, n=N)
  before, after = make_boards(rows_of(alone)), make_boards(rows_of(root))
  assert after[: len(before)] == before


def test_curves_name_the_threat_and_its_unit(root):
  rows = [row for row in rows_of(root) if row.cell.model == "a"]
  curves = budget_curves(rows)
  threats = [curve["threat"] for curve in curves]
  assert threats == sorted(threats, key=["linf", "lpips-alexnet", "stadv"].index) and set(threats) >= {"linf", "stadv"}
  flow = next(curve for curve in curves if curve["threat"] == "stadv")
  assert (flow["norm"], flow["unit"], flow["attack"]) == ("", "pixels", "stadv-flow-10")
  assert [x for x, _ in flow["points"]] == [0.0, 0.02, 0.05]
  strength = {(curve["threat"], curve["unit"], curve["attack"]) for curve in strength_curves(rows)}
  assert ("stadv", "pixels", "stadv-flow-10@0.05") in strength and ("linf", "", "linf-pgd-20@8/255") in strength


def test_transfer_maps_carry_the_threat(root):
  models = {model: [row for row in rows_of(root) if row.cell.model == model] for model in "ab"}
  found = {item["attack"]: item["threat"] for item in transfer_maps(models)}
  assert found == {"linf-pgd-20@8/255": "linf", "stadv-flow-10@0.05": "stadv"}
  transfers = [result for result in load_results(root) if result.cell.attack.startswith("transfer:b:stadv")]
  assert transfer_map(transfers).threat == "stadv"
  other = Result(**{**vars(transfers[0]), "config": {"threat": LPIPS}})
  with pytest.raises(InputError, match="about one attack"):
    transfer_map([transfers[1], other])


def test_tables_page_and_plots_show_it(root, tmp_path_factory):
  pytest.importorskip("matplotlib")
  out = tmp_path_factory.mktemp("site")
  write_report(root, out, plots=True)
  tables = sorted(path.name for path in (out / "tables").glob("*.csv"))
  assert tables == [
    "digits-linf-4_255.csv", "digits-linf-8_255.csv",
    "digits-lpips-alexnet-0.5.csv", "digits-stadv-0.02.csv", "digits-stadv-0.05.csv",
  ]  # fmt: skip
  rows = {name: list(csv.DictReader(io.StringIO((out / "tables" / name).read_text()))) for name in tables}
  assert {(row["norm"], row["threat"]) for row in rows["digits-linf-8_255.csv"]} == {("linf", "linf")}
  assert {(row["norm"], row["threat"]) for row in rows["digits-stadv-0.05.csv"]} == {("", "stadv")}
  first = list(rows["digits-linf-8_255.csv"][0])
  assert first == ["data", "norm", "eps", "model", "column", "accuracy", "low", "high", "n", "threat", "rank"]
  assert "digits, stadv 0.05 pixels" in (out / "tables" / "digits-stadv-0.05.md").read_text()
  assert "digits, stadv 0.05 pixels" in (out / "tables" / "digits-stadv-0.05.tex").read_text()
  index = script(out / "data" / "index.js")
  assert [(board["norm"], board["threat"], board["unit"]) for board in index["boards"]][1:4] == [
    ("linf", "linf", ""), ("", "lpips-alexnet", ""), ("", "stadv", "pixels"),
  ]  # fmt: skip
  cells = {cell["attack"]: cell for cell in script(out / "data" / "models" / f"{model_id('a')}.js")["cells"]}
  assert cells["stadv-flow-10"]["threat"] == "stadv" and cells["stadv-flow-10"]["norm"] is None
  assert cells["linf-pgd-20"]["threat"] == cells["linf-pgd-20"]["norm"] == "linf" and cells["none"]["threat"] is None
  plots = {path.name for path in (out / "plots").glob("*.svg")}
  assert {"curves-digits-stadv-stadv-flow-10.svg", "curves-digits-linf-linf-pgd-20.svg"} <= plots
  assert {"bars-digits-stadv-0.05.svg", "scatter-digits-stadv-0.05.svg"} <= plots
  assert "stadv budget, pixels" in (out / "plots" / "curves-digits-stadv-stadv-flow-10.svg").read_text()
  assert "budget × 255" in (out / "plots" / "curves-digits-linf-linf-pgd-20.svg").read_text()


def script(path):
  """The last value a script of the page is called with."""
  return json.loads(f"[{re.fullmatch(r'JR[.][a-z]+[(](.*)[)];', path.read_text().strip(), re.DOTALL)[1]}]")[-1]


def test_a_distance_that_is_not_defined_is_none(tmp_path):
  undefined = np.where(np.arange(N) < 12, np.nan, np.inf).astype(np.float32)
  save(tmp_path, "stadv-near-10", None, STADV, 0.5, distance=undefined)
  save(tmp_path, "stadv-flow-10", "0.05", STADV, 0.5)
  rows = rows_of(tmp_path)
  (near,) = (row for row in rows if row.cell.eps is None)
  assert near.curve() is None and near.flags_at(0.05) is None
  (board,) = make_boards(rows)
  assert {column.key for column in board.columns} == {"worst", "clean", "stadv-flow-10"}
  flags = dict.fromkeys(("correct", "robust", "nan", "disagree"), np.ones(N, bool))
  summary = summarize({**flags, "queries": np.ones(N, np.int32), "distance": undefined})
  assert summary["median_distance"] is None
  empty = dict.fromkeys(AttackResult._fields) | {"correct": flags["correct"], "robust": flags["robust"]}
  near = type("Near", (), {"minimal": True})()
  shown = lambda distance: _verdict(near, AttackResult(**empty | {"distance": distance}))
  assert shown(np.full(N, np.nan)).endswith(", no distance")
  assert shown(np.full(N, 0.25)).endswith(", median distance 0.25")


def test_a_hostile_threat_costs_nothing_but_its_name(tmp_path):
  for at, threat in enumerate([3, [], {"name": 7}, {"name": ""}, {"name": "</script>../\x00", "unit": ["x"]}]):
    save(tmp_path / "results", "linf-pgd-20", "8/255", threat, model=f"m{at}")
  written = write_report(tmp_path / "results", tmp_path / "site")
  assert written.models == 5 and not written.problems
  assert {path.parent for path in (tmp_path / "site").rglob("*.csv")} == {tmp_path / "site" / "tables"}
  assert "</script>" not in (tmp_path / "site" / "data" / "index.js").read_text()


def test_threats_of_zoos_and_exports():
  results = [
    Result(
      cell=Cell(model=model, data="digits", attack=attack, eps=eps, n=10),
      config={"threat": threat}, summary={"robust_accuracy": 0.5}, examples={},
    )
    for model in "ab"
    for attack, eps, threat in (
      ("none", None, None),
      ("linf-mm5", "8/255", {"name": "linf"}),
      ("lpips-alexnet-lpa-40", "0.5", LPIPS),
    )
  ]  # fmt: skip
  columns = cells_zoo(results, attack="linf-mm5@8/255").columns
  assert any(name.startswith("lpips-alexnet-lpa-40@0.5") for name in columns)
  documents = [json.loads(text) for _, text in oodrobustbench.write(results)]
  assert documents[0]["adv_acc"] == {"Linf-mm5-0.031373": 0.5, "lpa-40-0.5": 0.5}
