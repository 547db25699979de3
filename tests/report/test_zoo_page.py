"""The OOD part of the report: boards, lines and residuals equal the published numbers and what is counted by hand."""

import json

import numpy as np
import pytest

from jaxrobust.report.report import write_report
from jaxrobust.results import Cell, save_result
from jaxrobust.results.exchange import import_results
from tests.realdata import ROOT, needs_data
from tests.report.synthetic import result


def index(site):
  text = (site / "data" / "index.js").read_text()
  return json.loads(text.strip().removeprefix("JR.boards(").removesuffix(");"))


def test_lines_of_ones_own_cells(tmp_path):
  shares = {}
  for at in range(10):
    flags = lambda share: {"correct": np.ones(200, bool), "robust": np.arange(200) < 200 * share}
    here = 0.4 + 0.05 * at
    there = 0.7 * here + (0.05 if at == 3 else 0)
    shares[f"m{at}"] = round(200 * here) / 2, round(200 * there) / 2
    for condition, share in (("clean", here), ("fog-3-t32", there)):
      save_result(tmp_path / "r", result(Cell(model=f"m{at}", data="d", condition=condition, n=200), flags(share)))
  written = write_report(tmp_path / "r", tmp_path / "site")
  (zoo,) = index(tmp_path / "site")["zoos"]
  assert written.zoos == 1 and zoo["names"] == sorted(shares)
  assert zoo["columns"]["fog accuracy"] == pytest.approx([shares[name][1] for name in zoo["names"]], abs=0.51)
  line = next(trend for trend in zoo["trends"] if trend["y"] == "fog accuracy")
  x, y = np.array([zoo["columns"][name] for name in ("ID accuracy", "fog accuracy")])
  slope, intercept = np.polyfit(x, y, 1)
  assert (line["slope"], line["intercept"]) == (pytest.approx(slope, abs=1e-5), pytest.approx(intercept, abs=1e-4))
  assert line["residuals"] == pytest.approx(y - (slope * x + intercept), abs=1e-4)
  assert int(np.argmax(line["residuals"])) == 3
  places = lambda values: [1 + int((values > value).sum()) for value in values]
  assert zoo["ranks"]["of"] == [list(pair) for pair in zip(places(x), places(y), strict=True)]
  # An average of 1 of the 75 corruptions says so.
  assert "R_c[1 of 75] accuracy" in zoo["columns"] and "OOD_d accuracy" not in zoo["columns"]
  board = (tmp_path / "site" / "trends" / zoo["file"] / "board.csv").read_text()
  assert "above the line" in board and len(board.splitlines()) == 11


@pytest.mark.data
@needs_data
def test_the_published_boards(tmp_path):
  for name in ("cifar10", "imagenet"):
    file = ROOT / "published" / f"oodrobustbench_{name}_Linf.csv"
    import_results("oodrobustbench-leaderboard", file, tmp_path / "r")
  write_report(tmp_path / "r", tmp_path / "site")
  document = index(tmp_path / "site")
  assert [len(zoo["names"]) for zoo in document["zoos"]] == [65, 18]
  assert [len(board["rows"]) for board in document["boards"]] == [65, 18]
  wanted = {
    ("cifar10", "OOD_d robustness"): (0.7221, -5.889, 0.9674, 66.32),
    ("imagenet", "OOD_d robustness"): (0.4901, -6.120, 0.9725, 42.89),
  }
  for zoo in document["zoos"]:
    for trend in zoo["trends"]:
      numbers = wanted.get((zoo["source"].partition(",")[0], trend["y"]))
      if numbers and trend["kind"] == "Rob-Rob":
        slope, intercept, r2, limit = numbers
        assert (round(trend["slope"], 4), round(trend["intercept"], 3)) == (slope, intercept)
        assert (round(trend["r2"], 4), round(trend["limit"][0], 2)) == (r2, limit)
