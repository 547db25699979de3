"""The view of architectures: figures of cells and of supernets are files, and on the page with their numbers."""

import json

import numpy as np
import pytest

from jaxrobust.analysis.supernets import factor_effects
from jaxrobust.nas.rank_correlation import kendall
from jaxrobust.nas.space import representatives
from jaxrobust.nas.supernets.study import StudyRow
from jaxrobust.report.report import write_report
from tests.cli.calling import call
from tests.report.test_page import HOSTILE, Page
from tests.report.test_zoo_page import index

pytest.importorskip("matplotlib")
pytestmark = pytest.mark.ci
IDS = representatives()[:30]
VALUES = np.round(np.random.default_rng(0).random((3, len(IDS), 2)), 3)


def write_cells(folder):
  """Writes a data set of cells in the paper's layout, with two data sets."""
  for number, data in enumerate(("cifar10", HOSTILE.replace("/", "_"))):
    (folder / data).mkdir(parents=True)
    keys = {"clean": VALUES[number, :, 0].tolist(), "fgsm@Linf": VALUES[number].tolist()}
    for key, rows in keys.items():
      found = {data: {key: {"accuracy": dict(zip(map(str, IDS), rows, strict=True))}}}
      (folder / data / f"{key}_accuracy.json").write_text(json.dumps(found))
  (folder / "meta.json").write_text(json.dumps({"ids": {}, "epsilons": {"fgsm@Linf": [0.5, 4.0]}}))


@pytest.fixture(scope="module")
def rows():
  rng = np.random.default_rng(1)
  factors = [{"params": float(n), "size": float(rng.integers(2)), "kernel": float(rng.integers(9))} for n in range(12)]
  return [StudyRow("random", each, rng.random(), rng.random()) for each in factors]


@pytest.fixture(scope="module")
def site(tmp_path_factory, rows):
  root = tmp_path_factory.mktemp("architectures")
  write_cells(root / "nas" / "dataset" / "foolbox")
  lines = [json.dumps({"uid": int(uid), "jacobian": float(n), "about": {}}) for n, uid in enumerate(IDS)]
  (root / "nas" / "measures.jsonl").write_text("\n".join([*lines, '{"uid": 1, "jac']))
  (root / "supernet").mkdir()
  (root / "supernet" / "supernet.json").write_text("{}")
  (root / "supernet" / "subnets.jsonl").write_text("".join(json.dumps(row._asdict()) + "\n" for row in rows))
  written = write_report(root / "nas", root / "site", also=[root / "supernet"], plots=True)
  assert not written.problems and written.models == 0
  return written.page.parent


def test_the_document_has_every_figure_and_its_numbers(site, rows):
  sets = index(site)["architectures"]
  assert [one["name"].split(", ")[0] for one in sets] == ["foolbox", "foolbox", "foolbox", "supernets"]
  for one in sets:
    for figure in one["figures"]:
      assert all((site / one["place"] / file).stat().st_size for file in figure["files"])
  named = [{figure["name"]: figure for figure in one["figures"]} for one in sets]
  (cifar10,) = (figures for one, figures in zip(sets, named, strict=True) if one["name"] == "foolbox, cifar10")
  assert {"ranges-attacks", "kendall-attacks", "best-cells", "sizes", "measures"} <= set(cifar10)
  (across,) = named[2].values()
  assert (across["paper"], len(across["rows"])) == ("17", 6)
  measures = [dict(zip(cifar10["measures"]["columns"], row, strict=True)) for row in cifar10["measures"]["rows"]]
  wanted = round(kendall(np.arange(len(IDS)), VALUES[0, :, 1]), 4)
  assert [row["tau"] for row in measures if row["column"] == "fgsm@4"] == [wanted]
  (factors,) = named[3].values()
  assert len(factors["rows"]) == len(factor_effects(rows)) and {"r", "r_low", "r_high"} <= set(factors["columns"])


def test_the_page_shows_the_pictures(browser, site):
  browser.get("about:blank")
  browser.get_log("browser")
  browser.get(f"{(site / 'index.html').as_uri()}#/architectures")
  view = Page(browser)
  view.wait("img.drawn")
  sets = view.index()["architectures"]
  assert "Architectures" in view.texts("nav a")
  assert len(view.find("img.drawn")) == len(sets[0]["figures"])
  view.run("document.querySelectorAll('img').forEach((image) => { image.loading = 'eager'; })")
  loaded = (
    "return [...document.querySelectorAll('img.drawn')].every((image) => image.complete && image.naturalWidth > 0)"
  )
  from selenium.webdriver.support.ui import WebDriverWait

  WebDriverWait(browser, 60).until(lambda window: window.execute_script(loaded))
  first = sets[0]["figures"][0]
  assert len(view.find("#figure-ranges-attacks tbody tr")) == len(first["rows"]) == 3
  command = {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": False}
  browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", command)
  try:
    assert view.run("return document.documentElement.scrollWidth") <= 390
  finally:
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
  view.run("const s = document.querySelector('select'); s.value = arguments[0]; s.dispatchEvent(new Event('change'))",
           sets[3]["place"])  # fmt: skip
  view.wait("#figure-factors img")
  assert [entry for entry in browser.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")] == []
  assert browser.execute_script("return window.hit") is None


def test_a_data_set_that_cannot_be_read_is_a_problem_and_no_more(tmp_path):
  write_cells(tmp_path / "nas")
  (tmp_path / "nas" / "cifar10" / "clean_accuracy.json").write_text("{")
  code, out, err = call("report", tmp_path / "nas", f"--out={tmp_path / 'site'}", "--plots=yes")
  assert code == 0 and "finding: " in out and "clean_accuracy.json" in out, err
  assert index(tmp_path / "site")["architectures"] == []


def test_figures_are_drawn_of_the_data_sets_asked_for(tmp_path):
  write_cells(tmp_path / "nas")
  code, out, err = call("nas", "figures", tmp_path / "nas", "--table=cifar10", f"--out={tmp_path / 'out'}")
  assert code == 0 and out.startswith("cifar10: ") and "across" not in out, err
  assert {path.name for path in (tmp_path / "out").iterdir()} == {"cifar10"}
  code, _, err = call("nas", "figures", tmp_path, f"--out={tmp_path / 'none'}")
  assert code and "no data set of cells" in err
