"""The OOD part of the report: boards, lines and residuals equal the published numbers and what is counted by hand."""

import json
import time

import numpy as np
import pytest

from jaxrobust.analysis.correlations import correlation_matrix
from jaxrobust.analysis.trends import column_pairs, fit_trends
from jaxrobust.analysis.zoo import make_zoo, read_csv
from jaxrobust.report.plots import plotting
from jaxrobust.report.report import write_report
from jaxrobust.report.trend_plots import _boxes, _heat, _scatter, band
from jaxrobust.results import Cell, save_result
from jaxrobust.results.exchange import import_results
from tests.cli.calling import call
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


def table(path, n=12):
  """A table of models about y = 0.7 x - 6, which meets 0 on the page."""
  x = np.linspace(20, 60, n)
  y = 0.7 * x - 6 + np.sin(5 * x)
  names = [f"lpips-network-of-a-long-name.912787-{name}@0.5 robustness" for name in ("lpa-200", "ppgd-40")]
  lines = [f"m{at},{a},{b},{b},{b - 1}" for at, (a, b) in enumerate(zip(x, y, strict=True))]
  path.write_text("\n".join(["model,ID robustness,OOD_d robustness," + ",".join(names), *lines]))
  return path


def test_a_table_alone_is_a_page(tmp_path):
  file = table(tmp_path / "zoo.csv")
  code, out, err = call("report", file, f"--out={tmp_path / 'site'}", "--plots=no")
  assert code == 0 and "1 zoos with OOD trends" in out and "0 models" not in out, err
  document = index(tmp_path / "site")
  (zoo,) = document["zoos"]
  assert document["boards"] == [] and zoo["models"] == [None] * 12 and zoo["trends"][0]["y"] == "OOD_d robustness"
  assert (tmp_path / "site" / "trends" / zoo["file"] / "board.csv").is_file() and zoo["file"].startswith("zoo.csv-")
  # What the command line says of the same table, to the last digit.
  (line, *_) = map(json.loads, call("trends", file, "--json")[1].splitlines())
  assert zoo["trends"][0]["ends"]["slope"] == pytest.approx([line["slope_low"], line["slope_high"]], abs=1e-6)
  file.write_text("model,x\na,1\nb,2\nc,3\n")
  code, _, err = call("report", file, f"--out={tmp_path / 'site'}")
  assert code and "no ID and OOD columns" in err
  # Beside cells, too.
  save_result(
    tmp_path / "r", result(Cell(model="m", data="d", n=9), {name: np.ones(9, bool) for name in ("correct", "robust")})
  )
  written = write_report(tmp_path / "r", tmp_path / "both", tables=[table(file)])
  assert (written.models, written.zoos) == (1, 1)


@pytest.mark.parametrize("scale", ["raw", "probit"])
def test_the_band_is_the_interval_of_the_limit(tmp_path, scale):
  places = np.array([0.0, 40.0, 100.0])
  for n in (4, 12):
    zoo = read_csv(table(tmp_path / "zoo.csv", n))
    ((trend,), _) = fit_trends(zoo, column_pairs(zoo)[:1], scale)
    low, high = band(trend, places)
    if n < 8:
      assert low.tolist() == high.tolist() == np.clip(trend.line.predict(places), 0, 100).tolist()
    elif scale == "raw":
      assert (low[2], high[2]) == pytest.approx(tuple(trend.intervals["limit"]))
    assert (low <= np.clip(trend.line.predict(places), 0, 100)).all()


def test_plots_tell_long_names_apart(tmp_path):
  zoo = read_csv(table(tmp_path / "zoo.csv"))
  names = [name for name in zoo.columns if name.startswith("lpips")]
  values = {name: zoo.column(name) for name in zoo.columns}
  with plotting() as plt:
    boxes, heat = _boxes(plt, zoo, values), _heat(plt, correlation_matrix(values, draws=10))
    for axis in (boxes.axes[0].yaxis, heat.axes[0].yaxis, heat.axes[0].xaxis):
      texts = [text.get_text() for text in axis.get_ticklabels()]
      assert len(texts) == len(set(texts)) == len(values) and len(names) == 2
    plt.close("all")


def test_what_does_not_fit_on_the_page_is_said(tmp_path):
  kinds = [f"{shift} {kind}" for shift in ("ID", *range(30)) for kind in ("accuracy", "robustness")]
  rows = [f"m{at}," + ",".join(str(40 + at * at + k % 7) for k in range(len(kinds))) for at in range(4)]
  (tmp_path / "wide.csv").write_text("\n".join([",".join(["model", *kinds]), *rows]))
  assert call("report", tmp_path / "wide.csv", f"--out={tmp_path / 'site'}", "--plots=no")[0] == 0
  (zoo,) = index(tmp_path / "site")["zoos"]
  assert len(zoo["trends"]) == 80 and len(zoo["correlations"]["columns"]) == 24
  assert [note.partition(" are here")[0] for note in zoo["notes"]] == ["80 of 120 lines", "24 of 62 correlated columns"]


def test_every_group_is_in_the_plot():
  groups = [f"g{at // 3}" for at in range(27)]
  x = np.arange(27.0)
  zoo = make_zoo({"model": list(map(str, x)), "technique": groups, "ID robustness": x, "fog robustness": x * x / 27})
  whole, *parts = fit_trends(zoo, column_pairs(zoo), group="technique", draws=2)[0]
  with plotting() as plt:
    drawn = _scatter(plt, whole, parts).axes[0]
    assert set(groups) <= set(drawn.get_legend_handles_labels()[1])
    plt.close("all")


def test_shifts_with_catastrophic_drops_are_always_drawn():
  zoo = make_zoo({"model": list("abcdefgh"), "ID accuracy": np.arange(50, 58)})
  drops = {f"s{at}": np.arange(10 + at, 18.0 + at) for at in range(41)} | {
    "calm": np.array([0, 0, 1, 1, 0, 1, 0, 40.0])
  }
  with plotting() as plt:
    texts = [text.get_text() for text in _boxes(plt, zoo, drops).axes[0].get_yticklabels()]
    plt.close("all")
  assert len(texts) == 40 and "calm" in texts and texts[-1] == "s40" and "s1" not in texts


def test_lines_are_straight_and_long_names_differ(browser, tmp_path):
  page = write_report(None, tmp_path / "site", tables=[table(tmp_path / "zoo.csv")]).page
  browser.get("about:blank")
  browser.get(page.as_uri())
  end = time.monotonic() + 60
  while not browser.execute_script("return document.querySelector('path.fit') !== null"):
    assert time.monotonic() < end, "tables alone lead to no lines"
    time.sleep(0.05)
  # From one end of the frame to the other, below 0 too, where it is cut off.
  drawn = browser.execute_script("return document.querySelector('path.fit').getAttribute('d')")
  (x0, y0), (x1, y1) = (map(float, part.split()) for part in drawn[1:].split("L"))
  (zero, top) = browser.execute_script(
    "const at = document.querySelector('line.same'); return ['y1', 'y2'].map((name) => Number(at.getAttribute(name)))"
  )
  (line, *_) = index(tmp_path / "site")["zoos"][0]["trends"]
  percent = lambda y: 100 * (zero - y) / (zero - top)
  assert percent(y0) == pytest.approx(line["intercept"], abs=0.05) and percent(y0) < 0 and x0 < x1
  assert percent(y1) == pytest.approx(line["intercept"] + 100 * line["slope"], abs=0.05)
  names = [node.text for node in browser.find_elements("css selector", "figure text") if "…" in node.text]
  assert len(names) == 2 == len(set(names))
  # A point leads to its model: where a table is all there is, to the row on the board, with the mouse and without.
  (model, *_), key = index(tmp_path / "site")["zoos"][0]["names"], "\ue007"
  browser.find_element("css selector", "figure svg a").send_keys(key)
  assert browser.switch_to.active_element.text.split()[1] == model and "#/trends" in browser.current_url


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
